"""Trainables that cannot be saved: what they train again is planned, simulated and paid for."""

from __future__ import annotations

from typing import Any

import pytest

from elastune.core import events as ev
from elastune.core.commands import Ending, Train
from elastune.errors import JobError
from elastune.job.document import InvalidJobError
from elastune.planning.prediction.draws import Draws
from elastune.planning.prediction.evaluator import Evaluator
from elastune.planning.prediction.graph import build_dag, walk_dag
from elastune.providers.simulated_faults import NodeFaults
from elastune.runs.prepared_run import prepare_run
from elastune.runtime.simulated.cloud import Faults
from tests.runs.checked_run import CheckedRun, checked_run, job_of, learn

UNSAVED = {"saves": False}
CALLS = {"fidelity": "epochs"}
ONE_SLOT = {"search": {"algorithm": "sha", "trials": 9, "max_iterations": 13, "max_slots_per_trial": 1}}
THREE_NODES = {"cluster__nodes": 3, "cluster__max_nodes": None}
PLAIN: dict[str, Any] = {}


def starts(run: CheckedRun) -> list[ev.GangStarted]:
    return [event for event, _ in run.told if isinstance(event, ev.GangStarted)]


@pytest.mark.parametrize("kind", [UNSAVED, CALLS], ids=["unsaved", "calls"])
@pytest.mark.parametrize("search", [PLAIN, ONE_SLOT], ids=["gangs", "one slot"])
@pytest.mark.parametrize("nodes", [PLAIN, THREE_NODES], ids=["elastic", "fixed"])
def test_the_quote_counts_what_is_trained_again(
    kind: dict[str, Any], search: dict[str, Any], nodes: dict[str, Any]
) -> None:
    run = checked_run(job_of(**kind, **search, **nodes))
    assert run.state.ended is Ending.COMPLETE
    assert run.seconds == pytest.approx(run.quote.jct_seconds)
    assert run.usd == pytest.approx(run.quote.cost)
    saved = checked_run(job_of(**search, **nodes))
    assert run.quote.cost > saved.quote.cost
    assert run.state.best == saved.state.best


def test_a_plan_lets_gangs_stay_where_that_saves_the_repetition() -> None:
    """With one slot each, nine trials at once need two nodes more, and no trial repeats anything."""
    run = checked_run(job_of(**UNSAVED, **ONE_SLOT, cluster__slots_per_node=9))
    assert [start.repeated for start in starts(run)] == [0] * 9
    assert run.seconds == pytest.approx(run.quote.jct_seconds)


@pytest.mark.parametrize("kind", [UNSAVED, CALLS], ids=["unsaved", "calls"])
def test_the_graph_of_a_plan_agrees_with_its_evaluator(kind: dict[str, Any]) -> None:
    run = checked_run(job_of(**kind))
    (workload,) = run.quote.problem.workloads()
    draws = Draws(workload, samples=1, seed=0)
    plan = run.quote.brackets[0].plan
    spans = walk_dag(build_dag(workload, plan), draws, 0)
    assert spans[-1].end_s == pytest.approx(float(Evaluator(workload, draws).evaluate(plan).jct_s[0]))


def test_a_trial_that_continues_in_another_gang_trains_again_what_it_had_done() -> None:
    run = checked_run(job_of(**UNSAVED, search={"algorithm": "asha", "trials": 9, "max_iterations": 9}))
    again = [start for start in starts(run) if start.repeated]
    assert again
    begun = {(t.trial, t.generation): t for _, t in reversed(run.commands) if isinstance(t, Train)}
    for start in again:
        assert start.repeated == begun[start.trial, start.generation].after_iteration
    rows = [(e.trial, row.iteration) for e, _ in run.told if isinstance(e, ev.Progressed) for row in e.rows]
    assert len(rows) == len(set(rows)), "what is trained again is not reported again"
    assert len(run.notes("repeat")) == 1
    saved = checked_run(job_of(search={"algorithm": "asha", "trials": 9, "max_iterations": 9}))
    assert run.state.best is not None
    assert saved.state.best is not None
    assert run.state.best.metric == saved.state.best.metric


def test_a_call_reports_its_last_iteration_only_and_starts_from_the_beginning() -> None:
    run = checked_run(job_of(**CALLS, **ONE_SLOT, **THREE_NODES))
    best = run.state.best
    assert best is not None
    rows = [e for e, _ in run.told if isinstance(e, ev.Progressed) and e.trial == best.trial and e.rows]
    assert [row.iteration for event in rows for row in event.rows] == [1, 4, 13]
    assert run.state.trials[best.trial].iteration == 13
    began = [start.at_s for start in starts(run) if start.trial == best.trial][-1]
    last = rows[-1].rows[-1].at_s
    assert last - began >= 13 * 10.0, "thirteen iterations, not the nine that are new"
    assert all(start.repeated == 0 for start in starts(run))


SEARCHES: tuple[dict[str, Any], ...] = (
    {"algorithm": "random", "trials": 6, "max_iterations": 4},
    {"algorithm": "random", "trials": 6, "max_iterations": 4, "sampler": "tpe"},
    {"algorithm": "grid", "max_iterations": 4},
    {"algorithm": "asha", "trials": 9, "max_iterations": 9},
    {"algorithm": "sha", "trials": 9, "max_iterations": 9},
    {"algorithm": "hyperband", "max_iterations": 9},
    {"algorithm": "bohb", "max_iterations": 9},
    {"algorithm": "hypersched", "trials": 9, "max_iterations": 9},
    {"algorithm": "stages", "stages": [{"trials": 6, "iterations": 2}, {"trials": 2, "iterations": 4}]},
)


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: str(search["algorithm"]))
@pytest.mark.parametrize("kind", [UNSAVED, CALLS], ids=["unsaved", "calls"])
def test_every_search_with_iterations_keeps_deadline_and_budget(
    search: dict[str, Any], kind: dict[str, Any]
) -> None:
    """The run checks the limits and the books after every event."""
    space = {"x": {"choice": [0.1, 0.5, 0.9]}} if search["algorithm"] == "grid" else {"x": {"float": [0, 1]}}
    run = checked_run(
        job_of(**kind, search=search, space=space, deadline="20m", budget=20.0, **THREE_NODES),
        faults=Faults(nodes=NodeFaults(lost_per_hour=20.0)),
    )
    assert run.state.best is not None
    assert run.state.ended in {Ending.COMPLETE, Ending.DEADLINE, Ending.BUDGET}


def test_a_call_that_cannot_end_in_time_is_not_begun() -> None:
    search = {"algorithm": "random", "trials": 4, "max_iterations": 9}
    run = checked_run(job_of(**CALLS, search=search, deadline="150s", cluster__max_nodes=1))
    assert run.state.ended is Ending.DEADLINE
    assert {trial.iteration for trial in run.state.trials.values()} == {0, 9}
    assert run.seconds < 150.0
    assert run.state.best is not None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({**UNSAVED, "search": {"algorithm": "pbt", "trials": 4, "max_iterations": 9}}, "copies models"),
        ({**CALLS, "search": {"algorithm": "pbt", "trials": 4, "max_iterations": 9}}, "copies models"),
        ({**CALLS, "search": {"algorithm": "seer"}, "deadline": "1h", "budget": 9.0}, "by the clock"),
        (
            {**CALLS, "search": {"algorithm": "random", "trials": 4}, "deadline": "1h"},
            "search.max_iterations is missing: with a fidelity it is the value of the last call",
        ),
        ({"fidelity": "x"}, "fidelity is x, which is also in the space"),
        ({**CALLS, "saves": True}, "saves is true, but a function with a fidelity"),
        (
            {**UNSAVED, "execution": "hopper", "data": {"path": "d.npz", "partitions": 2}},
            "execution is hopper, but the trainable cannot be saved",
        ),
    ],
)
def test_what_needs_a_saved_model_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJobError, match=message):
        job_of(**changes)


def test_another_policy_than_the_jobs_is_refused_as_well() -> None:
    job = job_of(**CALLS, deadline="1h", budget=9.0)
    with pytest.raises(JobError, match=r"search\.algorithm is seer, which compares trials by the clock"):
        checked_run(job, policy="seer")


# What a real run finds out about its trainable, before a node is requested.


def forest(config: dict[str, float]) -> float:
    return config["x"]


def without_state(config: dict[str, float], worker: object) -> Any:
    yield config["x"]


def prepared(trainable: object, **changes: object) -> Any:
    cluster = {"slots_per_node": 2, "max_nodes": 2, "price_per_hour": 1.0, "provider": "local"}
    job = job_of(trainable, **{"cluster": cluster, **changes})  # type: ignore[arg-type]
    return prepare_run(job, policy=None, seed=0, address=None).setup


def test_a_function_that_returns_gets_one_slot_and_one_iteration() -> None:
    setup = prepared(forest, search={"algorithm": "random", "trials": 8}, deadline="1h")
    assert setup.job.saves is False
    assert setup.search.max_iterations == 1
    assert setup.terms.gangs.max_slots == 1
    again = type(setup.job).from_dict(setup.job.to_dict())
    assert again.continuing is setup.terms.continuing


def test_without_a_search_a_function_is_called_with_what_a_model_suggests_until_a_limit() -> None:
    setup = prepared(forest, search=None, deadline="10m", budget=5.0)
    assert (setup.policy, setup.search.max_iterations) == ("random", 1)
    assert setup.tuning.sampler.kind == "tpe"


def test_more_iterations_than_a_call_has_are_refused_with_the_line_to_change() -> None:
    with pytest.raises(JobError, match=r"max_iterations is 13, .* set it to 1, or .* fidelity: epochs"):
        prepared(forest)
    setup = prepared(forest, fidelity="epochs")
    assert setup.search.max_iterations == 13


@pytest.mark.parametrize(
    ("search", "trials"),
    [
        ("random", 27),
        ("grid", None),
        ({"algorithm": "random", "trials": 8}, 8),
        ({"algorithm": "random", "sampler": "tpe", "trials": 8}, 8),
    ],
)
def test_a_search_of_calls_need_not_say_that_each_is_one_iteration(search: Any, trials: int | None) -> None:
    setup = prepared(forest, search=search, space={"x": {"choice": [0.1, 0.2]}})
    assert (setup.search.max_iterations, setup.search.trials) == (1, trials)
    timed = prepared(forest, search=search, space={"x": {"choice": [0.1, 0.2]}}, deadline="1h")
    assert timed.search.max_iterations == 1


def test_a_search_whose_end_is_not_said_is_refused_unless_its_trainable_is_called_once() -> None:
    endless = {"algorithm": "random", "trials": 8}
    message = (
        r"^search\.max_iterations is left out, and nothing else ends the search; expected max_iterations"
    )
    with pytest.raises(JobError, match=message):
        prepared(without_state, search=endless)
    with pytest.raises(JobError, match=message):
        checked_run(job_of(search=endless))
    with pytest.raises(JobError, match=r"^search is asha, which stops trainings early, but .*forest returns"):
        prepared(forest, search="asha")
    with pytest.raises(
        InvalidJobError, match=r"search\.trials is left out, and nothing else ends the search"
    ):
        prepared(forest, search={"algorithm": "random", "max_iterations": 1})


def test_what_the_job_says_of_saving_has_to_be_true() -> None:
    assert prepared(without_state).job.saves is False
    with pytest.raises(
        JobError, match=r"saves is true, but .*without_state cannot be saved; add save and load"
    ):
        prepared(without_state, saves=True)
    with pytest.raises(JobError, match=r"search\.algorithm is pbt, which copies models"):
        prepared(without_state, search={"algorithm": "pbt", "trials": 4, "max_iterations": 9})


def test_the_job_of_a_saved_trainable_is_written_as_before() -> None:
    plain = job_of(learn).to_dict()
    assert not {"saves", "fidelity"} & plain.keys()
