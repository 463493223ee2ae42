"""Journals as their rows grow: writing, reading with the hash, replaying, status, report and live view."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.dashboard.large_run import record_run
from benchmarks.journal.appending import RECORD, RUN, journal, make_events
from benchmarks.scale.growth import Stopwatch, Subject
from elastune.api.reporting import report
from elastune.api.simulating import status
from elastune.core.state import State
from elastune.history.result import Estimate
from elastune.journal.codec import replay
from elastune.journal.records import RunId, hash_lines
from elastune.journal.run_folders import find_run
from elastune.journal.store import Journal
from elastune.runs.reopening import setup_of
from elastune.views.live.progress import promise_of
from elastune.views.live.snapshot_of_state import Subject as Shown
from elastune.views.live.snapshot_of_state import take

_ROWS_PER_TRIAL = 100
_SNAPSHOTS = 20


def _write(rows: int, stopwatch: Stopwatch) -> int:
    with tempfile.TemporaryDirectory() as folder:
        kept = Journal.open(Path(folder) / "journal.sqlite", durable=False)
        events = make_events(rows)
        with stopwatch.running():
            journal(kept, events)
    return rows


def _read(rows: int, stopwatch: Stopwatch) -> int:
    with tempfile.TemporaryDirectory() as folder:
        kept = Journal.open(Path(folder) / "journal.sqlite", durable=False)
        journal(kept, make_events(rows))
        with stopwatch.running():
            hash_lines(kept.read(RUN))
            kept.summary(RECORD.run)
    return rows


def _recorded(rows: int, folder: str) -> RunId:
    return record_run(
        Path(folder), trials=max(1, rows // _ROWS_PER_TRIAL), iterations=_ROWS_PER_TRIAL, run="abcdef"
    )


def _replay(rows: int, stopwatch: Stopwatch) -> int:
    with tempfile.TemporaryDirectory() as folder:
        state = _replayed(_recorded(rows, folder), folder, stopwatch)
    return state.iterations


def _replayed(run: RunId, folder: str, stopwatch: Stopwatch) -> State:
    found = find_run(Path(folder), run)
    kept = Journal.open(found.journal, read_only=True)
    setup = setup_of(found.record, kept)
    with stopwatch.running():
        core = replay(setup.make_core(found.record.seed), kept.read(run))
    return core.state


def _status(rows: int, stopwatch: Stopwatch) -> int:
    with tempfile.TemporaryDirectory() as folder:
        run = _recorded(rows, folder)
        with stopwatch.running():
            standing = status(run, folder=folder).standing
    return standing.iterations


def _report(rows: int, stopwatch: Stopwatch) -> int:
    with tempfile.TemporaryDirectory() as folder:
        run = _recorded(rows, folder)
        with stopwatch.running():
            report(run, runs_folder=folder)
    return rows


def _live(rows: int, stopwatch: Stopwatch) -> int:
    """Snapshots of the state, as the live view takes one four times a second."""
    with tempfile.TemporaryDirectory() as folder:
        run = _recorded(rows, folder)
        found = find_run(Path(folder), run)
        kept = Journal.open(found.journal, read_only=True)
        setup = setup_of(found.record, kept)
        core = replay(setup.make_core(0), kept.read(run))
    promise = promise_of(setup, Estimate(jct_seconds=1.0, cost=1.0))
    shown = Shown(name="large", run=run, policy="random", promise=promise)
    with stopwatch.running():
        for _ in range(_SNAPSHOTS):
            take(shown, core.state, core.policy.progress(core.state), now_s=core.state.now_s)
    return _SNAPSHOTS


SUBJECTS = (
    Subject(name="write", grows="rows", first=10_000, last=10_000_000, unit="rows", measure=_write),
    Subject(name="read", grows="rows", first=10_000, last=10_000_000, unit="rows", measure=_read),
    Subject(name="replay", grows="rows", first=10_000, last=10_000_000, unit="rows", measure=_replay),
    Subject(name="status", grows="rows", first=10_000, last=10_000_000, unit="rows", measure=_status),
    Subject(name="report", grows="rows", first=10_000, last=1_000_000, unit="rows", measure=_report),
    Subject(name="live", grows="rows", first=10_000, last=1_000_000, unit="snapshots", measure=_live),
)
