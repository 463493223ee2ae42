"""From what a person types to a run: the path of a folder or a journal, the start of an id, or `last`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from elastune.errors import ElastuneError, JobError
from elastune.journal.folders import RunFolder, run_folders
from elastune.journal.records import RunRecord
from elastune.journal.store import Journal

_ID_START = re.compile(r"(?P<folder>[0-9a-f]{1,6})(?P<part>\.[0-9]+)?")
_LISTED_AT_MOST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRun:
    """A run and where it lies. `journal` is the file it was found in, should somebody have renamed it."""

    folder: RunFolder
    journal: Path
    record: RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenFolder:
    """A run folder whose journal cannot be read, and why."""

    folder: RunFolder
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The runs under a root, newest first, and the folders that could not be read."""

    runs: tuple[FoundRun, ...]
    broken: tuple[BrokenFolder, ...]


def list_runs(root: Path) -> Listing:
    return _read_all(run_folders(root))


def find_run(root: Path, text: str) -> FoundRun:
    """The run that `text` means. Never a guess: what fits several runs is an error that lists them."""
    runs = find_runs(root, text)
    if len(runs) > 1:
        there = _listed(_told(found.record) for found in runs)
        raise JobError(f"{runs[0].journal} holds several runs; name one of: {there}")
    return runs[0]


def find_runs(root: Path, text: str) -> Sequence[FoundRun]:
    """The run that `text` means, or all runs of the one folder or journal that it means."""
    if text == "last":
        return _last(root)
    match = _ID_START.fullmatch(text)
    if match:
        folders = [folder for folder in run_folders(root) if (folder.run or "").startswith(match["folder"])]
        if folders:
            return _in_folder(_the_one(text, folders), match["part"])
    path = next((path for path in (Path(text), root / text) if text and path.exists()), None)
    if path is None:
        there = _listed(f"{folder.run} ({folder.path.name})" for folder in run_folders(root))
        raise JobError(
            f"no run under {root} is meant by {text!r}; expected the path of a run's folder or journal, "
            f"the start of an id, or last; there are: {there}"
        )
    if path.is_dir():
        return _in_folder(RunFolder(path=path), None)
    return read_runs(RunFolder(path=path.parent), path)


def read_runs(folder: RunFolder, journal: Path) -> list[FoundRun]:
    """All runs of one journal, in the order they were created."""
    records = Journal.open(journal, read_only=True).runs()
    if not records:
        raise JobError(f"the journal {journal} holds no run: the process ended before the first one started")
    return [FoundRun(folder=folder, journal=journal, record=record) for record in records]


def _last(root: Path) -> Sequence[FoundRun]:
    """Of the newest folder. Where it is broken the next one is not taken: `resume last` spends money."""
    folders = run_folders(root)
    if not folders:
        raise JobError(f"there is no run under {root} yet; start one, or name another root for runs")
    same_second = [folder for folder in folders if folder.created_utc == folders[0].created_utc]
    listing = _read_all(same_second)
    if listing.broken:
        broken = listing.broken[0]
        raise JobError(
            f"the last run, {broken.folder.path}, cannot be read: {broken.reason}; name a run by its id"
        )
    newest = listing.runs[0].folder
    return read_runs(newest, newest.journal)


def _in_folder(folder: RunFolder, part: str | None) -> Sequence[FoundRun]:
    """All runs, or the one whose id ends with `part`."""
    runs = read_runs(folder, folder.journal)
    fitting = [found for found in runs if part is None or found.record.run.endswith(part)]
    if not fitting:
        there = _listed(_told(found.record) for found in runs)
        raise JobError(f"{runs[0].journal} holds no run {part}; name one of: {there}")
    return fitting


def _the_one(text: str, folders: Sequence[RunFolder]) -> RunFolder:
    if len(folders) > 1:
        there = _listed(f"{folder.run} ({folder.path.name})" for folder in folders)
        raise JobError(f"{text!r} is the start of {len(folders)} ids; add digits: {there}")
    return folders[0]


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


def _told(record: RunRecord) -> str:
    return f"{record.run} ({record.policy}, seed {record.seed})"


def _listed(items: Iterable[str]) -> str:
    names = list(items)
    more = f", and {len(names) - _LISTED_AT_MOST} more" if len(names) > _LISTED_AT_MOST else ""
    return ", ".join(names[:_LISTED_AT_MOST]) + more if names else "none"
