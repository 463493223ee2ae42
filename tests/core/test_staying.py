"""Gangs that have saved and stay: they go on in their processes, or give way without another save."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import AnyCommand
from elastune.core.events import LeaseEnd
from elastune.core.limits import committed_usd
from elastune.core.terms import RunTerms
from elastune.core.trials import Activity, Phase
from elastune.core.wishes import Advice, Wish, Wishes
from elastune.model.ids import TrialId
from tests.core.harness import Harness, gangs_of, kinds, make_terms, only, open_stage, released

T = [TrialId(number) for number in range(6)]
FAR = 100


def stay(trial: int, slots: int = 2, until: int = 1) -> Wish:
    return Wish(T[trial], slots, until, stay=True)


def stays(harness: Harness, trial: int, *, at_s: float, generation: int = 1) -> Sequence[AnyCommand]:
    event = ev.TrialPaused(at_s=at_s, trial=T[trial], generation=generation, stays=True)
    return harness.at(at_s).tell(event)


def staying(*wishes: Wish, nodes: tuple[str, ...] = ("n0",), terms: RunTerms | None = None) -> Harness:
    """These trials have done their iteration and wait in their gangs, saved, from second 11 on."""
    harness = open_stage(terms, trials=max(int(wish.trial) for wish in wishes) + 1, nodes=nodes)
    harness.wish(*wishes, nodes=len(nodes))
    for wish in wishes:
        harness.started(wish.trial)
    for wish in wishes:
        harness.at(10.0).lease_ended(wish.trial, 0.1 * (wish.trial + 1))
    for wish in wishes:
        stays(harness, wish.trial, at_s=11.0)
    return harness


def trains(commands: Sequence[AnyCommand]) -> list[do.Train]:
    return [command for command in commands if isinstance(command, do.Train)]


def pack(harness: Harness, *wishes: Wish, nodes: int) -> Sequence[AnyCommand]:
    return harness.advise(Advice(wishes=Wishes(trials=wishes, nodes={0: nodes}, pack=True)))


class TestAtTheBarrier:
    def test_a_gang_saves_keeps_its_slots_and_waits(self) -> None:
        harness = open_stage()
        harness.wish(stay(0), nodes=1)
        harness.started(0)
        saving = harness.at(10.0).lease_ended(0, 0.5)
        assert saving == [do.Pause(trial=T[0], generation=1, stay=True)]
        assert harness.trial(0).activity is Activity.SAVING
        assert stays(harness, 0, at_s=12.0) == []
        trial = harness.trial(0)
        assert (trial.activity, trial.is_kept, trial.saved, len(trial.gang)) == (Activity.WAITING, True, 1, 2)
        assert harness.state.best is not None
        assert harness.state.observed_speed.save.seconds == 2.0

    def test_a_longer_wish_goes_on_in_the_same_gang_without_a_start(self) -> None:
        harness = staying(stay(0))
        before = harness.trial(0).gang
        (train,) = harness.at(20.0).wish(stay(0, until=3), nodes=1)
        assert isinstance(train, do.Train)
        assert (train.generation, train.gang, train.after_iteration, train.until_iteration) == (
            1,
            before,
            1,
            3,
        )
        assert (harness.trial(0).activity, harness.trial(0).is_kept) == (Activity.TRAINING, False)
        use = harness.state.ledger.trials[T[0]]
        assert (use.waiting_s, use.saving_s, use.starting_s) == (18.0, 2.0, 0.0)

    def test_a_trial_that_is_dropped_frees_its_slots_at_once(self) -> None:
        harness = staying(stay(0), stay(1))
        commands = harness.advise(
            Advice(stop=(T[0],), wishes=Wishes(trials=(stay(1, until=3),), nodes={0: 1}))
        )
        assert commands[0] == do.Stop(trial=T[0], generation=1)
        assert harness.trial(0).phase is Phase.STOPPED
        assert list(gangs_of(harness)) == [1]

    def test_another_size_starts_again_without_another_save(self) -> None:
        harness = staying(stay(0))
        stop, train = harness.wish(Wish(T[0], 4, 3), nodes=1)
        assert stop == do.Stop(trial=T[0], generation=1)
        assert isinstance(train, do.Train)
        assert (train.generation, len(train.gang), train.after_iteration) == (2, 4, 1)

    def test_a_wish_that_no_longer_stays_frees_the_slots(self) -> None:
        harness = staying(stay(0))
        assert harness.wish(Wish(T[0], 2, 1), nodes=1) == [do.Stop(trial=T[0], generation=1)]
        assert (harness.trial(0).phase, harness.trial(0).saved) == (Phase.PAUSED, 1)

    def test_a_trial_that_returned_is_finished_and_does_not_stay(self) -> None:
        harness = open_stage()
        harness.wish(stay(0, until=5), nodes=1)
        harness.started(0)
        paused = harness.lease_ended(0, 0.5, reason=LeaseEnd.RETURNED)
        assert paused == [do.Pause(trial=T[0], generation=1)]

    def test_a_gang_does_not_stay_while_others_wait_for_slots(self) -> None:
        harness = open_stage(trials=3)
        harness.wish(stay(0), stay(1), stay(2), nodes=1)
        harness.started(0)
        assert harness.lease_ended(0, 0.5) == [do.Pause(trial=T[0], generation=1)]


class TestPacking:
    """Four gangs of two slots on two nodes; trials 0 and 1 are on n0, 2 and 3 on n1."""

    def four(self) -> Harness:
        return staying(*(stay(n) for n in range(4)), nodes=("n0", "n1"))

    def test_survivors_keep_their_node_and_the_other_one_is_released(self) -> None:
        for survivors, kept in (((0, 1), "n0"), ((2, 3), "n1")):
            harness = self.four()
            commands = pack(harness, *(stay(n, until=3) for n in survivors), nodes=1)
            assert [train.generation for train in trains(commands)] == [1, 1]
            assert released(commands) == [node for node in ("n0", "n1") if node != kept]

    def test_if_survivors_are_spread_one_of_them_moves(self) -> None:
        harness = self.four()
        commands = pack(harness, stay(0, until=3), stay(2, until=3), nodes=1)
        generations = {int(t.trial): t.generation for t in trains(commands)}
        assert sorted(generations.values()) == [1, 2]
        assert released(commands) == ["n0"]
        assert {slot.node for trial in (0, 2) for slot in harness.trial(trial).gang} == {"n1"}

    def test_the_fuller_node_is_kept_though_it_is_the_older(self) -> None:
        harness = staying(*(stay(n, slots=1) for n in range(6)), nodes=("n0", "n1"))
        commands = pack(harness, *(stay(n, slots=1, until=3) for n in (0, 1, 4)), nodes=1)
        assert released(commands) == ["n1"]
        moved = [int(t.trial) for t in trains(commands) if t.generation == 2]
        assert moved == [4]

    def test_gangs_that_train_move_too_if_a_new_plan_holds_fewer_nodes(self) -> None:
        harness = open_stage(trials=4, nodes=("n0", "n1"))
        harness.wish(*(stay(n) for n in range(4)), nodes=2)
        for number in range(4):
            harness.started(number)
        pack(harness, stay(1), stay(2), nodes=1)
        assert [harness.trial(number).revoked for number in range(4)] == [True, True, False, True]
        harness.lease_ended(0, 0.5, reason=LeaseEnd.REVOKED)
        harness.lease_ended(1, 0.5)
        assert released([*harness.paused(0), *harness.paused(1)]) == ["n0"]

    def test_gangs_that_wait_leave_before_one_that_trains_moves(self) -> None:
        """Three wait on n0, one trains on n1: the fuller node is given up: no gang there has work."""
        harness = open_stage(trials=5, nodes=("n0", "n1"))
        harness.wish(*(stay(n, slots=1) for n in range(5)), nodes=2)
        for number in range(5):
            harness.started(number)
        harness.at(10.0).crashed(3)
        for number in range(3):
            harness.lease_ended(number, 0.5)
            stays(harness, number, at_s=10.0)
        commands = pack(harness, *(stay(n, slots=1) for n in (0, 1, 2, 4)), nodes=1)
        assert released(commands) == ["n0"]
        assert (harness.trial(4).revoked, {slot.node for slot in harness.trial(4).gang}) == (False, {"n1"})

    def test_without_packing_a_node_with_gangs_is_kept(self) -> None:
        harness = self.four()
        commands = harness.wish(stay(0, until=3), stay(2, until=3), nodes=1)
        assert released(commands) == []
        assert {train.generation for train in trains(commands)} == {1}


class TestMisfortune:
    def test_a_lost_node_takes_no_saved_iteration(self) -> None:
        harness = staying(stay(0), stay(1, slots=4), nodes=("n0", "n1"))
        harness.lost("n0")
        assert (harness.trial(0).phase, harness.trial(0).iteration) == (Phase.PAUSED, 1)
        assert harness.trial(1).is_kept

    def test_a_trial_that_lost_its_node_gets_the_slots_of_one_that_stays(self) -> None:
        """Otherwise it would wait for a gang that waits for it."""
        harness = open_stage(trials=4, nodes=("n0", "n1"))
        harness.wish(*(stay(n) for n in range(4)), nodes=2)
        for number in range(4):
            harness.started(number)
        for number in (2, 3):
            harness.at(10.0).lease_ended(number, 0.5)
            stays(harness, number, at_s=10.0)
        harness.at(12.0).lease_ended(0, 0.5)
        stays(harness, 0, at_s=12.0)
        commands = harness.at(13.0).lost("n0")
        assert only(commands, do.Stop) == [do.Stop(trial=T[3], generation=1)]
        (train,) = only(commands, do.Train)
        assert isinstance(train, do.Train)
        assert (train.trial, {slot.node for slot in train.gang}) == (T[1], {"n1"})
        assert harness.trial(2).is_kept

    def test_a_notice_needs_no_second_save(self) -> None:
        harness = staying(stay(0))
        assert do.Stop(trial=T[0], generation=1) in harness.noticed("n0", 60.0)
        assert harness.trial(0).phase is Phase.PAUSED

    def test_a_notice_amid_the_save_frees_the_slots_after_it(self) -> None:
        harness = open_stage()
        harness.wish(stay(0), nodes=1)
        harness.started(0)
        harness.lease_ended(0, 0.5)
        assert only(harness.noticed("n0", 60.0), do.Stop) == []
        assert only(stays(harness, 0, at_s=1.0), do.Stop) == [do.Stop(trial=T[0], generation=1)]

    def test_a_crash_while_it_waits_costs_no_iteration(self) -> None:
        harness = staying(stay(0), terms=make_terms(retries=1))
        assert harness.crashed(0) == []
        assert (harness.trial(0).phase, harness.trial(0).iteration) == (Phase.PAUSED, 1)
        assert kinds(harness.wish(stay(0, until=3), nodes=1)) == ["Train"]

    def test_to_suspend_a_run_needs_no_second_save(self) -> None:
        harness = staying(stay(0))
        commands = harness.tell(ev.RestAsked(at_s=11.0, reason="Ctrl-C"))
        assert [kind for kind in kinds(commands) if kind != "Note"] == ["Stop", "ReleaseNodes", "Rest"]

    def test_a_save_that_ends_after_the_run_was_suspended_frees_the_slots(self) -> None:
        harness = open_stage()
        harness.wish(stay(0), nodes=1)
        harness.started(0)
        harness.lease_ended(0, 0.5)
        harness.tell(ev.RestAsked(at_s=0.0, reason="Ctrl-C"))
        assert kinds(stays(harness, 0, at_s=1.0)) == ["Stop", "ReleaseNodes", "Rest"]

    def test_after_the_driver_died_its_checkpoint_is_there(self) -> None:
        harness = staying(stay(0))
        harness.tell(ev.Resumed(at_s=11.0, down_s=60.0))
        assert (harness.trial(0).phase, harness.trial(0).saved) == (Phase.PAUSED, 1)
        (train,) = harness.wish(stay(0, until=3), nodes=1)
        assert isinstance(train, do.Train)
        assert (train.generation, train.after_iteration) == (2, 1)

    def test_the_end_of_the_run_stops_it_and_keeps_its_model(self) -> None:
        harness = staying(stay(0))
        commands = harness.tell(ev.StopAsked(at_s=11.0, reason="enough"))
        assert [kind for kind in kinds(commands) if kind != "Note"] == ["Stop", "ReleaseNodes", "EndRun"]
        assert harness.state.best is not None


class TestLimits:
    def test_a_gang_that_has_saved_commits_no_further_save(self) -> None:
        harness = staying(stay(0), terms=make_terms(save_s=5.0, budget_usd=100.0))
        assert committed_usd(harness.state) == pytest.approx(0.11)
        harness.wish(stay(0, until=3), nodes=1)
        assert committed_usd(harness.state) == pytest.approx(0.16)

    def test_at_the_last_call_a_barrier_under_way_is_waited_for(self) -> None:
        harness = staying(stay(0), terms=make_terms(save_s=5.0, deadline_s=100.0))
        harness.advise(Advice(barriers=((0, 0),)))
        harness.at(95.0).ring("guard:deadline-call")
        assert (harness.state.called, harness.state.shutdown) == (True, None)

    def test_at_the_last_call_a_gang_that_only_stays_ends_the_run(self) -> None:
        harness = staying(stay(0), terms=make_terms(save_s=5.0, deadline_s=100.0))
        commands = harness.at(95.0).ring("guard:deadline-call")
        assert only(commands, do.EndRun)
