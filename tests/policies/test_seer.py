"""SEER as it runs: the paper to the letter where nothing gets in its way, and the cures beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elastune.core import commands as do
from elastune.core.commands import Ending
from elastune.errors import InfeasibleError, JobError
from elastune.job.job import Job
from elastune.job.search_options import SeerSearch
from elastune.model.distributions import Constant
from elastune.model.ids import TrialId
from elastune.policies.costs import RoundCosts
from elastune.policies.seer import Seer, SeerOptions, outline
from elastune.setup.run_setup import RunSetup, prepare
from tests.runs.checked_run import CheckedRun, checked_run, job_of

# Section 3.4: ten minutes, 80 slot minutes, nothing but training; one slot costs a dollar a minute.
SEARCH = {"algorithm": "seer", "eta": 2, "spend_leftover": False, "elimination": "bracket"}
LETTER: dict[str, object] = {
    "search": {**SEARCH, "min_round": "1m"},
    "deadline": "10m",
    "budget": 80,
    "profile": {"iteration": 1.0},
    "cluster": {"slots_per_node": 1, "max_nodes": 64, "price_per_hour": 60, "minimum_charge": 0},
}


def letter(**search: object) -> Job:
    return job_of(**{**LETTER, "search": {**LETTER["search"], **search}})  # type: ignore[dict-item]


def gangs_by_round(run: CheckedRun) -> list[dict[TrialId, int]]:
    """Slots of each trial that trains, right after the start and right after every round's end."""
    ends = [0.0, *(at_s for at_s, c in run.commands if isinstance(c, do.Barrier))]
    found = []
    for begin in ends:
        held: dict[TrialId, int] = {}
        for at_s, command in run.commands:
            if at_s > begin + 2.0:
                break
            if isinstance(command, do.Train):
                held[command.trial] = len(command.gang)
            elif isinstance(command, do.Stop):
                held.pop(command.trial, None)
        found.append(held)
    return found


def test_to_the_letter_rounds_have_the_trials_and_slots_of_the_paper() -> None:
    run = checked_run(letter(), seed=1)
    sizes = [sorted(held.values(), reverse=True) for held in gangs_by_round(run)]
    assert sizes == [[2] * 4 + [1] * 8, [2, 2, 1, 1, 1, 1], [2, 1, 1]]
    ends = [at_s for at_s, c in run.commands if isinstance(c, do.Barrier)]
    assert ends == pytest.approx([85.714, 257.143], abs=0.01)
    assert run.seconds == pytest.approx(600.0, rel=1e-3)
    assert run.usd == pytest.approx(68.57, rel=0.01)


def test_the_best_get_the_most_slots() -> None:
    run = checked_run(letter(elimination="global"), seed=1)
    x = {number: float(trial.config["x"]) for number, trial in run.state.trials.items()}  # type: ignore[arg-type]
    for held in gangs_by_round(run)[1:]:
        best_first = sorted(held, key=lambda number: -x[number])
        sizes = [held[number] for number in best_first]
        assert sizes == sorted(sizes, reverse=True)


def test_global_elimination_keeps_the_best_of_all_brackets_and_the_letter_does_not() -> None:
    by_all, by_bracket = (checked_run(letter(elimination=how), seed=4) for how in ("global", "bracket"))
    x = {number: float(trial.config["x"]) for number, trial in by_all.state.trials.items()}  # type: ignore[arg-type]
    best = sorted(x, key=lambda number: -x[number])
    kept = set(gangs_by_round(by_all)[1])
    assert kept == set(best[: len(kept)])
    first = gangs_by_round(by_bracket)[0]
    second = gangs_by_round(by_bracket)[1]
    for slots, count in ((1, 4), (2, 2)):
        mine = [number for number in best if first.get(number) == slots]
        assert {number for number in second if first.get(number) == slots} == set(mine[:count])


def test_leftovers_are_spent_and_the_limits_hold() -> None:
    spent, saved = (
        checked_run(letter(spend_leftover=flag, elimination="global"), seed=2) for flag in (True, False)
    )
    assert len(spent.state.trials) >= len(saved.state.trials) == 16  # as many as the paper has slots
    assert saved.usd < spent.usd <= 80.0 * (1 + 1e-9)
    assert spent.seconds <= 600.0


@pytest.mark.parametrize("seed", range(3))
def test_with_overheads_it_ends_in_time_with_what_it_quoted(seed: int) -> None:
    job = job_of(
        search={"algorithm": "seer", "min_round": 30.0},
        deadline=900.0,
        budget=25.0,
        cluster__slots_per_node=4,
        cluster__max_nodes=8,
    )
    run = checked_run(job, seed=seed)
    assert run.state.ended is Ending.COMPLETE
    assert run.seconds == pytest.approx(900.0, rel=0.03)
    assert 0.7 * 25.0 < run.usd <= 25.0


def options_of(setup: RunSetup) -> SeerOptions:
    assert isinstance(setup.search, SeerSearch)
    return setup.search


def test_where_the_cluster_is_too_small_for_the_first_round_fewer_trials_start() -> None:
    wide, narrow = (
        prepare(job_of(**{**LETTER, "cluster__max_nodes": nodes}), samples=16) for nodes in (64, 6)
    )
    plans = [Seer(options_of(setup)).find_plan(setup.terms) for setup in (wide, narrow)]
    assert plans[0].shape.trials == 12
    assert sum(plans[1].legs[0].gangs) <= 6
    assert plans[1].shape.rounds > 1


def test_the_outline_has_no_empty_brackets_and_prices_that_add_up() -> None:
    setup = prepare(job_of(**LETTER), samples=16)
    data = outline(options_of(setup), setup.terms).to_dict()
    assert data["rounds"] == 3
    assert data["first_round_seconds"] == pytest.approx(85.714, abs=1e-3)
    brackets = data["brackets"]
    assert isinstance(brackets, list)
    assert [(b["slots_per_trial"], b["trials"]) for b in brackets] == [(1, 8), (2, 4)]
    assert [b["budget"] for b in brackets] == pytest.approx([34.286, 34.286], abs=1e-3)
    assert [b["slot_minutes"] for b in brackets] == pytest.approx([34.286, 34.286], abs=1e-3)


def test_too_little_of_either_says_what_would_do() -> None:
    with pytest.raises(InfeasibleError, match=r"not enough for one round.*it takes 1m00s and \$1\.00"):
        prepare(job_of(**{**LETTER, "budget": 0.5}), samples=16)
    with pytest.raises(InfeasibleError, match="not enough for one round"):
        prepare(job_of(**{**LETTER, "deadline": "30s"}), samples=16)


def test_it_needs_a_limit() -> None:
    with pytest.raises(JobError, match="seer needs a deadline, a budget, or both"):
        prepare(job_of(**{**LETTER, "deadline": None, "budget": None}), samples=16)


def test_one_limit_is_enough() -> None:
    for missing in ("deadline", "budget"):
        run = checked_run(job_of(**{**LETTER, missing: None}), seed=0)
        assert run.state.ended is Ending.COMPLETE


def test_a_trial_that_has_trained_to_the_end_makes_room() -> None:
    run = checked_run(letter(max_iterations=50), seed=0)
    assert max(trial.iteration for trial in run.state.trials.values()) == 50
    assert run.seconds < 600.0


def test_options_that_no_seer_has_are_refused_by_the_job() -> None:
    with pytest.raises(JobError, match=r"search\.elimination is 'local'; expected global or bracket"):
        letter(elimination="local")
    with pytest.raises(JobError, match=r"search\.nu is 1; expected"):
        letter(nu=1)


def test_the_options_are_read() -> None:
    seer = Seer(SeerSearch.model_validate({"eta": 3, "min_round": 5.0}))
    assert (seer.eta, seer.nu, seer.spend_leftover, seer.by_bracket) == (3, 2, True, False)


def test_without_min_round_the_first_round_is_an_iteration_of_the_profile() -> None:
    setup = prepare(job_of(**{**LETTER, "search": SEARCH}), samples=16)
    slow = prepare(job_of(**{**LETTER, "search": SEARCH, "profile": {"iteration": "2m"}}), samples=16)
    plans = [Seer(options_of(each)).find_plan(each.terms) for each in (setup, slow)]
    assert plans[0].shape.first_round < 60.0
    assert plans[0].shape.trials > 12
    assert plans[1].shape.first_round >= 120.0


def test_a_round_is_long_enough_for_slow_trials_and_longer_than_what_lies_between() -> None:
    profile = {"iteration": {"mean": "1s", "sd": "250ms"}, "spread": 0.5, "startup": "2s"}
    terms = prepare(job_of(**{**LETTER, "profile": profile}), samples=16).terms
    costs = RoundCosts.of(terms)
    assert costs.shortest_round_s(1) == pytest.approx(4 * costs.move_s) == pytest.approx(8.0)
    quick = replace(costs, profile=replace(costs.profile, startup=Constant(0.0)))
    assert quick.shortest_round_s(1) == pytest.approx(1.5 * 2.0, rel=1e-3)
