"""Who looks after a node: a driver that lives, or nobody.

Wrong either way is dear: an orphan that is overlooked costs money for days, a node that is ended by mistake
takes a training with it. So a node of a run that is not known here is left alone for as long as its lease is
valid: its driver is somewhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from elastune.errors import ElastuneError
from elastune.journal import Journal
from elastune.journal.folders import run_folders
from elastune.providers.estate import Sighting
from elastune.runs.listing import RunState, find_end, state_of
from elastune.units import format_duration


def why_orphaned(sighting: Sighting, now: float, runs: Mapping[str, RunState]) -> str | None:
    """None: it is not, as far as can be told from here. `runs`: those that are known here."""
    if sighting.is_kept is not None:
        return None if sighting.is_kept else "its driver is gone"
    if sighting.expires is None:
        return "it has no lease: no driver ever said how long it is needed"
    if sighting.expires <= now:
        return f"its lease ended {format_duration(now - sighting.expires)} ago"
    state = None if sighting.run is None else runs.get(sighting.run)
    if state is None or state is RunState.RUNNING:
        return None
    told = {RunState.INTERRUPTED: "is driven by nobody any more", RunState.RESTING: "rests, without nodes"}
    return f"run {sighting.run} {told.get(state, f'has ended ({state.value})')}"


def known_states(root: Path, runs: Iterable[str]) -> dict[str, RunState]:
    """How those of the runs stand that have a folder here. One whose journal cannot be read is not known."""
    wanted = set(runs)
    if not wanted or not root.is_dir():
        return {}
    states: dict[str, RunState] = {}
    for folder in run_folders(root):
        if folder.run in wanted:
            try:
                journal = Journal.open(folder.journal, read_only=True)
                for record in journal.runs():
                    summary = journal.summary(record.run)
                    end, _ = find_end(journal, summary)
                    states[record.run] = state_of(journal, summary, end)
            except ElastuneError:
                continue
    return states
