"""Models that hop, in real processes: every epoch is whole, and every state is what its way made of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import elastune
from elastune.cli.app import app
from elastune.core import events as ev
from elastune.core.commands import Ending
from elastune.errors import JobError
from elastune.journal.store import Journal
from elastune.model.ids import TrialId
from elastune.runs.real import FinishedRun
from elastune.runs.trial_replay import read_visit_orders
from tests.core.visits import Watch
from tests.runtime.real.hoppers import (
    LEARNER,
    ROWS,
    VALIDATION_ROWS,
    data_of,
    digest_of,
    hopping_job,
    journalled,
    leftovers,
    rows_of,
    watch_journal,
    write_data,
)
from tests.runtime.real.runs import our_processes, run, wait_until_gone
from tests.views.sketching import sketched

__all__ = ["sketched"]

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")

HEAVY = {"ballast": {"choice": [30_000]}}
"""A quarter of a megabyte: such models travel through Ray's object store, smaller ones with the messages."""


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    before = our_processes()
    yield
    wait_until_gone(before)


def check(finished: FinishedRun, data: list[np.ndarray], *, validation: int = 0) -> Watch:
    """A good end: the best of all trials won, and its state is the replay of its journalled visits."""
    folder, result = finished.folder.path, finished.result
    watch = watch_journal(folder, len(data), validation)
    assert result.ending is Ending.COMPLETE
    assert result.phases == {"stopped": 3, "finished": 1}
    drawn = {
        int(trial): config["x"]
        for event, _ in journalled(folder)
        if isinstance(event, ev.TrialsSampled)
        for trial, config in event.trials
    }
    assert result.best is not None
    assert result.best.trial == max(drawn, key=lambda trial: float(str(drawn[trial])))
    assert result.best.metric == pytest.approx(result.best.config["x"] + 0.004)  # type: ignore[operator]
    for trial, rows in rows_of(folder).items():
        assert [row.iteration for row in rows] == list(range(1, len(rows) + 1)), "one row per epoch"
        mean = float(np.concatenate(data).mean())
        assert all(row.metrics["mean"] == pytest.approx(mean) for row in rows), trial
    assert result.best.checkpoint is not None
    state = elastune.load_checkpoint(result.best.checkpoint)
    x: Any = result.best.config["x"]
    assert state["digest"] == digest_of(watch, result.best.trial, x, data)
    kept = sorted((folder / "checkpoints").rglob("*.ckpt"))
    assert [str(path) for path in kept] == [result.best.checkpoint]
    assert leftovers(finished) == []
    told = elastune.status(folder, audit=True)
    assert told.audit is not None
    assert told.audit.is_clean
    return watch


@pytest.mark.slow
def test_every_trial_visits_every_partition_once_per_epoch(tmp_path: Path) -> None:
    """Heavy models, validation data, and two copies of every partition."""
    folder = write_data(tmp_path / "data")
    evaluated = write_data(tmp_path / "validation", VALIDATION_ROWS, first=100)
    job = hopping_job(folder, space=HEAVY, data={"validation": str(evaluated), "replicas": 2})
    finished = run(job, tmp_path / "runs")
    watch = check(finished, data_of(folder), validation=2)
    rows = [row for rows in rows_of(finished.folder.path).values() for row in rows]
    assert {row.metrics["validated"] for row in rows} == {float(np.arange(100, 110).mean())}
    assert watch.visits == len(rows) * (len(ROWS) + len(VALIDATION_ROWS))
    assert watch.repeated == 0
    visits = [event for event, _ in journalled(finished.folder.path) if isinstance(event, ev.VisitEnded)]
    assert any(visit.hopped for visit in visits)
    assert min(visit.model_bytes for visit in visits) > 200_000
    assert elastune.report(finished.folder.path)
    again = elastune.replay(finished.folder.path)
    assert again.same is True
    assert again.visits == again.iteration * (len(ROWS) + len(VALIDATION_ROWS))
    told = CliRunner().invoke(app, ["replay", str(finished.folder.path)])
    assert "bit for bit" in told.stdout
    with pytest.raises(JobError, match="has no trial 99"):
        elastune.replay(finished.folder.path, trial=99)


@pytest.mark.slow
def test_data_beyond_the_memory_of_a_worker_are_spilled(tmp_path: Path) -> None:
    folder = write_data(tmp_path / "data", (60_000, 50_000, 70_000, 20_000))
    (tmp_path / "spilled").mkdir()
    job = hopping_job(folder, data={"memory": "600KB", "spill": str(tmp_path / "spilled")})
    check(run(job, tmp_path / "runs"), data_of(folder))
    assert list((tmp_path / "spilled").rglob("*")) == []


@pytest.mark.slow
def test_a_reader_of_ones_own_and_a_function_that_yields(tmp_path: Path) -> None:
    folder = write_data(tmp_path / "data")
    reader = f"{Path(__file__).with_name('hoppers.py')}:read"
    job = hopping_job(folder, "walk", data={"reader": reader})
    check(run(job, tmp_path / "runs"), [x + 1000.0 for x in data_of(folder)])


@pytest.mark.slow
def test_partitions_that_are_many_files_each(tmp_path: Path) -> None:
    folder = write_data(tmp_path / "data", (3, 4, 5, 6, 7, 8))
    finished = run(hopping_job(folder, data={"partitions": 3}), tmp_path / "runs")
    watch = watch_journal(finished.folder.path, 3)
    assert watch.visits == 3 * sum(len(rows) for rows in rows_of(finished.folder.path).values())
    mean = float(np.concatenate(data_of(folder)).mean())
    rows = [row for rows in rows_of(finished.folder.path).values() for row in rows]
    assert {round(row.metrics["mean"], 9) for row in rows} == {round(mean, 9)}


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["randomized", "exact"])
def test_every_scheduler_runs_for_real(tmp_path: Path, scheduler: str) -> None:
    folder = write_data(tmp_path / "data")
    finished = run(hopping_job(folder, data={"scheduler": scheduler}), tmp_path / "runs")
    check(finished, data_of(folder))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["asha", "pbt", "hyperband", "random"])
def test_every_kind_of_policy_hops(tmp_path: Path, algorithm: str) -> None:
    folder = write_data(tmp_path / "data")
    search: dict[str, Any] = {"algorithm": algorithm, "max_iterations": 4}
    if algorithm != "hyperband":
        search["trials"] = 4
    finished = run(hopping_job(folder, search=search, space=HEAVY), tmp_path / "runs")
    assert finished.result.ending is Ending.COMPLETE
    watch = watch_journal(finished.folder.path)
    best = finished.result.best
    assert best is not None
    assert best.checkpoint is not None
    state = elastune.load_checkpoint(best.checkpoint)
    if algorithm != "pbt":  # there the way began in another trial
        x: Any = best.config["x"]
        assert state["digest"] == digest_of(watch, best.trial, x, data_of(folder), best.iterations)
    assert leftovers(finished) == []


@pytest.mark.slow
def test_the_last_trial_trains_together_on_all_workers(tmp_path: Path) -> None:
    folder = write_data(tmp_path / "data")
    evaluated = write_data(tmp_path / "validation", VALIDATION_ROWS, first=100)
    profile = {"iteration": 1.0, "startup": 0.01, "save": 0.01, "speedup": {"1": 1.0, "2": 1.9}}
    search = {"algorithm": "sha", "trials": 4, "min_iterations": 1, "max_iterations": 4, "eta": 2}
    validation = {"validation": str(evaluated)}
    job = hopping_job(folder, profile=profile, search=search, data=validation, space=HEAVY)
    finished = run(job, tmp_path / "runs")
    watch = check(finished, data_of(folder), validation=2)
    best = finished.result.best
    assert best is not None
    lengths = {len(order) for order in watch.orders[best.trial]}
    assert 3 in lengths, "half of the partitions, and half of those for validation"
    rows = rows_of(finished.folder.path)[best.trial]
    assert {row.metrics["validated"] for row in rows} == {float(np.arange(100, 110).mean())}
    assert elastune.replay(finished.folder.path).same


@pytest.mark.slow
def test_what_a_gang_of_all_workers_learned_is_replayed_bit_for_bit(tmp_path: Path) -> None:
    """The last of four trials has nine epochs left, of which it tries one on all workers."""
    folder = write_data(tmp_path / "data")
    search = {"algorithm": "sha", "trials": 4, "min_iterations": 1, "max_iterations": 12, "eta": 2}
    profile = {"iteration": 1.0, "startup": 0.01, "save": 0.01, "speedup": {"1": 1.0, "2": 1.9}}
    job = hopping_job(folder, trainable=LEARNER, profile=profile, search=search, keep_checkpoints="all")
    finished = run(job, tmp_path / "runs")
    assert finished.result.best is not None
    best = TrialId(finished.result.best.trial)
    journal = Journal.open(finished.folder.journal, read_only=True)
    epochs = read_visit_orders(journal.read(finished.record.run))[best].epochs
    assert {len(epoch.visits) for epoch in epochs} == {0, len(ROWS)}, "some hopping, some together"
    for iteration in (epochs[-1].iteration, next(each.iteration for each in epochs if each.shares)):
        assert elastune.replay(finished.folder.path, trial=best, iteration=iteration).same
