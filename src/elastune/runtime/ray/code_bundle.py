"""The user's working folder, packed for machines that do not have it.

What a training imports lies in the folder in which the run was started. What is large, or no code at all, is
left behind; a file `.elastuneignore` names what else is.

Where slots work on a machine that is not the driver's: a folder of their own with the user's code in it.

It is made once per agent. Agents are killed, not asked to end, so the folder is removed by somebody who
outlives them: a shell that waits for the agent's end of a pipe to close.
"""

from __future__ import annotations

import fnmatch
import io
import os
import stat
import subprocess
import tempfile
import zipfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from elastune.errors import JobError
from elastune.runtime.ray.messages import CodeParcel, CodeReference, WorkerSpec
from elastune.wording import several

IGNORE = ".elastuneignore"
MOST_BYTES = 500 * 10**6
"""Of the whole folder, as it lies on the disk."""
MOST_FILE_BYTES = 100 * 10**6
"""Of one file: a larger one is data, not code, and is left behind."""

# Never code, or what nobody wants on rented machines: keys.
_SKIPPED = frozenset(
    {
        ".aws",
        ".azure",
        ".bash_history",
        ".docker",
        ".env",
        ".git-credentials",
        ".gnupg",
        ".huggingface",
        ".kaggle",
        ".kube",
        ".netrc",
        ".pypirc",
        ".ray",
        ".cache",
        ".git",
        ".hg",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".ssh",
        ".svn",
        ".tox",
        ".venv",
        "__pycache__",
        "elastune-runs",
        "node_modules",
    }
)
_VENV_MARK = "pyvenv.cfg"
_BIGGEST = 5
# Level 1 is several times as fast as the default, for a tenth more bytes.
_LEVEL = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedFolder:
    """`data` is a zip of the folder that is `origin` on the driver's machine."""

    origin: str
    data: bytes
    files: int
    left_behind: tuple[str, ...] = ()
    """Files that are too large."""


def pack(
    folder: Path,
    *,
    without: Collection[Path] = (),
    most_bytes: int = MOST_BYTES,
    most_file_bytes: int = MOST_FILE_BYTES,
) -> PackedFolder:
    """Raises `JobError` if it is too much, or cannot be read. `without`: folders that are not to go."""
    root = folder.resolve()
    if root == Path(root.anchor):
        raise JobError(f"the run was started in {root}, and all below would be sent; start it in a folder")
    ignored = _read_ignored(root)
    sizes: dict[str, int] = {}
    left_behind: list[str] = []
    for name, size in _files(root, ignored, {path.resolve() for path in without}):
        if size > most_file_bytes:
            left_behind.append(name)
        else:
            sizes[name] = size
    if sum(sizes.values()) > most_bytes:
        raise JobError(_too_much(root, sizes, most_bytes))
    return PackedFolder(
        origin=str(root), data=_zipped(root, sizes), files=len(sizes), left_behind=tuple(left_behind)
    )


def unpack(data: bytes, into: Path) -> None:
    """With the permissions that the files had: some are scripts."""
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        for member in packed.infolist():
            path = Path(packed.extract(member, into))
            mode = stat.S_IMODE(member.external_attr >> 16)
            if mode:
                path.chmod(mode | stat.S_IRUSR | stat.S_IWUSR)


def _zipped(root: Path, names: Collection[str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(
        buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL, strict_timestamps=False
    ) as into:
        for name in names:
            try:
                into.write(root / name, name)
            except FileNotFoundError:  # somebody works in the folder
                continue
            except OSError as error:
                raise JobError(
                    f"{root / name} cannot be sent to the nodes: {error.strerror}; make it readable, or name "
                    f"it in {root / IGNORE}"
                ) from error
    return buffer.getvalue()


def _files(root: Path, ignored: Sequence[str], without: Collection[Path]) -> Iterator[tuple[str, int]]:
    """The regular files that go, with their sizes. Links are followed, but never into where they are."""
    waiting: list[tuple[Path, frozenset[Path]]] = [(root, frozenset())]
    while waiting:
        folder, above = waiting.pop()
        real = folder.resolve()
        if real in above or real in without:
            continue
        for entry in _entries(folder, root):
            name = Path(entry.path).relative_to(root).as_posix()
            try:
                is_folder = entry.is_dir()
                if _is_ignored(name, ignored, is_folder=is_folder):
                    continue
                if is_folder:
                    if entry.name not in _SKIPPED and not (Path(entry.path) / _VENV_MARK).exists():
                        waiting.append((Path(entry.path), above | {real}))
                elif entry.is_file():
                    yield name, entry.stat().st_size
            except OSError:  # a link to nowhere, or just removed
                continue


def _entries(folder: Path, root: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        if folder != root:  # not ours to read: whoever needs it will say so
            return []
        raise JobError(f"the folder {root} cannot be read: {error.strerror}") from error


def _is_ignored(name: str, patterns: Sequence[str], *, is_folder: bool) -> bool:
    for pattern in patterns:
        if pattern.endswith("/") and not is_folder:
            continue
        bare = pattern.rstrip("/")
        if "/" in bare:
            matches = fnmatch.fnmatchcase(name, bare.lstrip("/"))
        else:
            matches = fnmatch.fnmatchcase(name.rpartition("/")[2], bare)
        if matches:
            return True
    return False


def _read_ignored(root: Path) -> list[str]:
    """One pattern per line, as in a .gitignore but without exceptions."""
    path = root / IGNORE
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"{path} cannot be read: {error}") from error
    patterns = [line.strip() for line in lines]
    for number, pattern in enumerate(patterns, start=1):
        if pattern.startswith("!"):
            raise JobError(
                f"{path}, line {number} is {pattern}; expected a pattern of what is left behind, such as "
                "data/ or *.parquet: exceptions are not known"
            )
    return [pattern for pattern in patterns if pattern and not pattern.startswith("#")]


def _too_much(root: Path, sizes: dict[str, int], most_bytes: int) -> str:
    by_entry: Counter[str] = Counter()
    for name, size in sizes.items():
        first, deeper, _ = name.partition("/")
        by_entry[first + deeper] += size
    biggest = (f"{name} {_megabytes(size)}" for name, size in by_entry.most_common(_BIGGEST))
    return (
        f"the folder {root} has {_megabytes(sum(sizes.values()))} to be sent to every node, expected "
        f"at most {_megabytes(most_bytes)}; the biggest are {several(biggest)}; name what the training does "
        f"not import in {root / IGNORE}, one pattern per line, or start the run in a smaller folder"
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 10**6 else f"{size / 1e3:,.0f} kB"


_PREFIX = "elastune-work-"
# A child of a worker would be ended with it by Ray; a grandchild is not. What runs in the background reads
# from nowhere unless it is told to by another number. What still writes there gets a second.
_JANITOR = 'exec 3<&0; { read -r _ <&3; rm -rf -- "$0" || { sleep 1; rm -rf -- "$0"; }; } >/dev/null 2>&1 &'


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFolder:
    """`moved`: the folders of the driver that lie here now, and where; the first is the working folder."""

    folder: str
    moved: tuple[tuple[str, str], ...]

    @property
    def home(self) -> str:
        return self.moved[0][1] if self.moved else self.folder

    @property
    def logs(self) -> str:
        return str(Path(self.folder) / "logs")

    def furnish(self, worker_spec: WorkerSpec) -> WorkerSpec:
        """The manual, as it reads from here."""
        return replace(
            worker_spec,
            script=self._moved_script(worker_spec.script),
            paths=tuple(dict.fromkeys(self._place(path) for path in worker_spec.paths)),
            logs=None if worker_spec.logs is None else self.logs,
        )

    def _moved_script(self, script: CodeReference) -> CodeReference:
        if script.reference is None or script.source is None:
            return script
        home, _, name = script.reference.rpartition(":")
        return replace(script, reference=f"{self._place(home)}:{name}")

    def _place(self, path: str) -> str:
        for origin, here in self.moved:
            if Path(path).is_relative_to(origin):
                return str(Path(here) / Path(path).relative_to(origin))
        return path


def set_up(parcels: Sequence[CodeParcel]) -> CodeFolder:
    """On this machine, for as long as this process lives."""
    import ray  # noqa: PLC0415

    folder = tempfile.mkdtemp(prefix=_PREFIX)
    _remove_when_we_are_gone(folder)
    moved = []
    for number, parcel in enumerate(parcels):
        here = Path(folder) / f"{number}-{Path(parcel.origin).name}"
        here.mkdir()
        unpack(ray.get(parcel.data), here)
        moved.append((parcel.origin, str(here)))
    place = CodeFolder(folder=folder, moved=tuple(moved))
    Path(place.logs).mkdir()
    return place


def _remove_when_we_are_gone(folder: str) -> None:
    """The writing end of the pipe stays open in this process alone, and closes with it."""
    reading, writing = os.pipe()
    try:
        janitor = ["/bin/sh", "-c", _JANITOR, folder]
        subprocess.run(janitor, stdin=reading, check=True, start_new_session=True)  # noqa: S603
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    _held.append(writing)


_held: list[int] = []
"""Never closed by us."""
