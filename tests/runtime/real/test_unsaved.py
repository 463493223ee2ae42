"""Trainables that cannot be saved, and stages that fail, in real processes."""

from __future__ import annotations

import io
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rich.console

import elastune
from elastune.core import events as ev
from elastune.core.commands import Ending
from elastune.core.events import AnyEvent
from elastune.journal.codec import event_of
from elastune.journal.store import Journal
from elastune.model.configuration import Configuration
from elastune.runs.real import FinishedRun
from elastune.runtime.ray.messages import (
    Broken,
    Dissolve,
    Extend,
    GangBegan,
    GangId,
    GangTerms,
    Join,
    Keep,
    Kept,
    Listening,
    Trained,
)
from elastune.views.terminal.status import render_finished
from tests.runtime.real.runs import as_function, job_of, our_processes, run, wait_until_gone
from tests.runtime.real.slot_processes import Watched, crew_of, form
from tests.runtime.real.test_slot_processes import rows_until

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")

ONE_NODE: dict[str, Any] = {"slots_per_node": 2, "nodes": 1, "price_per_hour": 3.6, "init": 3}
# Two gangs for four trials: two of them wait their turn, so survivors continue in other gangs.
TURNS: dict[str, Any] = {
    "search": {
        "algorithm": "sha",
        "trials": 4,
        "min_iterations": 2,
        "max_iterations": 8,
        "eta": 2,
        "max_slots_per_trial": 1,
    },
    "cluster": ONE_NODE,
}


def drawn_x(config: Configuration) -> float:
    x = config["x"]
    assert isinstance(x, float)
    return x


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    before = our_processes()
    yield
    wait_until_gone(before)


def events_of(path: Path) -> list[AnyEvent]:
    journal = Journal.open(path, read_only=True)
    (record,) = journal.runs()
    return [event_of(entry) for entry in journal.read(record.run)]


def gangs(events: list[AnyEvent]) -> dict[int, list[int]]:
    """By trial: what each of its gangs trained again."""
    told: dict[int, list[int]] = defaultdict(list)
    for event in events:
        if isinstance(event, ev.GangStarted):
            told[event.trial].append(event.repeated)
    return told


def iterations(events: list[AnyEvent], trial: int) -> list[int]:
    rows = [e.rows for e in events if isinstance(e, ev.Progressed) and e.trial == trial]
    return [row.iteration for some in rows for row in some]


# Slot processes alone.


# Of two is slow: it imports torch, and all ranks train again what one does.
@pytest.mark.parametrize("size", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_gang_trains_again_what_has_no_model_and_goes_on(tmp_path: Path, size: int) -> None:
    preload = ("torch",) if size > 1 else ()
    with crew_of("repeating", tmp_path, slots=size, preload=preload) as crew:

        def formed(generation: int, after: int, until: int) -> None:
            for rank in range(size):
                one = form(generation=generation, rank=rank, size=size, after=after, until=until)
                crew.processes.order(rank, one)
            if size > 1:
                meeting = crew.wait_for(Listening).meeting
                crew.processes.order(1, Join(gang=GangId(0, generation), meeting=meeting))

        formed(1, 0, 3)
        assert crew.wait_for(GangBegan).repeated == 0
        assert rows_until(crew, "reached") == [1, 2, 3]
        crew.processes.order(0, Keep(gang=GangId(0, 1)))
        crew.wait_for(Kept)
        for rank in range(size):
            crew.processes.order(rank, Dissolve(gang=GangId(0, 1), grace_s=5.0))
        formed(2, 3, 5)
        began = crew.wait_for(GangBegan)
        assert (began.repeated, began.changed) == (3, "")
        news = crew.wait_for(Trained)
        assert (news.rows[0][0], news.rows[0][2]["done"]) == (4, 4.0)


def paused_after_two(crew: Watched, times: str, length: float) -> None:
    crew.processes.order(0, form(until=2, times=times, length=length))
    assert rows_until(crew, "reached") == [1, 2]
    crew.processes.order(0, Keep(gang=GangId(0, 1)))
    crew.wait_for(Kept)
    crew.processes.order(0, form(generation=2, after=2, until=3, times=times, length=length))


def test_metrics_that_differ_when_trained_again_are_told(tmp_path: Path) -> None:
    with crew_of("forgetful", tmp_path) as crew:
        paused_after_two(crew, times=str(tmp_path / "times"), length=9)
        began = crew.wait_for(GangBegan, lambda news: news.gang.generation == 2)
        assert (began.repeated, began.changed) == (2, "score was 0 and is 6")


def test_a_training_that_ends_earlier_when_trained_again_is_a_failure(tmp_path: Path) -> None:
    with crew_of("forgetful", tmp_path) as crew:
        paused_after_two(crew, times=str(tmp_path / "times"), length=1)
        broken = crew.wait_for(Broken)
        assert "forgetful ended after 1 iterations when it was trained again, and had done 2" in broken.error


def test_a_lease_is_one_call_to_its_last_iteration(tmp_path: Path) -> None:
    with crew_of("called", tmp_path, fidelity="epochs") as crew:
        crew.processes.order(0, form(until=3, sleep=0.0))
        first = crew.wait_for(Trained)
        assert [(row[0], row[2]["score"]) for row in first.rows] == [(3, 0.503)]
        terms = GangTerms(until_iteration=9, until=None, keep_above=None)
        crew.processes.order(0, Extend(gang=GangId(0, 1), terms=terms))
        second = crew.wait_for(Trained, lambda news: bool(news.rows))
        assert [(row[0], row[2]["score"]) for row in second.rows] == [(9, 0.509)]
        crew.processes.order(0, Dissolve(gang=GangId(0, 1), grace_s=5.0))
        crew.processes.order(0, form(trial=1, until=9, until_s=time.monotonic() + 0.5, sleep=0.0))
        assert crew.wait_for(Trained, lambda news: news.gang.trial == 1).reason == "time"


# Whole runs.


def test_in_both_runtimes_a_trial_without_a_save_trains_again_and_reports_once(tmp_path: Path) -> None:
    job = job_of("repeating", **TURNS)
    simulated = tmp_path / "simulated.sqlite"
    elastune.simulate(as_function(job).model_copy(update={"saves": False}), journal=simulated)
    finished = run(job, tmp_path / "runs")
    result, events = finished.result, events_of(finished.folder.journal)
    assert result.ending is Ending.COMPLETE
    assert gangs(events) == gangs(events_of(simulated))
    assert any(again for each in gangs(events).values() for again in each)
    assert result.best is not None
    assert iterations(events, result.best.trial) == list(range(1, 9))
    assert result.best.metric == pytest.approx(drawn_x(result.best.config) + 0.008)
    assert not any(event.changed for event in events if isinstance(event, ev.GangStarted))
    record = elastune.load_checkpoint(str(result.best.checkpoint))
    assert record["iteration"] == 8
    assert record["config"] == dict(result.best.config)
    assert "has no save; train it again with this config" in record["why"]


@pytest.mark.slow  # the tests above are real runs without saves, too
def test_a_cross_validated_forest_of_one_iteration_needs_no_save(tmp_path: Path) -> None:
    job = job_of(
        "cross_validated",
        space={"trees": {"int": [2, 12]}, "depth": {"int": [2, 6]}},
        metric="acc",
        search={"algorithm": "random", "trials": 8, "max_iterations": 1},
        cluster=ONE_NODE,
    )
    finished = run(job, tmp_path)
    result = finished.result
    assert result.ending is Ending.COMPLETE
    assert dict(result.phases) == {"finished": 8}
    shown = io.StringIO()
    rich.console.Console(file=shown, width=200).print(render_finished(finished))
    assert "no model is kept, because the trainable has no save" in shown.getvalue()
    assert ".ckpt" not in shown.getvalue()
    assert result.best is not None
    assert result.best.metric > 0.9
    assert set(result.best.config) == {"trees", "depth"}


@pytest.mark.slow
def test_halving_by_a_fidelity_calls_from_the_beginning_and_reports_the_rungs(tmp_path: Path) -> None:
    finished = run(job_of("called", fidelity="epochs", **TURNS), tmp_path)
    events, best = events_of(finished.folder.journal), finished.result.best
    assert finished.result.ending is Ending.COMPLETE
    assert best is not None
    assert iterations(events, best.trial) == [2, 6, 8]
    assert best.metric == pytest.approx(drawn_x(best.config) + 0.008)
    assert not any(again for each in gangs(events).values() for again in each)


def shown(finished: FinishedRun) -> list[str]:
    console = rich.console.Console(file=io.StringIO(), width=120, record=True)
    console.print(render_finished(finished))
    return console.export_text().splitlines()


@pytest.mark.slow
def test_an_exception_in_the_second_epoch_ends_the_run_with_that_cause(tmp_path: Path) -> None:
    search = {"algorithm": "asha", "trials": 20, "max_iterations": 9}
    finished = run(job_of("breaks_in_the_second", search=search, cluster=ONE_NODE), tmp_path)
    result = finished.result
    assert result.ending is Ending.FAILED
    assert finished.standing.has_failed
    assert result.phases["failed"] < 10
    first = "\n".join(shown(finished)[:4])
    assert "iteration 2 failed: ZeroDivisionError: no batches in epoch 2" in first
    assert "the best model has 1 of 9 iterations" in first
    assert "breaks_in_the_second" in str(finished.standing.traceback)
    assert result.best is not None
    assert elastune.load_checkpoint(str(result.best.checkpoint)) == {"done": 1}
