"""The listener that writes while a run goes, fed by simulated runs in which everything goes wrong."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest

from elastune.checkpoints.store import Store
from elastune.core.core import Core
from elastune.core.events import Progressed
from elastune.errors import JobError
from elastune.exports.files import CsvWriter, RunNews, WriterThread
from elastune.history.trials import RowEntry, without_lost
from elastune.job.job import Job
from elastune.job.outputs import LoggingSection, MlflowSection
from elastune.journal.codec import event_of
from elastune.journal.records import RunId, RunRecord, RuntimeKind
from elastune.journal.run_folders import RunFolder
from elastune.journal.writer import MemoryJournal
from elastune.runs.listeners import RunLogger, RunOpening, catch_up, open_listeners
from elastune.runs.simulation import Simulation
from tests.fire.experiments import Experiment, make_experiment

RECORD = RunRecord(
    run=RunId("3fa2c1"),
    name="fire",
    created_utc=datetime(2026, 1, 1, tzinfo=UTC),
    body=RuntimeKind.SIMULATED,
    policy="any",
    seed=0,
)
SMALL = Job(
    search={"algorithm": "sha", "trials": 4, "max_iterations": 9},
    profile={"iteration": 1},
    cluster={"slots_per_node": 2, "price_per_hour": 1},
)


def simulated(seed: int) -> tuple[Experiment, MemoryJournal]:
    experiment = make_experiment(seed)
    journal = MemoryJournal()
    Simulation(experiment.setup, seed=seed, journal=journal, record=RECORD, faults=experiment.faults).run()
    return experiment, journal


def logger_of(core: Core, folder: Path) -> RunLogger:
    """By its clock every flush is due."""
    ticks = iter(range(0, 1_000_000, 10))
    return RunLogger(
        RunOpening.of(RECORD, core.state, RunFolder(path=folder)),
        {"csv": lambda: CsvWriter(folder)},
        state=core.state,
        store=Store.open(folder),
        clock=lambda: float(next(ticks)),
    )


def check(folder: Path, journal: MemoryJournal, core: Core) -> None:
    rows = pd.read_csv(folder / "rows.csv")
    pairs = list(zip(rows["trial"], rows["iteration"], strict=True))
    assert len(set(pairs)) == len(pairs)
    reported = [
        RowEntry(event.trial, row.iteration, row.at_s, dict(row.metrics), event.generation)
        for event in map(event_of, journal.read(RECORD.run))
        if isinstance(event, Progressed)
        for row in event.rows
    ]
    assert set(pairs) >= {(row.trial, row.iteration) for row in without_lost(reported)}
    trials = pd.read_csv(folder / "trials.csv")
    assert list(trials["trial"]) == sorted(core.state.trials)
    assert list(trials["status"]) == [core.state.trials[number].phase.value for number in trials["trial"]]


@pytest.mark.parametrize("seed", [1, 2, 3, 300_001, 300_002])
def test_what_is_written_on_the_way_is_what_happened(seed: int, tmp_path: Path) -> None:
    experiment, journal = simulated(seed)
    core = experiment.setup.make_core(seed)
    logger = logger_of(core, tmp_path)
    for entry in journal.read(RECORD.run):
        event = event_of(entry)
        logger.take(event, core.handle(event))
        if not entry.number % 20:
            logger.flush()
    logger.close()
    assert not logger.remarks()
    check(tmp_path, journal, core)


@pytest.mark.parametrize("seed", [2, 300_001])
def test_a_run_that_is_taken_up_again_is_there_once_and_whole(seed: int, tmp_path: Path) -> None:
    experiment, journal = simulated(seed)
    entries = list(journal.read(RECORD.run))
    core = experiment.setup.make_core(seed)
    first = logger_of(core, tmp_path)
    half = len(entries) // 2
    for entry in entries[:half]:
        event = event_of(entry)
        first.take(event, core.handle(event))
        first.flush()
    first.close()
    second = logger_of(core, tmp_path)
    catch_up(second, entries[:half])
    for entry in entries[half:]:
        event = event_of(entry)
        second.take(event, core.handle(event))
        second.flush()
    second.close()
    check(tmp_path, journal, core)


def test_a_metric_that_comes_up_late_gets_a_column(tmp_path: Path) -> None:
    sink = CsvWriter(tmp_path)
    sink.update(RunNews(trials=(), rows=(RowEntry(0, 1, 0.5, {"score": 1.0}, 1),)))
    sink.update(RunNews(trials=(), rows=(RowEntry(0, 2, 1.0, {"loss": 2.0, "score": 3.0}, 1),)))
    rows = pd.read_csv(tmp_path / "rows.csv")
    assert list(rows.columns) == ["trial", "iteration", "at_s", "score", "loss"]
    assert list(rows["score"]) == [1.0, 3.0]
    assert rows["loss"].isna().tolist() == [True, False]


class _Waits:
    """A server that does not answer until it is let go."""

    where = "nowhere"

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def update(self, news: RunNews) -> None:
        self.let_go.wait()

    def close(self) -> None:
        pass


@pytest.fixture
def waits() -> Iterator[_Waits]:
    sink = _Waits()
    yield sink
    sink.let_go.set()


def test_a_sink_that_hangs_does_not_keep_the_run(waits: _Waits) -> None:
    scribe = WriterThread("mlflow", lambda: waits, explain=lambda why: f"stopped: {why}", now=lambda: 7.0)
    scribe.tell(RunNews(trials=(), rows=()))
    scribe.close(patience_s=0.05)
    assert scribe.complaint is not None
    assert "it has not answered" in scribe.complaint.text


def test_what_goes_wrong_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> CsvWriter:
        raise ConnectionError("no such server\nand more")

    scribe = WriterThread("mlflow", broken, explain=lambda why: f"stopped: {why}", now=lambda: 7.0)
    for _ in range(3):
        scribe.tell(RunNews(trials=(), rows=()))
    scribe.close()
    assert scribe.complaint is not None
    assert scribe.complaint.topic == "logging"
    assert scribe.complaint.text == ("stopped: ConnectionError: no such server")
    assert len(caplog.records) == 1


def test_a_library_that_is_missing_is_reported_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = make_experiment(1).setup.make_core(1)
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "mlflow" else find(name, *more)
    )
    job = SMALL.model_copy(update={"logging": LoggingSection(mlflow=MlflowSection())})
    with pytest.raises(JobError, match=r"logging: mlflow needs mlflow: pip install 'elastune\[mlflow\]'"):
        open_listeners(
            job, core.state, MemoryJournal(), RECORD, RunFolder(path=tmp_path), Store.open(tmp_path)
        )


@pytest.mark.parametrize(("policy", "listening"), [("asha", 1), ("profile", 0)])
def test_runs_that_only_measure_are_not_logged(policy: str, listening: int, tmp_path: Path) -> None:
    core = make_experiment(1).setup.make_core(1)
    job = SMALL.model_copy(update={"logging": LoggingSection(csv=True)})
    record = replace(RECORD, policy=policy)
    listeners = open_listeners(
        job, core.state, MemoryJournal(), record, RunFolder(path=tmp_path), Store.open(tmp_path)
    )
    assert len(listeners.each) == listening
    listeners.close()
    assert (tmp_path / "export" / "rows.csv").exists() == bool(listening)
