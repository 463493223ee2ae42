"""The list of runs with their states, from the last lines of each journal, without a replay."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from elastune.core.commands import Ending, EndRun, Rest
from elastune.core.events import Resumed, RunExtended
from elastune.errors import ElastuneError, JobError
from elastune.journal.codec import mentions, select, time_of
from elastune.journal.records import Entry, RunRecord, Summary
from elastune.journal.run_folders import BrokenFolder, FoundRun, RunFolder, list_runs, read_runs
from elastune.journal.store import Journal
from elastune.runs.run_files import RunIntent, read_costs, read_intent

# The provider's answers may follow the end. How many entries to search for it, step by step.
_LOOK_BACK = (64, 4096)


class RunState(enum.StrEnum):
    COMPLETE = "complete"
    TARGET = "target"
    DEADLINE = "deadline"
    BUDGET = "budget"
    STOPPED = "stopped"
    FAILED = "failed"
    SUSPENDED = "suspended"  # everything saved, all nodes released, to be resumed
    INTERRUPTED = "interrupted"  # not ended, and no process writes it
    RUNNING = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    record: RunRecord
    folder: RunFolder
    state: RunState
    events: int
    seconds: float  # run clock at the end or the last event
    cost: float | None  # None: known only after a replay
    best: float | None
    faults: str | None = None  # as requested; None: not recorded

    def to_dict(self) -> dict[str, object]:
        record = self.record
        return {
            "run": record.run,
            "name": record.name,
            "created_utc": record.created_utc.isoformat().replace("+00:00", "Z"),
            "body": record.body.value,
            "policy": record.policy,
            "seed": record.seed,
            "faults": self.faults,
            "state": self.state.value,
            "events": self.events,
            "seconds": self.seconds,
            "cost": self.cost,
            "best": self.best,
            "folder": str(self.folder.path),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunList:
    """Newest first. `root` is None for the runs in the user's index; `hidden` runs, which only measure, are
    left out."""

    root: Path | None
    runs: tuple[RunLine, ...]
    broken: tuple[BrokenFolder, ...]
    hidden: int = 0

    def to_dict(self) -> dict[str, object]:
        return {
            "runs": [line.to_dict() for line in self.runs],
            "broken": [{"folder": str(each.folder.path), "reason": each.reason} for each in self.broken],
        }


def read_list(root: Path | None, *, profiles: bool = True) -> RunList:
    """The runs in a folder, or in the user's index. Runs that cannot be read are listed with the reason.
    Without `profiles`, runs that only measure are left out."""
    if root is not None and root.exists() and not root.is_dir():
        raise JobError(f"{root} is a file; expected the folder in which runs are kept, such as elastune-runs")
    listing = list_runs(root)
    opened: dict[Path, tuple[Journal, dict[str, float], RunIntent | None]] = {}
    lines: list[RunLine] = []
    broken = list(listing.broken)
    shown = [found for found in listing.runs if profiles or not found.record.measures]
    for found in shown:
        try:
            if found.journal not in opened:
                journal = Journal.open(found.journal, read_only=True)
                opened[found.journal] = (journal, read_costs(found.folder), read_intent(found.folder))
            lines.append(_line(found, *opened[found.journal]))
        except ElastuneError as error:
            broken.append(BrokenFolder(folder=found.folder, reason=str(error)))
    return RunList(root=root, runs=tuple(lines), broken=tuple(broken), hidden=len(listing.runs) - len(shown))


def read_lines(folder: RunFolder) -> tuple[RunLine, ...]:
    """The runs of one folder, without those that only measure."""
    runs = [found for found in read_runs(folder, folder.journal) if not found.record.measures]
    if not runs:
        return ()
    journal, costs = Journal.open(folder.journal, read_only=True), read_costs(folder)
    intent = read_intent(folder)
    return tuple(_line(found, journal, costs, intent) for found in runs)


def state_of(journal: Journal, summary: Summary, end: EndRun | None) -> RunState:
    if end is not None:
        return RunState(Ending(end.reason).value)
    if summary.writer is not None:
        return RunState.RUNNING
    return RunState.SUSPENDED if _is_suspended(journal, summary) else RunState.INTERRUPTED


def _is_suspended(journal: Journal, summary: Summary) -> bool:
    """Whether it was suspended and not resumed; answers of the provider may have come later."""
    is_suspended = False
    for entry in journal.read(summary.record.run, after=max(0, summary.head.events - _LOOK_BACK[0])):
        if mentions(entry.event_line, Resumed):
            is_suspended = False
        is_suspended = is_suspended or any(mentions(line, Rest) for line in entry.command_lines)
    return is_suspended


def find_end(journal: Journal, summary: Summary) -> tuple[EndRun | None, float]:
    """The end of a run and its time; without an end, the time of the last event."""
    events = summary.head.events
    if summary.last is None:
        return None, 0.0
    searched = 1
    found = _end_in([summary.last])
    for back in (*_LOOK_BACK, events):
        if found is not None or searched >= events or (back == events and summary.writer is not None):
            break
        found = _end_in(journal.read(summary.record.run, after=max(0, events - back)))
        searched = back
    return found or (None, time_of(summary.last.event_line))


def _line(found: FoundRun, journal: Journal, costs: dict[str, float], intent: RunIntent | None) -> RunLine:
    summary = journal.summary(found.record.run)
    end, at_s = find_end(journal, summary)
    return RunLine(
        record=found.record,
        folder=found.folder,
        state=state_of(journal, summary, end),
        events=summary.head.events,
        seconds=at_s,
        cost=costs.get(summary.head.sha256),
        best=None if end is None or end.best is None else end.best.metric,
        faults=None if intent is None else intent.faults,
    )


def _end_in(entries: Iterable[Entry]) -> tuple[EndRun, float] | None:
    """The last end after which the run was not extended."""
    found = None
    for entry in entries:
        if mentions(entry.event_line, RunExtended):
            found = None
        for end in select(entry.command_lines, EndRun):
            found = end, time_of(entry.event_line)
    return found
