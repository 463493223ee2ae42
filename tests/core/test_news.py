"""What a runtime reports: rows, crashes, nodes; also late, twice, or of gangs that are gone."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.cluster_manager import MOST_REFUSALS
from elastune.core.commands import Ending
from elastune.core.terms import RunTerms
from elastune.core.trials import Phase
from elastune.core.wishes import Advice, Wish, Wishes
from elastune.errors import InvariantError
from elastune.model.ids import NodeId, TrialId
from elastune.model.metric import Mode
from tests.core.harness import Harness, kinds, make_terms, notes, only, open_stage, released
from tests.fire.portrait import portrait

T0, T1 = TrialId(0), TrialId(1)
FAR = 100


def running(terms: RunTerms | None = None, *, trials: int = 1) -> Harness:
    harness = open_stage(terms, trials=trials)
    harness.wish(*(Wish(TrialId(number), 1, FAR) for number in range(trials)), nodes=1)
    for number in range(trials):
        harness.started(number)
    return harness


class TestRows:
    def test_the_best_is_the_best_that_was_saved(self) -> None:
        harness = running()
        harness.at(10.0).progressed(0, 0.5, 0.9, 0.4)
        bests = [harness.state.best]
        for at_s, saved in ((11.0, 3), (12.0, 2), (13.0, 1)):
            harness.at(at_s).progressed(0, saved=(saved,))
            bests.append(harness.state.best)
        last = do.Best(trial=T0, iteration=3, metric=0.4)
        best = do.Best(trial=T0, iteration=2, metric=0.9)
        assert bests == [None, last, best, best]
        assert harness.trial(0).saved == 3

    def test_the_least_is_best_where_the_mode_is_min(self) -> None:
        harness = running(replace(make_terms(), mode=Mode.MIN))
        harness.progressed(0, 0.5, 0.9, 0.4, saved=(1, 2, 3))
        assert harness.state.best == do.Best(trial=T0, iteration=3, metric=0.4)

    def test_the_first_of_equals_is_best(self) -> None:
        harness = running(trials=2)
        harness.progressed(1, 0.5, saved=(1,))
        harness.progressed(0, 0.5, saved=(1,))
        assert harness.state.best is not None
        assert harness.state.best.trial == T1

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_a_metric_that_is_no_number_fails_its_trial_and_says_so(self, value: float) -> None:
        harness = running()
        commands = harness.progressed(0, 0.5, value, 0.9, saved=(1, 3))
        text = f"score is {value} after iteration 2; the training has diverged"
        assert commands[:2] == [
            do.Note(topic="failed", text=f"trial 0: {text}"),
            do.Stop(trial=T0, generation=1),
        ]
        assert (harness.trial(0).phase, harness.trial(0).error) == (Phase.FAILED, text)
        assert harness.state.best == do.Best(trial=T0, iteration=1, metric=0.5)

    def test_a_missing_metric_fails_its_trial_and_lists_what_was_there(self) -> None:
        harness = running()
        row = ev.Row(1, 0.0, {"loss": 1.0, "accuracy": 0.5})
        harness.tell(ev.Progressed(at_s=0.0, trial=T0, generation=1, rows=(row,)))
        assert harness.trial(0).error == (
            "iteration 1 reported no 'score', only accuracy, loss; the job's metric is 'score'"
        )

    def test_an_iteration_that_is_skipped_is_a_bug(self) -> None:
        harness = running()
        row = ev.Row(2, 0.0, {"score": 1.0})
        with pytest.raises(InvariantError, match="trial 0 reports iteration 2 after 0"):
            harness.tell(ev.Progressed(at_s=0.0, trial=T0, generation=1, rows=(row,)))

    def test_time_does_not_go_back(self) -> None:
        harness = running()
        harness.at(10.0).progressed(0, 0.5)
        with pytest.raises(InvariantError, match="is earlier than the present"):
            harness.at(9.0).progressed(0, 0.6)

    def test_a_trainable_that_returns_at_once_has_failed(self) -> None:
        harness = running()
        harness.lease_ended(0, reason=ev.LeaseEnd.RETURNED)
        harness.paused(0)
        assert harness.trial(0).phase is Phase.FAILED
        assert harness.trial(0).error == "the trainable returned before its first iteration"

    def test_a_trainable_that_returns_later_is_finished(self) -> None:
        harness = running()
        harness.lease_ended(0, 0.5, reason=ev.LeaseEnd.RETURNED)
        harness.paused(0)
        assert harness.trial(0).phase is Phase.FINISHED


class TestStaleNews:
    @pytest.mark.parametrize("generation", [0, 1, 3])
    def test_news_of_another_generation_changes_nothing(self, generation: int) -> None:
        harness = running()
        harness.progressed(0, 0.5, saved=(1,))
        harness.lost("n0")
        harness.granted(2, "n1")
        harness.ready("n1")
        assert harness.trial(0).generation == 2
        before = portrait(harness.trial(0))
        for news in (
            ev.GangStarted(at_s=0.0, trial=T0, generation=generation),
            ev.Progressed(
                at_s=0.0, trial=T0, generation=generation, rows=(ev.Row(2, 0.0, {"score": 9.0}),), saved=(2,)
            ),
            ev.LeaseEnded(at_s=0.0, trial=T0, generation=generation, reason=ev.LeaseEnd.REACHED),
            ev.TrialCrashed(at_s=0.0, trial=T0, generation=generation, error="boom"),
            ev.TrialPaused(at_s=0.0, trial=T0, generation=generation),
        ):
            assert harness.tell(news) == []
            assert portrait(harness.trial(0)) == before

    def test_news_of_a_gang_that_was_stopped_changes_nothing(self) -> None:
        harness = running()
        harness.advise(Advice(stop=(T0,), wishes=Wishes(nodes={0: 1})))
        assert harness.progressed(0, 0.5, saved=(1,)) == []
        assert harness.state.best is None
        assert harness.trial(0).phase is Phase.STOPPED

    def test_a_trial_that_was_not_drawn_is_a_bug(self) -> None:
        with pytest.raises(InvariantError, match="there is no trial 5"):
            running().tell(ev.GangStarted(at_s=0.0, trial=TrialId(5), generation=1))

    def test_a_node_that_is_not_ours_to_lose_is_ignored(self) -> None:
        assert running().lost("elsewhere") == []

    def test_a_node_that_is_ready_twice_is_ready_once(self) -> None:
        harness = running()
        harness.ready("n0")
        assert harness.state.pool().ready == 1


class TestCrashes:
    def test_a_crash_fails_the_trial_and_keeps_the_text(self) -> None:
        harness = running()
        assert notes(harness.crashed(0, "Traceback: boom")) == [("failed", "trial 0: Traceback: boom")]
        assert (harness.trial(0).phase, harness.trial(0).error) == (Phase.FAILED, "Traceback: boom")

    def test_a_retry_starts_from_the_last_checkpoint(self) -> None:
        harness = running(make_terms(retries=1))
        harness.progressed(0, 0.5, 0.6, 0.7, saved=(2,))
        (train,) = harness.crashed(0)
        assert isinstance(train, do.Train)
        assert (train.generation, train.after_iteration) == (2, 2)
        assert harness.trial(0).values == [0.5, 0.6]

    def test_retries_are_counted(self) -> None:
        harness = running(make_terms(retries=2))
        for generation in (1, 2):
            harness.crashed(0, generation=generation)
            harness.started(0, generation=generation + 1)
            assert not harness.trial(0).phase.is_over
        harness.crashed(0, generation=3)
        assert harness.trial(0).phase is Phase.FAILED
        assert harness.trial(0).crashes == 3

    def test_a_lost_machine_is_not_the_fault_of_the_trial(self) -> None:
        harness = running()
        harness.progressed(0, 0.5, 0.6, saved=(1,))
        harness.lost("n0")
        trial = harness.trial(0)
        assert (trial.phase, trial.crashes, trial.lost, trial.values) == (Phase.PAUSED, 0, 1, [0.5])


class TestNodes:
    def test_a_lost_node_is_replaced_and_its_trial_goes_on(self) -> None:
        harness = running()
        harness.at(50.0)
        assert harness.lost("n0") == [do.RequestNodes(request=2, count=1)]
        harness.at(60.0).granted(2, "n1")
        (train,) = only(harness.at(70.0).ready("n1"), do.Train)
        assert isinstance(train, do.Train)
        assert (train.generation, train.gang[0].node) == (2, "n1")

    def test_notice_saves_what_runs_there_and_the_node_goes_when_it_is_empty(self) -> None:
        harness = running()
        commands = harness.at(10.0).noticed("n0", until_s=130.0)
        assert commands == [do.Revoke(trial=T0, generation=1), do.RequestNodes(request=2, count=1)]
        assert kinds(harness.at(15.0).lease_ended(0, 0.5, reason=ev.LeaseEnd.REVOKED)) == ["Pause"]
        assert released(harness.at(16.0).paused(0)) == ["n0"]
        harness.at(20.0).granted(2, "n1")
        assert kinds(harness.at(30.0).ready("n1")) == ["CancelTimer", "Train"]

    def test_a_node_that_does_not_boot_in_time_is_given_back_and_another_is_asked_for(self) -> None:
        harness = Harness(make_terms(init_s=20.0), Advice(wishes=Wishes(nodes={0: 2})))
        (timer,) = harness.at(5.0).granted(1, "n0", "n1")
        assert timer == do.SetTimer(timer="boot:1", at_s=105.0)  # five times what a boot takes
        harness.at(25.0).ready("n0")
        commands = harness.at(105.0).ring("boot:1")
        assert commands == [
            do.Note(topic="boot", text="n1 did not come up in time; given back"),
            do.ReleaseNodes(nodes=(NodeId("n1"),)),
            do.RequestNodes(request=2, count=1),
        ]

    def test_where_no_node_comes_up_in_time_the_next_ones_have_twice_as_long(self) -> None:
        """On a busy machine a boot of 70 s was given up after 60 s and begun anew, until the deadline."""
        harness = Harness(make_terms(init_s=5.0), Advice(wishes=Wishes(nodes={0: 1})))
        patience = []
        for request in (1, 2, 3):
            (timer,) = only(harness.granted(request, f"n{request}"), do.SetTimer)
            assert isinstance(timer, do.SetTimer)
            patience.append(timer.at_s - harness.now_s)
            if request < 3:
                harness.at(timer.at_s).ring(timer.timer)
        assert patience == [60.0, 120.0, 240.0]
        harness.at(250.0).ready("n3")
        harness.at(260.0).lost("n3")
        assert harness.at(270.0).granted(4, "n4") == [do.SetTimer(timer="boot:4", at_s=330.0)]

    def test_nodes_that_come_up_cancel_the_time_out(self) -> None:
        harness = Harness(first=Advice(wishes=Wishes(nodes={0: 2})))
        harness.granted(1, "n0", "n1")
        assert harness.ready("n0") == []
        assert harness.ready("n1") == [do.CancelTimer(timer="boot:1")]

    @pytest.mark.parametrize(("init_s", "patience_s"), [(0.0, 600.0), (1.0, 60.0), (100.0, 500.0)])
    def test_patience_with_a_boot_is_five_times_what_it_takes(self, init_s: float, patience_s: float) -> None:
        assert make_terms(init_s=init_s).boot_patience_s == patience_s

    def test_after_a_refusal_it_asks_again_ever_less_often(self) -> None:
        harness = Harness(first=Advice(wishes=Wishes(nodes={0: 1})))
        waits = []
        for request in range(1, 9):
            (timer,) = harness.refused(request, 1)
            assert isinstance(timer, do.SetTimer)
            waits.append(timer.at_s - harness.now_s)
            assert harness.at(timer.at_s).ring(timer.timer) == [do.RequestNodes(request=request + 1, count=1)]
        assert waits == [30.0, 60.0, 120.0, 240.0, 480.0, 600.0, 600.0, 600.0]

    def test_a_grant_in_part_keeps_the_rest_open(self) -> None:
        harness = Harness(first=Advice(wishes=Wishes(nodes={0: 3})))
        harness.granted(1, "n0")
        assert harness.state.pool().outstanding == 2
        harness.refused(1, 2)
        assert (harness.state.pool().outstanding, harness.state.pool().coming) == (0, 1)

    def test_a_provider_that_never_has_a_node_fails_the_run(self) -> None:
        harness = Harness(first=Advice(wishes=Wishes(nodes={0: 1})))
        request = 0
        while harness.state.ended is None:
            request += 1
            assert request <= MOST_REFUSALS + 1
            commands = harness.refused(request, 1)
            if harness.state.ended is None:
                harness.at(harness.state.timers["nodes:0"]).ring("nodes:0")
        assert harness.state.ended is Ending.FAILED
        assert ("nodes", "no node can be had: no room") in notes(commands)

    def test_an_unknown_node_is_released_and_paid_for(self) -> None:
        harness = running()
        commands = harness.at(50.0).tell(ev.NodeFound(at_s=50.0, node=NodeId("ghost"), billed_s=30.0))
        assert released(commands) == ["ghost"]
        assert harness.state.ledger.accrued_usd(50.0) == pytest.approx(0.8)


class TestAfterTheEnd:
    def ended(self) -> Harness:
        harness = Harness(first=Advice(wishes=Wishes(nodes={0: 2}), sample=2))
        harness.at(5.0).advise(Advice(done=Ending.COMPLETE))
        assert harness.state.ended is Ending.COMPLETE
        return harness

    def test_a_node_that_is_granted_then_is_given_back_and_paid_for(self) -> None:
        harness = self.ended()
        assert harness.at(20.0).granted(1, "n0", "n1", billed_s=10.0) == [
            do.ReleaseNodes(nodes=(NodeId("n0"), NodeId("n1")))
        ]
        assert harness.state.where == {}
        assert harness.state.ledger.accrued_usd(20.0) == pytest.approx(0.2)

    def test_trials_that_are_drawn_then_are_stopped(self) -> None:
        harness = self.ended()
        assert harness.sampled(0, 1) == []
        assert {trial.phase for trial in harness.state.trials.values()} == {Phase.STOPPED}

    def test_nothing_else_is_commanded(self) -> None:
        harness = self.ended()
        assert harness.ring("guard:deadline-end") == []
        assert harness.tell(ev.BarrierPassed(at_s=5.0, pool=0, stage=0)) == []
        assert harness.tell(ev.StopAsked(at_s=5.0, reason="late")) == []

    def test_the_policy_is_not_asked_any_more(self) -> None:
        harness = self.ended()
        heard = len(harness.policy.heard)
        harness.refused(1, 2)
        assert len(harness.policy.heard) == heard


class TestStopping:
    def test_a_person_who_stops_a_run_gets_what_there_is_saved(self) -> None:
        harness = running()
        harness.progressed(0, 0.5)
        commands = harness.tell(ev.StopAsked(at_s=0.0, reason="enough"))
        assert commands == [do.Note(topic="stop", text="enough"), do.Revoke(trial=T0, generation=1)]
        harness.lease_ended(0, 0.6, reason=ev.LeaseEnd.REVOKED)
        (release, end) = harness.paused(0)
        assert release == do.ReleaseNodes(nodes=(NodeId("n0"),))
        assert end == do.EndRun(reason=Ending.STOPPED, best=do.Best(trial=T0, iteration=2, metric=0.6))

    def test_the_first_reason_counts(self) -> None:
        harness = running()
        harness.tell(ev.StopAsked(at_s=0.0, reason="enough"))
        harness.advise(Advice(done=Ending.COMPLETE))
        harness.lost("n0")
        assert harness.state.ended is Ending.STOPPED


class TestResuming:
    def interrupted(self) -> Harness:
        """Two nodes, one trial in training with a checkpoint, one drawn but waiting; more was asked for."""
        harness = open_stage(make_terms(slots=1, deadline_s=1000.0), trials=2, nodes=("n0", "n1"))
        harness.wish(Wish(T0, 1, FAR), Wish(T1, 1, FAR), nodes=3)
        harness.started(0)
        harness.at(30.0).progressed(0, 0.5, 0.6, 0.7, saved=(2,))
        harness.advise(Advice(sample=1, barriers=((0, 0),), timers={"round": 90.0}))
        return harness

    def test_everything_that_was_open_is_asked_for_again_and_trials_go_on_from_checkpoints(self) -> None:
        harness = self.interrupted()
        commands = harness.at(40.0).tell(ev.Resumed(at_s=40.0, down_s=500.0))
        trains = only(commands, do.Train)
        assert [c for c in commands if c not in trains] == [
            do.RequestNodes(request=2, count=1),
            do.Sample(trials=(TrialId(2),)),
            do.Barrier(pool=0, stage=0),
            do.SetTimer(timer="guard:deadline-call", at_s=1000.0),
            do.SetTimer(timer="guard:deadline-end", at_s=1000.0),
            do.SetTimer(timer="round", at_s=90.0),
        ]
        starts = {c.trial: (c.generation, c.after_iteration) for c in trains if isinstance(c, do.Train)}
        assert starts == {T0: (2, 2), T1: (2, 0)}
        assert harness.trial(0).values == [0.5, 0.6]

    def test_a_timer_that_should_have_rung_meanwhile_rings_now(self) -> None:
        harness = self.interrupted()
        commands = harness.at(95.0).tell(ev.Resumed(at_s=95.0, down_s=5.0))
        assert do.SetTimer(timer="round", at_s=95.0) in commands

    def test_nodes_that_went_meanwhile_are_lost_and_billed_by_the_provider(self) -> None:
        harness = self.interrupted()
        event = ev.Resumed(at_s=40.0, down_s=500.0, lost=((NodeId("n0"), 100.0),))
        commands = harness.at(40.0).tell(event)
        assert list(harness.state.where) == ["n1"]
        assert harness.state.ledger.nodes[NodeId("n0")].billed_s == 100.0
        assert harness.state.ledger.accrued_usd(40.0) == pytest.approx(1.0 + 5.4)
        requests = only(commands, do.RequestNodes)
        assert requests == [do.RequestNodes(request=2, count=1), do.RequestNodes(request=3, count=1)]

    def test_time_on_the_runs_clock_is_what_is_left_to_the_deadline(self) -> None:
        harness = self.interrupted()
        harness.at(40.0).tell(ev.Resumed(at_s=40.0, down_s=5000.0))
        assert harness.state.time_left_s == 960.0
