"""The folder of a run, `<name>-<utc>-<id>`, and finding a run by what the user typed.

That is the path of a folder or a journal, the start of an id, a name, or `last`. It is searched for in the
folder of runs first, then in the index of the user's runs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path

from elastune.errors import ElastuneError, InvariantError, JobError
from elastune.journal.records import RunId, RunRecord
from elastune.journal.run_index import indexed_paths
from elastune.journal.store import Journal

_STAMP = "%Y%m%dT%H%M%SZ"
_ID = re.compile(r"[0-9a-f]{6}")
_FOLDER_NAME = re.compile(r"(?P<name>.+)-(?P<stamp>[0-9]{8}T[0-9]{6}Z)-(?P<id>[0-9a-f]{6})")

USUAL_ROOT = Path("elastune-runs")
"""The folder of runs, unless the user names another."""
# File names have at most 255 bytes; the time, the id and the dashes need 24 of them.
_NAME_BYTES = 100


class _PathIn:
    """An attribute of `RunFolder`: the path of a file or folder in it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: RunFolder, owner: type[RunFolder]) -> Path:
        return folder.path / self._name


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    path: Path
    job = _PathIn("job.yaml")
    profile = _PathIn("profile.json")
    plan = _PathIn("plan.json")
    simulation = _PathIn("simulation.json")  # the requested seeds, policies and faults
    journal = _PathIn("journal.sqlite")
    checkpoints = _PathIn("checkpoints")
    logs = _PathIn("logs")
    report = _PathIn("report")

    @classmethod
    def create(cls, root: Path, *, name: str, now_utc: datetime, run: RunId) -> RunFolder:
        """A new folder under `root`. The caller draws `run`, six hexadecimal digits."""
        if not _ID.fullmatch(run):
            raise InvariantError(f"the id of a run folder is {run!r}; expected six digits like 3fa2c1")
        if now_utc.utcoffset() != timedelta(0):
            raise InvariantError(f"the time of a run folder is {now_utc}; expected one in UTC")
        folder = cls(path=root / f"{slug(name)}-{now_utc.strftime(_STAMP)}-{run}")
        try:
            folder.path.mkdir(parents=True)
            for part in (folder.checkpoints, folder.logs, folder.report):
                part.mkdir()
        except OSError as error:
            reason = f"{error.strerror}; choose another root for runs"
            if isinstance(error, FileExistsError):
                reason = f"{error.filename} exists"
            raise JobError(f"the run folder {folder.path} cannot be created: {reason}") from error
        return folder

    @property
    def run(self) -> RunId | None:
        """The id in the folder's name; None if the folder was renamed."""
        match = _FOLDER_NAME.fullmatch(self.path.name)
        return RunId(match["id"]) if match else None

    @property
    def name(self) -> str | None:
        """The name of its runs as part of a file's name (`slug`)."""
        match = _FOLDER_NAME.fullmatch(self.path.name)
        return match["name"] if match else None

    @property
    def created_utc(self) -> datetime | None:
        match = _FOLDER_NAME.fullmatch(self.path.name)
        try:
            return datetime.strptime(match["stamp"], _STAMP).replace(tzinfo=UTC) if match else None
        except ValueError:  # digits that are no date: 99999999T999999Z
            return None


def run_folders(root: Path) -> list[RunFolder]:
    """All folders under `root` with a name that `RunFolder.create` gives, newest first."""
    return _newest_first(root.iterdir() if root.is_dir() else ())


def indexed_folders() -> list[RunFolder]:
    """All folders in the user's index, newest first."""
    return _newest_first(indexed_paths())


def _newest_first(paths: Iterable[Path]) -> list[RunFolder]:
    dated = [
        (created, path.name, folder)
        for path in paths
        if (created := (folder := RunFolder(path=path)).created_utc) is not None and path.is_dir()
    ]
    return [folder for _, _, folder in sorted(dated, key=lambda each: each[:2], reverse=True)]


def slug(name: str) -> str:
    """A name as part of a file's name: letters, marks and digits of any script, dashes and underscores.

    The result cannot leave a folder, hide a file or look like an option.
    """
    normal = unicodedata.normalize("NFKC", name)
    kept = "".join(char if char == "_" or unicodedata.category(char)[0] in "LMN" else "-" for char in normal)
    joined = re.sub(r"-+", "-", kept).strip("-")
    short = joined.encode()[:_NAME_BYTES].decode(errors="ignore").rstrip("-")
    return short or "run"


_ID_START = re.compile(r"(?P<folder>[0-9a-f]{1,6})(?P<part>\.[0-9]+)?")
_LISTED_AT_MOST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRun:
    """A run and its place. `journal` is the file it was found in, which may have been renamed."""

    folder: RunFolder
    journal: Path
    record: RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenFolder:
    folder: RunFolder
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    runs: tuple[FoundRun, ...]
    broken: tuple[BrokenFolder, ...]


def list_runs(root: Path | None) -> Listing:
    """None: those in the index, wherever they are."""
    return _read_all(indexed_folders() if root is None else run_folders(root))


def find_run(root: Path, text: str) -> FoundRun:
    """The run that `text` means. If it fits several runs, the error lists them."""
    runs = find_runs(root, text)
    if len(runs) > 1:
        there = _listed(_describe(found.record) for found in runs)
        raise JobError(f"{runs[0].journal} holds several runs; name one of: {there}")
    return runs[0]


def find_runs(root: Path, text: str) -> Sequence[FoundRun]:
    """The run that `text` means, or all runs of the one folder or journal that it means."""
    here = run_folders(root)
    if text == "last":
        # In a folder of runs that the user named, `stop last` must not mean a run elsewhere.
        return _last(here or (indexed_folders() if root == USUAL_ROOT else []), root)
    path = next((path for path in (Path(text), root / text) if text and path.exists()), None)
    found = _by_id(here, text) or (path and _at(path)) or _by_name(here, text)
    if found:
        return found
    elsewhere = indexed_folders()
    found = _by_id(elsewhere, text) or _by_name(elsewhere, text)
    if found:
        return found
    if path is not None:
        return _in_folder(RunFolder(path=path), None)  # says what is missing there
    there = _listed(f"{folder.run} ({folder.path.name})" for folder in here)
    more = "; `elastune runs --all` lists the runs in other folders" if elsewhere else ""
    raise JobError(
        f"no run under {root} matches {text!r}; expected the path of a run's folder or journal, "
        f"the start of an id, a name, or last; there are: {there}{more}"
    )


def folders_with_id(folders: Sequence[RunFolder], text: str) -> list[RunFolder]:
    """Those whose id starts with `text`."""
    match = _ID_START.fullmatch(text)
    return [folder for folder in folders if match and (folder.run or "").startswith(match["folder"])]


def _by_id(folders: Sequence[RunFolder], text: str) -> Sequence[FoundRun]:
    fitting = folders_with_id(folders, text)
    if not fitting:
        return ()
    if len(fitting) > 1:
        there = _listed(f"{folder.run} ({folder.path.name})" for folder in fitting)
        raise JobError(f"{text!r} is the start of {len(fitting)} ids; add digits: {there}")
    named = [folder for folder in folders if folder.name == text and folder is not fitting[0]]
    if named and text != fitting[0].run:
        raise JobError(
            f"{text!r} is the start of the id {fitting[0].run} ({fitting[0].path.name}) and the name of "
            f"other runs; give an id: {_listed(f'{folder.run}' for folder in named)}"
        )
    match = _ID_START.fullmatch(text)
    return _in_folder(fitting[0], match["part"] if match else None)


def _by_name(folders: Sequence[RunFolder], text: str) -> Sequence[FoundRun]:
    """The newest run of that name, or the folder with that name."""
    if not any(map(str.isalnum, text)):
        return ()
    name = slug(text)
    fitting = [folder for folder in folders if name == folder.name or text == folder.path.name]
    return _last(fitting) if fitting else ()


def _at(path: Path) -> Sequence[FoundRun]:
    """The runs at a path; none if it is a folder without a journal, perhaps with the name of a run."""
    if path.is_file():
        return read_runs(RunFolder(path=path.parent), path)
    folder = RunFolder(path=path)
    return _in_folder(folder, None) if folder.journal.exists() else ()


def read_runs(folder: RunFolder, journal: Path) -> list[FoundRun]:
    """All runs of one journal, in order of creation."""
    records = Journal.open(journal, read_only=True).runs()
    if not records:
        raise JobError(f"the journal {journal} holds no run: its process ended before the first one started")
    return [FoundRun(folder=folder, journal=journal, record=record) for record in records]


def _last(folders: Sequence[RunFolder], root: Path | None = None) -> Sequence[FoundRun]:
    """The runs of the newest folder that does not just measure. If it is broken, the next is not used:
    `resume last` spends money."""
    newest: RunFolder | None = None
    for _, group in groupby(folders, key=lambda folder: folder.created_utc):
        listing = _read_all(list(group))
        if listing.broken:
            broken = listing.broken[0]
            raise JobError(
                f"the last run, {broken.folder.path}, cannot be read: {broken.reason}; name a run by its id"
            )
        tuning = [found for found in listing.runs if not found.record.measures]
        newest = newest or listing.runs[0].folder
        if tuning:
            newest = tuning[0].folder
            break
    if newest is None:
        raise JobError(f"there are no runs under {root}; start one, or name another root for runs")
    return read_runs(newest, newest.journal)


def _in_folder(folder: RunFolder, part: str | None) -> Sequence[FoundRun]:
    """All runs, or the one whose id ends with `part`."""
    runs = read_runs(folder, folder.journal)
    fitting = [found for found in runs if part is None or found.record.run.endswith(part)]
    if not fitting:
        there = _listed(_describe(found.record) for found in runs)
        raise JobError(f"{runs[0].journal} holds no run {part}; name one of: {there}")
    return fitting


def _read_all(folders: Sequence[RunFolder]) -> Listing:
    runs: list[FoundRun] = []
    broken: list[BrokenFolder] = []
    for folder in folders:
        try:
            runs += read_runs(folder, folder.journal)
        except ElastuneError as error:
            broken.append(BrokenFolder(folder=folder, reason=str(error)))
    runs.sort(key=lambda found: found.record.created_utc, reverse=True)
    return Listing(runs=tuple(runs), broken=tuple(broken))


def _describe(record: RunRecord) -> str:
    return f"{record.run} ({record.policy}, seed {record.seed})"


def _listed(items: Iterable[str]) -> str:
    names = list(items)
    more = f", and {len(names) - _LISTED_AT_MOST} more" if len(names) > _LISTED_AT_MOST else ""
    return ", ".join(names[:_LISTED_AT_MOST]) + more if names else "none"
