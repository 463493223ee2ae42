"""Callbacks of the user, called by simulated runs told as real ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import elastune
from elastune.checkpoints.store import Store
from elastune.core.core import Core
from elastune.errors import JobError
from elastune.history.result import BestTrial
from elastune.history.trials import TrialEntry
from elastune.journal.codec import event_of
from elastune.journal.records import Entry
from elastune.journal.run_folders import RunFolder
from elastune.journal.writer import MemoryJournal
from elastune.runs.callbacks import EndInfo, ResultInfo, RunInfo, open_callbacks
from elastune.runs.listeners import Listeners, open_listeners
from tests.exports.test_logger import RECORD, SMALL, simulated


class Records:
    """Not a subclass: any object will do."""

    def __init__(self) -> None:
        self.starts: list[RunInfo] = []
        self.results: list[ResultInfo] = []
        self.ended: list[TrialEntry] = []
        self.bests: list[BestTrial] = []
        self.ends: list[EndInfo] = []

    def on_start(self, run: RunInfo) -> None:
        self.starts.append(run)

    def on_result(self, result: ResultInfo) -> None:
        self.results.append(result)

    def on_trial_end(self, trial: TrialEntry) -> None:
        self.ended.append(trial)

    def on_best(self, best: BestTrial) -> None:
        self.bests.append(best)

    def on_end(self, end: EndInfo) -> None:
        self.ends.append(end)


def listeners_of(
    core: Core, folder: Path, *callbacks: object, journal: MemoryJournal | None = None
) -> Listeners:
    return open_listeners(
        SMALL,
        core.state,
        journal or MemoryJournal(),
        RECORD,
        RunFolder(path=folder),
        Store.open(folder),
        callbacks=open_callbacks(callbacks),
    )


def feed(core: Core, listeners: Listeners, entries: list[Entry]) -> None:
    for entry in entries:
        event = event_of(entry)
        listeners.take(event, core.handle(event))


def test_callbacks_are_told_everything_once_in_order(tmp_path: Path) -> None:
    experiment, journal = simulated(2)
    core, told = experiment.setup.make_core(2), Records()
    listeners = listeners_of(core, tmp_path, told)
    feed(core, listeners, list(journal.read(RECORD.run)))
    listeners.close()
    (start,) = told.starts
    assert (start.run, start.metric, start.resumed) == (RECORD.run, core.state.terms.metric, False)
    assert told.results
    keys = [(each.trial, each.iteration) for each in told.results]
    assert len(set(keys)) == len(keys)
    configs = {int(trial.number): dict(trial.config) for trial in core.state.trials.values()}
    assert all(each.config == configs[each.trial] for each in told.results)
    over = {trial.number for trial in core.state.trials.values() if trial.phase.is_over}
    assert {each.trial for each in told.ended} == over
    assert len(told.ended) == len(over)
    best = core.state.best
    assert best is not None
    assert (told.bests[-1].trial, told.bests[-1].metric) == (best.trial, best.metric)
    (end,) = told.ends
    assert core.state.ended is not None
    assert (end.ending, end.trials) == (core.state.ended.value, len(core.state.trials))
    assert end.best == told.bests[-1]


def test_a_resumed_run_tells_only_what_is_new(tmp_path: Path) -> None:
    experiment, journal = simulated(2)
    entries = list(journal.read(RECORD.run))
    half = len(entries) // 2
    core, first, second = experiment.setup.make_core(2), Records(), Records()
    before = listeners_of(core, tmp_path, first)
    feed(core, before, entries[:half])
    before.close()
    assert [end.ending for end in first.ends] == ["suspended"]
    part = MemoryJournal()
    with part.start(RECORD) as writer:
        for entry in entries[:half]:
            writer.append(entry.number, entry.lines)
    after = listeners_of(core, tmp_path, second, journal=part)
    feed(core, after, entries[half:])
    after.close()
    assert [start.resumed for start in second.starts] == [True]
    keys = [(each.trial, each.iteration) for each in (*first.results, *second.results)]
    assert len(set(keys)) == len(keys)
    ended = [each.trial for each in (*first.ended, *second.ended)]
    assert len(set(ended)) == len(ended)


class Raises(elastune.Callback):
    def on_result(self, result: ResultInfo) -> None:
        raise ValueError("no such channel")

    def on_end(self, end: EndInfo) -> None:
        raise SystemExit(3)


def test_what_a_callback_raises_is_noted_once_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    experiment, journal = simulated(2)
    core, told = experiment.setup.make_core(2), Records()
    listeners = listeners_of(core, tmp_path, Raises, told)
    feed(core, listeners, list(journal.read(RECORD.run)))
    listeners.close()
    assert told.results
    assert told.ends
    texts = [note.text for note in listeners.remarks()]
    assert [text.partition(";")[0] for text in texts] == [
        "the callback Raises.on_result raised ValueError: no such channel",
        "the callback Raises.on_end raised SystemExit: 3",
    ]
    assert "Traceback" in caplog.text


class Waits:
    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.called = threading.Event()

    def on_start(self, run: Any) -> None:
        self.called.set()
        self.let_go.wait()


@pytest.fixture
def waits() -> Iterator[Waits]:
    made = Waits()
    yield made
    made.let_go.set()


def test_a_callback_that_hangs_holds_up_no_event(tmp_path: Path, waits: Waits) -> None:
    experiment, journal = simulated(2)
    core = experiment.setup.make_core(2)
    listeners = listeners_of(core, tmp_path, waits)
    waits.called.wait()
    feed(core, listeners, list(journal.read(RECORD.run)))  # all of it, while the callback hangs
    listeners.flush()
    waits.let_go.set()
    listeners.close()
    assert not listeners.remarks()


def test_what_is_no_callback_is_refused() -> None:
    with pytest.raises(JobError, match="has no method on_start, on_result"):
        open_callbacks([object()])
    with pytest.raises(JobError, match="cannot be made: TypeError"):
        open_callbacks([NeedsArguments])
    with pytest.raises(JobError, match="there is no 'Missing'"):
        open_callbacks(["tests.runs.test_callbacks:Missing"])


class NeedsArguments(elastune.Callback):
    def __init__(self, channel: str) -> None:
        self.channel = channel


def test_a_job_names_callbacks_by_reference(tmp_path: Path) -> None:
    job = SMALL.to_dict()
    assert "callbacks" not in job
    named = elastune.Job.from_dict({**job, "callbacks": "tests.runs.test_callbacks:Records"})
    (made,) = open_callbacks(named.callbacks)
    assert type(made).__name__ == "Records"
    (tmp_path / "notify.py").write_text("class Notify:\n    def on_end(self, end):\n        pass\n")
    text = "search: {algorithm: asha, max_iterations: 9}\nprofile: {iteration: 1s}\ndeadline: 1m\n"
    text += "cluster: {slots_per_node: 1, price_per_hour: 1}\ncallbacks: [notify.py:Notify]\n"
    (tmp_path / "job.yaml").write_text(text)
    (made,) = open_callbacks(elastune.load_job(tmp_path / "job.yaml").callbacks)
    assert type(made).__name__ == "Notify"
    with pytest.raises(JobError, match=r"callbacks.*expected names of classes, such as \[my_"):
        elastune.Job.from_dict({**job, "callbacks": ["nothing"]})
