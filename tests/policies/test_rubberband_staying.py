"""RubberBand at a barrier: gangs that keep their size go on in their processes, and few others move."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import Ending
from elastune.model.ids import NodeId
from elastune.setup.run_setup import prepare
from tests.policies.test_rubberband import CERTAIN, lose, resnet, without_moves
from tests.runs.checked_run import SAMPLES, CheckedRun, checked_run, job_of

STAYING = {
    "search": {"algorithm": "sha", "trials": 8, "min_iterations": 1, "max_iterations": 15, "eta": 2},
    "profile__speedup": {"1": 1.0, "2": 1.0},
    "cluster__minimum_charge": 0.0,
}
FIXED = {**STAYING, "cluster__max_nodes": None, "cluster__nodes": 4}


def starts(run: CheckedRun) -> Counter[int]:
    return Counter(int(event.trial) for event, _ in run.told if isinstance(event, ev.GangStarted))


class Passed(NamedTuple):
    """A barrier: where the survivors were, and those that started again."""

    survivors: dict[int, NodeId]
    moved: set[int]


def barriers(run: CheckedRun) -> list[Passed]:
    gangs: dict[int, do.Train] = {}
    found = []
    for event, commands in run.told:
        trains = {int(command.trial): command for command in commands if isinstance(command, do.Train)}
        if isinstance(event, ev.BarrierPassed) and trains:
            where = {trial: gangs[trial].gang[0].node for trial in trains}
            moved = {trial for trial, train in trains.items() if train.generation != gangs[trial].generation}
            found.append(Passed(where, moved))
        gangs |= trains
    return found


class TestGangsThatStay:
    """Eight, four and two trials, then one; every one on a single slot, on nodes of two."""

    def test_on_a_fixed_cluster_every_trial_starts_once(self) -> None:
        run = checked_run(job_of(**FIXED))
        assert starts(run) == Counter(range(8))
        assert max(trial.iteration for trial in run.state.trials.values()) == 15

    @pytest.mark.parametrize("seed", range(5))
    def test_where_nodes_are_released_as_few_as_possible_move(self, seed: int) -> None:
        run = checked_run(job_of(**STAYING, deadline=178.0), seed=seed)
        held = [stage.nodes_held for stage in run.quote.stages]
        assert held == [4, 2, 1, 1]
        for (survivors, moved), nodes in zip(barriers(run), held[1:], strict=True):
            stay = sum(count for _, count in Counter(survivors.values()).most_common(nodes))
            assert len(moved) == len(survivors) - stay

    def test_no_gang_moves_where_the_rule_says_so(self) -> None:
        jobs = [job_of(**{**STAYING, "cluster__minimum_charge": charge}) for charge in (0.0, 60.0, 600.0)]
        jobs += [resnet(), CERTAIN["a budget"], CERTAIN["many stages"]]
        promised = 0
        for job in jobs:
            run = checked_run(job)
            (bracket,) = run.quote.brackets
            stays = without_moves(run, bracket)
            for passed, now in zip(barriers(run), bracket.plan.stages[1:], strict=True):
                promised += any(now is stage for stage in stays)
                assert not (passed.moved and any(now is stage for stage in stays))
        assert promised

    def test_a_checkpoint_is_durable_before_a_gang_goes_on(self) -> None:
        run = checked_run(job_of(**FIXED))
        done: Counter[int] = Counter()
        saved: dict[int, int] = {}
        for event, commands in run.told:
            if isinstance(event, ev.Progressed):
                done[event.trial] += len(event.rows)
            elif isinstance(event, ev.TrialPaused):
                saved[event.trial] = done[event.trial]
            for command in commands:
                if isinstance(command, do.Train):
                    assert saved.get(command.trial, 0) == command.after_iteration
        assert sum(event.stays for event, _ in run.told if isinstance(event, ev.TrialPaused)) == 8 + 4 + 2

    def test_where_slots_are_billed_gangs_do_not_wait(self) -> None:
        run = checked_run(job_of(**STAYING, cluster__billing="function"))
        assert not [c for _, c in run.commands if isinstance(c, do.Pause) and c.stay]
        assert max(starts(run).values()) == 4

    @pytest.mark.parametrize("what", ["driver", "node"])
    def test_a_loss_while_gangs_wait_at_the_barrier_costs_no_iteration(self, what: str) -> None:
        run = CheckedRun(prepare(job_of(**FIXED, profile__spread=0.3), samples=SAMPLES))
        run.start()
        while not any(trial.is_kept for trial in run.state.trials.values()):
            assert run.step()
        kept = [trial for trial in run.state.trials.values() if trial.is_kept]
        if what == "driver":
            run._come_back()
        else:
            lose(run, kept[0].gang[0].node)
        while run.step():
            pass
        run.witness.check_over()
        assert run.state.ended is Ending.COMPLETE
        reports = [event for event, _ in run.told if isinstance(event, ev.Progressed)]
        trained = Counter((event.trial, row.iteration) for event in reports for row in event.rows)
        assert {trained[trial.number, 1] for trial in kept} == {1}
        assert max(trial.iteration for trial in run.state.trials.values()) == 15
