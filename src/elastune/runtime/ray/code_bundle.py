"""The user's working folder and shared data: packed by the driver, unpacked on machines without them.

A training imports from the folder in which the run was started. Large files and what is not code are left
out, and so is what a file `.elastuneignore` names. Each agent unpacks into a temporary folder of its own.
"""

from __future__ import annotations

import fnmatch
import io
import os
import stat
import zipfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from elastune.errors import JobError
from elastune.runtime.ray.messages import CodeBundle, CodeReference, WorkerSpec
from elastune.temporary_folder import TemporaryFolder
from elastune.wording import several

IGNORE = ".elastuneignore"
MOST_BYTES = 500 * 10**6
"""Of the whole folder, uncompressed."""
MOST_FILE_BYTES = 100 * 10**6
"""Of one file: a larger one is data, not code, and is left out."""

# Folders of keys, which must not reach rented machines, and folders that are never code.
_SKIPPED = frozenset({
    ".aws", ".azure", ".bash_history", ".docker", ".env", ".git-credentials", ".gnupg", ".huggingface",
    ".kaggle", ".kube", ".netrc", ".pypirc", ".ray", ".ssh",
    ".cache", ".git", ".hg", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".svn",
    ".tox", ".venv", "__pycache__", "elastune-runs", "node_modules",
})  # fmt: skip
_VENV_MARK = "pyvenv.cfg"
_BIGGEST = 5
# Level 1 is several times as fast as the default, with a tenth more bytes.
_LEVEL = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedFolder:
    """`data` is a zip of the folder `origin` of the driver's machine."""

    origin: str
    data: bytes
    files: int
    left_behind: tuple[str, ...] = ()
    """Files that were too large."""


def pack(
    folder: Path,
    *,
    without: Collection[Path] = (),
    most_bytes: int = MOST_BYTES,
    most_file_bytes: int = MOST_FILE_BYTES,
) -> PackedFolder:
    """Raises `JobError` if it is too large or cannot be read. `without`: folders to leave out."""
    root = folder.resolve()
    if root == Path(root.anchor):
        raise JobError(f"the run was started in {root}, and all below would be sent; start it in a folder")
    found = dict(_files(root, _read_ignored(root), {path.resolve() for path in without}))
    sizes = {name: size for name, size in found.items() if size <= most_file_bytes}
    left_behind = tuple(name for name in found if name not in sizes)
    if sum(sizes.values()) > most_bytes:
        raise JobError(_too_much(root, sizes, most_bytes))
    return PackedFolder(
        origin=str(root), data=_zipped(root, sizes), files=len(sizes), left_behind=left_behind
    )


def unpack(data: bytes, into: Path) -> None:
    """With the files' permissions: some are scripts."""
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
            except FileNotFoundError:  # deleted meanwhile
                continue
            except OSError as error:
                raise JobError(
                    f"{root / name} cannot be sent to the nodes: {error.strerror}; make it readable, or name "
                    f"it in {root / IGNORE}"
                ) from error
    return buffer.getvalue()


def _files(root: Path, ignored: Sequence[str], without: Collection[Path]) -> Iterator[tuple[str, int]]:
    """The regular files to send, with their sizes. Links are followed, but not to a folder above them."""
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
        if folder != root:  # not readable: code that needs it will fail
            return []
        raise JobError(f"the folder {root} cannot be read: {error.strerror}") from error


def _is_ignored(name: str, patterns: Sequence[str], *, is_folder: bool) -> bool:
    for pattern in patterns:
        if pattern.endswith("/") and not is_folder:
            continue
        bare = pattern.rstrip("/")
        subject = name if "/" in bare else name.rpartition("/")[2]
        if fnmatch.fnmatchcase(subject, bare.lstrip("/")):
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
                f"{path}, line {number} is {pattern}; expected a pattern of files to leave out, such as "
                "data/ or *.parquet: exceptions (!) are not supported"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFolder:
    """`moved`: folders of the driver's machine and their paths here; the first is the working folder."""

    folder: str
    moved: tuple[tuple[str, str], ...]

    @property
    def home(self) -> str:
        return self.moved[0][1] if self.moved else self.folder

    @property
    def logs(self) -> str:
        return str(Path(self.folder) / "logs")

    @property
    def shared(self) -> str:
        return str(Path(self.folder) / "shared")

    def relocate(self, worker_spec: WorkerSpec) -> WorkerSpec:
        return replace(
            worker_spec,
            script=self._moved_script(worker_spec.script),
            paths=tuple(dict.fromkeys(self._place(path) for path in worker_spec.paths)),
            logs=None if worker_spec.logs is None else self.logs,
            shared=(self.shared,),
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


def set_up(bundle: CodeBundle) -> CodeFolder:
    """Unpack on this machine, for as long as this process lives."""
    import ray  # noqa: PLC0415

    temporary = TemporaryFolder(_PREFIX)
    _held.append(temporary)
    folder = temporary.path
    moved = []
    for number, parcel in enumerate(bundle.parcels):
        here = folder / f"{number}-{Path(parcel.origin).name}"
        here.mkdir()
        unpack(ray.get(parcel.data), here)
        moved.append((parcel.origin, str(here)))
    place = CodeFolder(folder=str(folder), moved=tuple(moved))
    for created in (place.logs, place.shared):
        Path(created).mkdir()
    for shared in bundle.shared:
        with (Path(place.shared) / shared.name).open("wb") as file:
            for piece in shared.pieces:  # one at a time, so that the object store needs room for one
                file.write(ray.get(piece))
    return place


_held: list[TemporaryFolder] = []
"""Until this process exits."""
