"""Thousands of trials: a policy does not wish again for all of them whenever one of them moves."""

from __future__ import annotations

from itertools import pairwise

from elastune.core.commands import Ending
from elastune.core.state import State
from elastune.core.wishes import Wishes
from elastune.journal.writer import MemoryJournal
from elastune.runs.simulation import Simulation, unnamed
from elastune.setup.run_setup import prepare
from tests.runs.checked_run import job_of

TRIALS, SLOTS = 60, 4
CLUSTER = {"slots_per_node": SLOTS, "nodes": 1, "price_per_hour": 1.0}


def wishes_of(algorithm: dict[str, object]) -> tuple[State, list[Wishes]]:
    """Every different answer of the policy that the core adopted."""
    setup = prepare(job_of(search=algorithm, profile={"iteration": 1.0}, cluster=CLUSTER))
    simulation = Simulation(setup, seed=0, journal=MemoryJournal(), record=unnamed(setup))
    state = simulation.core.state
    simulation.start()
    adopted = [state.wishes]
    while simulation.step():
        if state.wishes is not adopted[-1]:
            adopted.append(state.wishes)
    simulation.writer.close()
    return state, adopted


class TestPbt:
    PBT = {"algorithm": "pbt", "trials": TRIALS, "interval": 2, "max_iterations": 6}  # noqa: RUF012

    def test_a_generation_is_wished_for_once_while_trials_wait_for_slots(self) -> None:
        state, adopted = wishes_of(self.PBT)
        generations = 3
        assert state.ended is Ending.COMPLETE
        # The start, the barrier and what follows it; at the end those few for whom slots are left.
        assert len(adopted) < generations * (4 + SLOTS)

    def test_all_trials_of_the_population_are_trained(self) -> None:
        state, _ = wishes_of(self.PBT)
        assert sum(trial.iteration == 6 for trial in state.trials.values()) == TRIALS


class TestRandom:
    RANDOM = {"algorithm": "random", "trials": TRIALS, "max_iterations": 2}  # noqa: RUF012

    def test_a_trial_that_goes_on_keeps_its_wish(self) -> None:
        _, adopted = wishes_of(self.RANDOM)
        for before, after in pairwise(adopted):
            known = {wish.trial: wish for wish in before.trials}
            assert all(known.get(wish.trial, wish) is wish for wish in after.trials)
