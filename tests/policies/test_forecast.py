"""`forecast` spends what it is given: on many trials first, then on the best of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastune.core import commands as do
from elastune.core.commands import Ending
from elastune.job.job import Job, load_job
from elastune.journal.writer import MemoryJournal
from elastune.policies.forecast.policy import ForecastPolicy
from elastune.runs.quotes.policy_quote import UnrecordedDriver
from elastune.runs.simulation import Simulation, unnamed
from elastune.setup.run_setup import prepare
from tests.runs.checked_run import SAMPLES, CheckedRun, checked_run, job_of
from tests.thoroughness import most_telling

EXAMPLES = Path(__file__).parents[2] / "examples"
FORECAST = {"search": {"algorithm": "forecast"}}
BOTH = {"deadline": 1200.0, "budget": 24.0, "cluster__minimum_charge": 0.0}
FIXED = {"cluster__max_nodes": None, "cluster__nodes": 2}
FUNCTION = {"cluster__billing": "function", "cluster__queue": None, "cluster__init": None}


def starts(run: CheckedRun) -> list[tuple[float, int, int]]:
    """(time, trial, slots) of every gang."""
    return [
        (at_s, command.trial, len(command.gang))
        for at_s, command in run.commands
        if isinstance(command, do.Train)
    ]


@most_telling("seed", *range(2), quick=1)
@pytest.mark.parametrize(
    "changes",
    [BOTH, {**BOTH, "cluster__minimum_charge": 600.0}, {**BOTH, **FUNCTION}, {"budget": 8.0, **FUNCTION}],
    ids=["by instance", "with a minimum charge", "by function", "no deadline"],
)
def test_the_money_is_spent(changes: dict[str, object], seed: int) -> None:
    run = checked_run(job_of(**{**FORECAST, **changes}), seed=seed)
    budget = run.state.terms.limits.budget_usd
    assert budget is not None
    assert run.usd >= 0.95 * budget or run.seconds >= 0.95 * 1200.0
    assert run.state.ended in (Ending.BUDGET, Ending.DEADLINE)


@pytest.mark.parametrize("changes", [FIXED, {}], ids=["fixed", "elastic"])
def test_without_a_budget_no_slot_idles_until_the_deadline(changes: dict[str, object]) -> None:
    run = checked_run(job_of(**{**FORECAST, **changes, "deadline": 1200.0}))
    use = [stage.use for stage in run.state.ledger.stages]
    idle_s = sum(run.state.ledger.idle_slot_s(stage) for stage in run.state.ledger.stages)
    assert run.seconds >= 0.95 * 1200.0
    assert idle_s <= 0.1 * sum(each.busy_s for each in use)


def test_new_trials_come_first_and_wide_gangs_last() -> None:
    run = checked_run(job_of(**{**FORECAST, **BOTH}))
    first: dict[int, float] = {}
    for at_s, trial, _ in starts(run):
        first.setdefault(trial, at_s)
    wide = [at_s for at_s, _, slots in starts(run) if slots > 1]
    assert max(first.values()) < 0.5 * 1200.0
    assert wide
    assert min(wide) > 0.25 * 1200.0
    assert run.state.best is not None
    assert run.state.best.trial == max(run.state.trials, key=lambda n: run.state.trials[n].config["x"])  # type: ignore[arg-type, return-value]


def test_leases_of_the_first_part_do_not_bind_the_second() -> None:
    """Finding: leases to far rungs, of trials that deserved no more, used up the money of the winner."""
    setup = prepare(job_of(**{**FORECAST, **BOTH}), samples=SAMPLES)
    simulation = Simulation(setup, seed=0, journal=MemoryJournal(), record=unnamed(setup))
    policy = simulation.core.policy
    assert isinstance(policy, ForecastPolicy)
    simulation.start()
    while policy.exploring:
        assert simulation.step()
    compared = [lent for number, lent in policy.lent.live.items() if number in policy.lent.ladder.highest]
    assert compared
    assert all(lent.since_s >= policy.ahead.switch_s for lent in compared)


def test_slots_bought_one_by_one_are_paced() -> None:
    """A part of the first part's money at once, not all of it."""
    run = checked_run(job_of(**{**FORECAST, **BOTH, **FUNCTION, "cluster__max_nodes": 500}))
    at_once = sum(at_s == 0.0 for at_s, _, _ in starts(run))
    assert 0 < at_once < len(run.state.trials) / 3


def test_the_first_rung_is_as_long_as_a_start_and_a_save() -> None:
    run = CheckedRun(prepare(job_of(**{**FORECAST, **BOTH}, profile__startup=45.0), samples=SAMPLES))
    run.start()
    while not starts(run):
        run.__dict__.pop("commands", None)
        run.step()
    goals = {c.until_iteration for _, c in run.commands if isinstance(c, do.Train)}
    assert goals == {5}  # 46 s at 10 s each


def test_it_says_what_it_believes() -> None:
    setup = prepare(job_of(**{**FORECAST, **BOTH}), samples=SAMPLES)
    simulation = Simulation(setup, seed=0, journal=MemoryJournal(keeps_lines=False), record=unnamed(setup))
    simulation.start()
    while simulation.core.state.now_s < 300.0:
        simulation.step()
    texts = [each.text for each in simulation.core.policy.progress(simulation.core.state).upcoming]
    assert texts[0].startswith("the next $")
    assert texts[1] == "no new trials from then on: what is left goes to the best"
    assert "leads: score" in texts[2]


def test_no_node_is_kept_for_spare_slots() -> None:
    """Finding: a few trials on the slots that a gang had left over kept a node, and each other, until the
    money was spent; the winner of `examples/seer.yaml` trained 2,500 to 3,000 iterations instead of 3,800."""
    setup = prepare(job_of(**{**FORECAST, **BOTH, "cluster__slots_per_node": 4}), samples=SAMPLES)
    simulation = Simulation(setup, seed=0, journal=MemoryJournal(), record=unnamed(setup))
    state, policy = simulation.core.state, simulation.core.policy
    assert isinstance(policy, ForecastPolicy)
    simulation.start()
    since_s, longest_s, spare = 0.0, 0.0, 0
    while simulation.step():
        spare += any(lent.is_spare for lent in policy.lent.live.values())
        kept = policy.lent.slots_lent(0, state) > 4 * policy.lent.nodes_earned(state)
        if policy.exploring or policy.ahead.prepaid_nodes(state) or not kept:
            since_s = state.now_s
        longest_s = max(longest_s, state.now_s - since_s)
    assert spare
    assert longest_s <= 1.2 * policy.ahead.turn_s  # until the leases end that began on spare slots


def test_what_leases_under_way_will_cost_is_not_divided_once_more() -> None:
    """Finding: it was, so that rivals used up what the winner was to get."""
    setup = prepare(job_of(**{**FORECAST, **BOTH}), samples=SAMPLES)
    simulation = Simulation(setup, seed=0, journal=MemoryJournal(), record=unnamed(setup))
    state, policy = simulation.core.state, simulation.core.policy
    assert isinstance(policy, ForecastPolicy)
    simulation.start()
    seen = 0
    while simulation.step():
        left = policy.ahead.work_left(state) if policy.leases else 0.0
        if not policy.exploring and (state.money_left_usd or 0.0) > 2.4:  # a tenth of it
            owed = policy.lent.work_to_come(state)
            seen += owed > 0.0
            assert owed <= 1.1 * left
    assert seen


@pytest.mark.parametrize("seed", [0, 2])
def test_the_winner_of_the_example_trains_until_the_end(seed: int) -> None:
    """Its money was spent on rivals, and on nodes for them, after 1,630 of 1,800 seconds."""
    example = load_job(EXAMPLES / "seer.yaml").to_dict()
    setup = prepare(Job.from_dict({**example, **FORECAST}))
    simulation = Simulation(setup, seed=seed, journal=MemoryJournal(keeps_lines=False), record=unnamed(setup))
    simulation.driver = UnrecordedDriver(simulation.core, simulation.writer)
    simulation.run()
    state = simulation.core.state
    assert state.best is not None
    assert state.best.iteration > 3500
    assert state.trials[state.best.trial].values
    assert state.ledger.accrued_usd(state.now_s) >= 0.95 * 60.0
