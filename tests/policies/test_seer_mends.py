"""What SEER does beyond the letter: it trains until a limit ends it, its winner keeps its slots, its trials
change smoothly with the cluster, and a sampler that learns has something to learn from."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import pytest

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import Ending
from elastune.core.trials import Phase
from elastune.job.job import Job
from elastune.job.search_options import SeerSearch
from elastune.policies.seer import LEARNING_WAVES, Seer, SeerOptions
from elastune.policies.seer_plan import SeerPlan
from elastune.runs.quotes.quoting import quote_policy
from elastune.runs.quotes.warnings import quote_warnings
from elastune.setup.run_setup import prepare
from tests.runs.checked_run import CheckedRun, checked_run, job_of


def job(minutes: float, slots: int, *, max_nodes: int = 128, **search: object) -> Job:
    """A minute per iteration, a dollar per slot and hour, nothing boots."""
    return _job(None, minutes, slots, max_nodes=max_nodes, **search)


def _job(learning: object, minutes: float, slots: int, *, max_nodes: int = 128, **search: object) -> Job:
    changes: dict[str, object] = {
        "search": {"algorithm": "seer", "min_round": "1m", **search},
        "deadline": minutes * 60.0,
        "budget": slots * minutes / 60.0,
        "profile": {"iteration": 60.0, "speedup": {1: 1.0, 2: 1.9, 4: 3.6, 8: 6.0}},
        "cluster": {
            "slots_per_node": 4,
            "price_per_hour": 4.0,
            "billing": "function",
            "minimum_charge": 0,
            "max_nodes": max_nodes,
        },
    }
    return job_of(learning, **changes) if learning is not None else job_of(**changes)  # type: ignore[arg-type]


def plan_of(job: Job) -> SeerPlan:
    setup = prepare(job, samples=16)
    assert isinstance(setup.search, SeerOptions)
    return Seer(setup.search).find_plan(setup.terms)


def stops_after_three(config: Mapping[str, float]) -> Iterator[float]:
    for iteration in range(1, 4 if config["x"] > 0.8 else 1_000):
        yield config["x"] + 0.001 * iteration


def diverges_after_three(config: Mapping[str, float], iteration: int) -> float:
    return float("nan") if config["x"] > 0.8 and iteration > 3 else config["x"] + 0.001 * iteration


@pytest.mark.parametrize("learning", [stops_after_three, diverges_after_three])
def test_finalists_that_finish_or_diverge_are_replaced_and_the_run_goes_on(learning: object) -> None:
    """To the letter it ends when the last of its finalists does, with time and money left."""
    mended, letter = (checked_run(_job(learning, 30, 4, letter=flag), seed=3) for flag in (False, True))
    assert mended.seconds == pytest.approx(1800.0, rel=0.05)
    assert mended.usd > 0.9 * 2.0
    assert letter.seconds < mended.seconds
    assert letter.usd < mended.usd


def test_when_all_trials_are_trained_new_ones_use_the_time_that_is_left() -> None:
    """Finding: a real run ended after 34 of 120 seconds with 8 trials, all of them trained, and 63 % of the
    money."""
    mended, letter = (
        checked_run(_job(None, 60, 4, letter=flag, max_iterations=5), seed=3) for flag in (False, True)
    )
    assert letter.seconds < 1800.0
    assert mended.seconds >= 0.9 * 3600.0
    assert mended.usd >= 0.9 * 4.0
    assert len(mended.state.trials) > len(letter.state.trials)
    assert max(trial.iteration for trial in mended.state.trials.values()) == 5


def test_a_place_goes_at_once_to_the_best_eliminated_trial() -> None:
    run = checked_run(_job(stops_after_three, 30, 4), seed=3)
    lasting = [trial for trial in run.state.trials.values() if trial.phase is not Phase.FINISHED]
    best = max(lasting, key=lambda trial: float(trial.config["x"]))  # type: ignore[arg-type]
    assert len(lasting) < len(run.state.trials)
    assert best.iteration == max(trial.iteration for trial in lasting)
    assert best.iteration > 15


def test_no_trial_is_stopped_before_the_end_unless_to_the_letter() -> None:
    mended, letter = (
        checked_run(_job(stops_after_three, 30, 4, letter=flag), seed=1) for flag in (False, True)
    )
    for run, stops in ((mended, False), (letter, True)):
        eliminated = [
            trial for trial in run.state.changes.cut if run.state.trials[trial].phase is Phase.STOPPED
        ]
        assert (len(eliminated) < len(run.state.trials) // 4) is stops


@pytest.mark.parametrize(("minutes", "slots"), [(30, 16), (30, 64), (12, 64), (50, 16), (150, 16), (12, 4)])
def test_the_best_trial_never_loses_slots_and_all_of_the_money_is_planned_for(
    minutes: int, slots: int
) -> None:
    mended, letter = plan_of(job(minutes, slots)), plan_of(job(minutes, slots, letter=True))
    widest = [leg.gangs[0] for leg in mended.legs]
    assert widest == sorted(widest)
    assert mended.trials >= letter.trials
    assert mended.usd >= letter.usd
    assert 0.97 * slots * minutes / 60 < mended.usd <= slots * minutes / 60 * (1 + 1e-9)


def test_to_the_letter_the_widest_brackets_do_not_reach_the_last_round() -> None:
    plan = plan_of(job(30, 16, letter=True))
    assert [leg.gangs[0] for leg in plan.legs] == [4, 4, 2]


@pytest.mark.parametrize("seed", range(3))
def test_as_it_runs_the_leader_has_at_least_the_slots_that_it_had(seed: int) -> None:
    run = checked_run(job(30, 16), seed=seed)
    rounds = [at_s for at_s, c in run.commands if isinstance(c, do.Barrier)]
    best = max(run.state.trials.values(), key=lambda trial: float(trial.config["x"])).number  # type: ignore[arg-type]
    slots = [len(c.gang) for at_s, c in run.commands if isinstance(c, do.Train) and c.trial == best]
    assert rounds
    assert slots == sorted(slots)


def test_trials_and_money_change_smoothly_with_the_largest_cluster() -> None:
    """To the letter, a few nodes less halve the trials."""
    plans = {nodes: plan_of(job(30, 64, max_nodes=nodes)) for nodes in range(4, 130, 18)}
    for (few, before), (many, after) in itertools.pairwise(plans.items()):
        assert 0.85 <= after.trials / before.trials <= 1.1 * many / few
        assert after.usd >= 0.98 * before.usd
    alike = [plan_of(job(30, 64, max_nodes=nodes)).trials for nodes in (60, 64, 66, 68, 69)]
    assert max(alike) <= 1.15 * min(alike)


def test_on_a_small_cluster_trials_take_turns() -> None:
    plan = plan_of(job(30, 64, max_nodes=5))
    assert plan.shape.waves > 1
    assert plan.trials > 5 * 4
    assert all(sum(leg.gangs) <= 5 * 4 for leg in plan.legs)


def drawn_at(run: CheckedRun) -> list[float]:
    return [at_s for at_s, c in run.commands if isinstance(c, do.Sample)]


def test_a_sampler_that_learns_draws_in_waves_and_sees_what_came_of_the_waves_before() -> None:
    run = checked_run(job(30, 4, sampler={"kind": "tpe", "startup": 4}), seed=0)
    assert len(drawn_at(run)) >= LEARNING_WAVES
    seen = 0
    for event, commands in run.told:
        if isinstance(event, ev.Progressed):
            seen += len(event.rows)
        if any(isinstance(c, do.Sample) for c in commands) and event.at_s > 0.0:
            assert seen > 0
    assert run.state.ended is Ending.COMPLETE
    first = [float(run.state.trials[n].config["x"]) for n in list(run.state.trials)[:4]]  # type: ignore[arg-type]
    last = [float(run.state.trials[n].config["x"]) for n in list(run.state.trials)[-4:]]  # type: ignore[arg-type]
    assert sum(last) > sum(first)


def test_a_quote_says_when_the_sampler_has_nothing_to_learn_from() -> None:
    short, enough = (job(minutes, 16, sampler="tpe") for minutes in (2, 30))
    for each, is_told in ((short, True), (enough, False)):
        found = quote_policy(each)
        assert any("learns nothing" in text for text in quote_warnings(each, found)) is is_told


def test_the_letter_is_one_switch() -> None:
    one = plan_of(job(30, 16, letter=True))
    all_ = plan_of(job(30, 16, elimination="bracket", spend_leftover=False))
    assert one.legs == all_.legs
    seer = Seer(SeerSearch.model_validate({"letter": True, "spend_leftover": True, "waves": 3}))
    assert (seer.by_bracket, seer.spend_leftover) == (True, False)


def test_eta_and_nu_may_be_real_numbers() -> None:
    plan = plan_of(job(30, 64, eta=2.5, nu=1.5))
    seconds = [leg.seconds for leg in plan.legs]
    assert seconds[-1] == pytest.approx(2.5 * seconds[-2])
    run = checked_run(job(30, 16, eta=2.5, nu=1.5), seed=1)
    assert run.state.ended is Ending.COMPLETE
    assert run.usd <= 8.0 * (1 + 1e-9)


@pytest.mark.parametrize("letter", [False, True])
def test_every_round_has_a_trial_if_eta_is_no_whole_number(letter: bool) -> None:
    """Of the 1.5 trials of the first round one is left for the second."""
    plan = plan_of(job(8, 1, eta=1.5, letter=letter))
    assert len(plan.legs) > 1
    assert all(leg.gangs for leg in plan.legs)
