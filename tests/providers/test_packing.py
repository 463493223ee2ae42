"""The working folder on its way to other machines: what goes, what stays, and what is too much."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from elastune.errors import JobError
from elastune.runtime.ray.code_bundle import pack, unpack


def write(root: Path, *names: str, size: int = 1) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)


def unpacked(root: Path, into: Path) -> list[str]:
    unpack(pack(root).data, into)
    return sorted(path.relative_to(into).as_posix() for path in into.rglob("*") if path.is_file())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


def test_code_goes_and_what_is_none_stays(folder: Path, tmp_path: Path) -> None:
    write(folder, "train.py", "package/__init__.py", "package/deep/module.py", "words.txt", ".env.example")
    write(folder, ".git/config", ".venv/bin/python", "package/__pycache__/module.pyc", "node_modules/x.js")
    write(folder, "elastune-runs/a/journal.sqlite", "mine/pyvenv.cfg", "mine/lib/site.py", ".aws/credentials")
    assert unpacked(folder, tmp_path / "there") == [
        ".env.example",
        "package/__init__.py",
        "package/deep/module.py",
        "train.py",
        "words.txt",
    ]


def test_bytes_and_permissions_arrive_as_they_were(folder: Path, tmp_path: Path) -> None:
    (folder / "tool.sh").write_bytes(bytes(range(256)))
    (folder / "tool.sh").chmod(0o755)
    os.utime(folder / "tool.sh", (0, 0))  # before the first date that a zip knows
    unpacked(folder, tmp_path / "there")
    arrived = tmp_path / "there" / "tool.sh"
    assert arrived.read_bytes() == bytes(range(256))
    assert stat.S_IMODE(arrived.stat().st_mode) == 0o755


def test_what_is_ignored_stays(folder: Path, tmp_path: Path) -> None:
    write(folder, "train.py", "data/a.csv", "code/data/b.csv", "x.parquet", "deep/y.parquet", "docs/z.md")
    write(folder, "docs/keep.py", "notes", "deep/notes/kept.py")
    (folder / ".elastuneignore").write_text("# large\ndata/\n*.parquet\n\n/docs/*.md\n/notes\n")
    assert unpacked(folder, tmp_path / "there") == [
        ".elastuneignore",
        "deep/notes/kept.py",
        "docs/keep.py",
        "train.py",
    ]


def test_an_exception_in_the_ignored_is_refused(folder: Path) -> None:
    (folder / ".elastuneignore").write_text("*.csv\n!small.csv\n")
    with pytest.raises(JobError, match=r"\.elastuneignore, line 2 is !small.csv; expected a pattern"):
        pack(folder)


def test_a_file_that_is_too_large_stays_and_is_named(folder: Path, tmp_path: Path) -> None:
    write(folder, "train.py")
    write(folder, "weights.bin", size=2000)
    packed = pack(folder, most_file_bytes=1000)
    assert packed.left_behind == ("weights.bin",)
    assert packed.files == 1


def test_a_folder_that_is_too_large_is_refused_with_its_biggest_entries(folder: Path) -> None:
    write(folder, "train.py", "small/a")
    write(folder, "data/a", "data/b", size=400_000)
    write(folder, "weights.bin", size=300_000)
    with pytest.raises(JobError) as caught:
        pack(folder, most_bytes=1_000_000)
    message = str(caught.value)
    assert "has 1 MB to be sent to every node, expected at most 1 MB" in message
    assert "the biggest are data/ 800 kB, weights.bin 300 kB, " in message
    assert f"name what the training does not import in {folder / '.elastuneignore'}" in message


def test_links_are_followed_but_never_in_circles(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "shared", "library.py")
    write(folder, "train.py", "own/module.py")
    (folder / "linked").symlink_to(tmp_path / "shared")
    (folder / "a-name").symlink_to(folder / "own")
    (folder / "z-name").symlink_to(folder / "own")
    (folder / "own" / "circle").symlink_to(folder)
    (folder / "nowhere").symlink_to(tmp_path / "nothing")
    os.mkfifo(folder / "pipe")
    assert unpacked(folder, tmp_path / "there") == [
        "a-name/module.py",
        "linked/library.py",
        "own/module.py",
        "train.py",
        "z-name/module.py",
    ]


def test_the_folder_of_runs_stays_whatever_it_is_called(folder: Path, tmp_path: Path) -> None:
    write(folder, "train.py", "experiments/run/journal.sqlite")
    packed = pack(folder, without=(folder / "experiments",))
    assert packed.files == 1


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"the folder .*gone cannot be read: No such file"):
        pack(tmp_path / "gone")
    with pytest.raises(JobError, match="the run was started in /, and all below would be sent"):
        pack(Path("/"))
