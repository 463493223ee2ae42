"""Limits that hold whatever a policy wishes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from elastune.core import commands as do
from elastune.core import limits as guards
from elastune.core.commands import Ending
from elastune.core.events import LeaseEnd, RunStarted, TimerFired
from elastune.core.terms import RunTerms
from elastune.core.trials import Phase
from elastune.core.wishes import Advice, Wish, Wishes
from elastune.journal.codec import decode, encode
from elastune.model.distributions import Constant, Normal
from elastune.model.ids import NodeId, TrialId
from elastune.model.limits import Limit
from elastune.model.profile import Profile, Speedup
from elastune.runs.control.requests import Extension, describe
from tests.core.harness import Harness, kinds, make_terms, notes, only, open_stage, released

FAR = 1000
T0, T1 = TrialId(0), TrialId(1)
LIMITS = (Limit.DEADLINE, Limit.BUDGET)


def asked(harness: Harness) -> list[int]:
    return [command.count for command in harness.opening if isinstance(command, do.RequestNodes)]


def wanting(nodes: int, terms: RunTerms) -> Harness:
    return Harness(terms, Advice(wishes=Wishes(nodes={0: nodes})))


class TestNodes:
    def test_no_more_nodes_are_asked_for_than_the_cluster_may_have(self) -> None:
        harness = wanting(9, make_terms(max_nodes=4))
        assert asked(harness) == [4]
        assert notes(harness.opening) == [
            ("veto", "5 of 9 more nodes refused: the cluster has at most 4 nodes")
        ]
        (veto,) = harness.policy.vetoes
        assert (veto.pool, veto.wanted, veto.allowed) == (0, 9, 4)

    def test_nodes_asked_for_count_as_if_they_were_there(self) -> None:
        harness = wanting(3, make_terms(max_nodes=4))
        assert [c.count for c in only(harness.wish(nodes=5), do.RequestNodes)] == [1]  # type: ignore[union-attr]

    def test_the_same_veto_is_told_once(self) -> None:
        harness = wanting(9, make_terms(max_nodes=4))
        assert notes(harness.wish(nodes=9)) == []
        assert len(harness.policy.vetoes) == 1

    def test_the_budget_buys_nodes_for_their_minimum_charge_at_least(self) -> None:
        """$2 buys three nodes for a minute at a cent per second, not four."""
        harness = wanting(4, make_terms(budget_usd=2.0, minimum_charge_s=60.0))
        assert asked(harness) == [3]
        assert "the budget of $2.00 leaves no more" in notes(harness.opening)[0][1]

    def test_all_nodes_together_may_cost_so_much_per_hour(self) -> None:
        terms = make_terms(max_nodes=9)
        terms = replace(terms, cluster=replace(terms.cluster, most_usd_per_hour=108.0))
        harness = wanting(9, terms)
        assert asked(harness) == [3]
        assert "all nodes together may cost $108.00 per hour" in notes(harness.opening)[0][1]

    def test_what_may_come_at_a_higher_price_is_counted_at_it(self) -> None:
        terms = make_terms(max_nodes=9, budget_usd=2.0, minimum_charge_s=60.0)
        dear = replace(terms.cluster, most_price_per_hour=72.0)
        assert asked(wanting(9, replace(terms, cluster=dear))) == [1]
        dear = replace(dear, most_usd_per_hour=300.0)
        assert asked(wanting(9, replace(make_terms(max_nodes=9), cluster=dear))) == [4]

    def test_no_node_may_run_unattended_beyond_the_budget(self) -> None:
        """Three nodes at a cent per second for $6: one was there when two more were asked for."""
        harness = wanting(1, make_terms(budget_usd=6.0))
        harness.granted(1, "n0")
        assert guards.may_live_until_s(harness.state) == pytest.approx(600.0)
        harness.at(100.0).wish(nodes=3)
        assert guards.may_live_until_s(harness.state) == pytest.approx(100.0 + 500.0 / 3)
        assert guards.may_live_until_s(wanting(1, make_terms()).state) == math.inf

    def test_a_node_that_is_to_leave_makes_room_for_the_next(self) -> None:
        """There may be one: the one that was given notice goes before another is asked for."""
        harness = wanting(1, make_terms(max_nodes=1))
        harness.granted(1, "n0")
        harness.ready("n0")
        commands = harness.noticed("n0", until_s=120.0)
        assert released(commands) == ["n0"]
        assert [c.count for c in commands if isinstance(c, do.RequestNodes)] == [1]

    def test_who_dies_young_is_not_replaced_at_once(self) -> None:
        harness = wanting(1, make_terms())
        harness.granted(1, "n0")
        assert not [c for c in harness.lost("n0") if isinstance(c, do.RequestNodes)]
        again = harness.at(30.0).tell(TimerFired(at_s=30.0, timer="nodes:0"))
        assert [c.count for c in again if isinstance(c, do.RequestNodes)] == [1]

    def test_without_a_minimum_charge_a_node_must_live_for_a_save(self) -> None:
        harness = wanting(4, make_terms(budget_usd=1.0, save_s=40.0))
        assert asked(harness) == [2]

    def test_money_that_is_spent_buys_nothing(self) -> None:
        harness = wanting(1, make_terms(budget_usd=2.0, minimum_charge_s=60.0))
        harness.granted(1, "n0")
        harness.ready("n0")
        more = harness.at(100.0).wish(nodes=4)
        assert [c.count for c in only(more, do.RequestNodes)] == [1]  # type: ignore[union-attr]

    def test_after_the_last_call_no_node_is_asked_for(self) -> None:
        harness = Harness(make_terms(deadline_s=100.0, save_s=10.0), Advice(sample=1))
        harness.sampled(0)
        commands = harness.at(90.0).wish(nodes=1)
        assert only(commands, do.RequestNodes) == []
        assert ("veto", "1 of 1 more nodes refused: the last call has passed") in notes(commands)

    def test_a_run_that_cannot_afford_its_first_node_ends_at_once(self) -> None:
        harness = wanting(1, make_terms(budget_usd=0.5, minimum_charge_s=60.0))
        assert harness.state.ended is Ending.BUDGET
        assert kinds(harness.opening)[-1] == "EndRun"


class TestDeadline:
    def test_the_last_call_comes_a_save_before_the_deadline(self) -> None:
        harness = Harness(make_terms(deadline_s=100.0, save_s=10.0))
        timers = {c.timer: c.at_s for c in harness.opening if isinstance(c, do.SetTimer)}
        assert timers == {"guard:deadline-call": 90.0, "guard:deadline-end": 100.0}

    def test_an_uncertain_save_gets_three_standard_deviations(self) -> None:
        profile = Profile(
            iteration=Constant(1.0), speedup=Speedup.of({}), save=Normal(10.0, 2.0), transfer_s=5.0
        )
        assert make_terms(profile=profile).save_allowance_s == pytest.approx(21.0, rel=1e-3)

    def test_a_deadline_shorter_than_a_save_calls_at_once(self) -> None:
        harness = Harness(make_terms(deadline_s=5.0, save_s=10.0))
        assert guards.deadline_call_s(harness.state) == 0.0

    def test_leases_end_at_the_last_call(self) -> None:
        harness = open_stage(make_terms(deadline_s=100.0, save_s=10.0))
        (train,) = only(harness.wish(Wish(T0, 1, FAR), nodes=1), do.Train)
        assert isinstance(train, do.Train)
        assert train.until_s == 90.0

    def test_the_last_call_revokes_what_runs_and_saves_what_waits(self) -> None:
        harness = open_stage(make_terms(deadline_s=100.0, save_s=10.0), trials=3)
        harness.wish(*(Wish(TrialId(n), 1, FAR) for n in range(3)), nodes=1)
        for trial in (0, 1):
            harness.at(5.0).started(trial)
        harness.at(20.0).progressed(1, 0.5)
        commands = harness.at(90.0).ring("guard:deadline-call")
        assert commands == [
            do.Revoke(trial=T0, generation=1),
            do.Revoke(trial=T1, generation=1),
            do.Stop(trial=TrialId(2), generation=1),  # it had not begun
        ]
        assert harness.state.shutdown is Ending.DEADLINE
        assert harness.at(91.0).lease_ended(0, 0.4) == [do.Pause(trial=T0, generation=1)]
        assert harness.lease_ended(1, 0.6) == [do.Pause(trial=T1, generation=1)]
        assert harness.at(99.0).paused(0) == []
        assert kinds(harness.paused(1)) == ["ReleaseNodes", "CancelTimer", "EndRun"]
        assert harness.state.best == do.Best(trial=T1, iteration=2, metric=0.6)

    def test_at_the_deadline_everything_ends_and_the_best_that_was_saved_is_returned(self) -> None:
        harness = open_stage(make_terms(deadline_s=100.0, save_s=10.0))
        harness.wish(Wish(T0, 1, FAR), nodes=1)
        harness.started(0)
        harness.at(20.0).progressed(0, 0.5, 0.9, saved=(1,))
        harness.at(90.0).ring("guard:deadline-call")
        assert harness.at(100.0).ring("guard:deadline-end") == [
            do.Stop(trial=T0, generation=1),
            do.ReleaseNodes(nodes=(NodeId("n0"),)),
            do.EndRun(reason=Ending.DEADLINE, best=do.Best(trial=T0, iteration=1, metric=0.5)),
        ]
        assert harness.trial(0).phase is Phase.STOPPED

    def test_a_trial_that_has_no_time_for_one_more_iteration_ends_the_run(self) -> None:
        harness = open_stage(make_terms(deadline_s=100.0, save_s=10.0))
        harness.wish(Wish(T0, 1, FAR), nodes=1)
        harness.started(0)
        commands = harness.at(85.0).lease_ended(0, 0.3, reason=LeaseEnd.TIME)
        assert kinds(commands) == ["Pause"]
        assert kinds(harness.at(95.0).paused(0)) == ["ReleaseNodes", "CancelTimer", "CancelTimer", "EndRun"]
        assert harness.state.ended is Ending.DEADLINE


class TestBudget:
    def running(self, budget_usd: float = 2.0, save_s: float = 10.0) -> Harness:
        harness = open_stage(make_terms(budget_usd=budget_usd, save_s=save_s))
        harness.wish(Wish(T0, 1, FAR), nodes=1)
        harness.started(0)
        return harness

    def test_the_last_call_leaves_money_for_a_save_on_every_node(self) -> None:
        harness = self.running()
        assert harness.state.money_call_s == pytest.approx(190.0)
        assert harness.state.timers[guards.BUDGET] == pytest.approx(190.0)

    def test_two_nodes_halve_the_time(self) -> None:
        harness = self.running()
        harness.wish(Wish(T0, 1, FAR), nodes=2)
        harness.granted(2, "n1")
        assert harness.state.money_call_s == pytest.approx(90.0)

    def test_a_timer_that_rings_early_is_set_again(self) -> None:
        """Two nodes set it to 90 s; then one is released, and at 90 s there is money left."""
        harness = self.running()
        harness.wish(Wish(T0, 1, FAR), nodes=2)
        harness.granted(2, "n1")
        assert released(harness.at(50.0).wish(Wish(T0, 1, FAR), nodes=1)) == ["n1"]
        assert harness.state.timers[guards.BUDGET] == pytest.approx(90.0)
        assert harness.state.money_call_s == pytest.approx(140.0)
        (again,) = harness.at(90.0).ring(guards.BUDGET)
        assert again == do.SetTimer(timer=guards.BUDGET, at_s=pytest.approx(140.0))  # type: ignore[arg-type]
        assert harness.state.shutdown is None

    def test_the_last_call_winds_up_within_the_budget(self) -> None:
        harness = self.running()
        call = harness.at(190.0).ring(guards.BUDGET)
        assert kinds(call)[0] == "Revoke"
        assert harness.state.shutdown is Ending.BUDGET
        harness.at(195.0).lease_ended(0, 0.7)
        harness.at(200.0).paused(0)
        assert harness.state.ended is Ending.BUDGET
        assert harness.state.best == do.Best(trial=T0, iteration=1, metric=0.7)
        assert harness.state.ledger.accrued_usd(200.0) == pytest.approx(2.0)

    def test_when_the_last_cent_has_gone_everything_ends(self) -> None:
        harness = self.running()
        harness.at(190.0).ring(guards.BUDGET)
        assert harness.state.timers[guards.BUDGET] == pytest.approx(200.0)
        commands = harness.at(harness.state.timers[guards.BUDGET]).ring(guards.BUDGET)
        assert kinds(commands) == ["Stop", "ReleaseNodes", "EndRun"]

    def test_a_ring_of_a_timer_that_was_moved_is_ignored(self) -> None:
        harness = Harness(make_terms(deadline_s=100.0))
        assert harness.at(50.0).ring(guards.DEADLINE_END) == []
        assert harness.state.ended is None


class TestConcessions:
    @pytest.mark.parametrize("limit", LIMITS)
    def test_a_limit_that_may_be_exceeded_gives_way(self, limit: Limit) -> None:
        harness = open_stage(make_terms(deadline_s=100.0, budget_usd=2.0, may_exceed=limit))
        commands = harness.advise(Advice(concede=limit))
        assert ("conceded", f"the {limit.value} gives way") in notes(commands)
        assert harness.state.conceded == {limit}
        kept = harness.state.limits
        assert (kept.deadline_s is None, kept.budget_usd is None) == (
            limit is Limit.DEADLINE,
            limit is Limit.BUDGET,
        )
        timers = {timer.partition("-")[0] for timer in harness.state.timers}
        assert timers == {"guard:budget" if limit is Limit.DEADLINE else "guard:deadline"}

    @pytest.mark.parametrize("limit", LIMITS)
    @pytest.mark.parametrize("may_exceed", [None, "other"])
    def test_any_other_limit_stays(self, limit: Limit, may_exceed: str | None) -> None:
        (other,) = set(LIMITS) - {limit}
        terms = make_terms(deadline_s=100.0, budget_usd=2.0, may_exceed=other if may_exceed else None)
        harness = open_stage(terms)
        before = harness.state.limits
        commands = harness.advise(Advice(concede=limit))
        assert notes(commands) == [("veto", f"the {limit.value} does not yield")]
        assert harness.state.limits == before
        assert harness.state.conceded == frozenset()

    def test_a_conceded_deadline_no_longer_ends_the_run(self) -> None:
        harness = open_stage(make_terms(deadline_s=100.0, may_exceed=Limit.DEADLINE))
        harness.advise(Advice(concede=Limit.DEADLINE))
        assert harness.at(100.0).ring(guards.DEADLINE_END) == []
        assert harness.state.ended is None


def test_nodes_that_are_no_longer_wanted_go_oldest_first() -> None:
    harness = open_stage(nodes=("n0", "n1", "n2"))
    assert released(harness.wish(nodes=1)) == ["n0", "n1"]


class TestStartUp:
    """A command takes a while until its run begins, and its deadline counts that."""

    def begun(self, startup_s: float, deadline_s: float | None) -> Harness:
        took = {"startup_s": startup_s, "deadline_s": deadline_s}
        event = decode(encode(RunStarted(at_s=0.0, policy="puppet", seed=0, job={}, **took)))  # type: ignore[arg-type]
        assert isinstance(event, RunStarted)
        return Harness(make_terms(deadline_s=90.0), begins=event)

    def test_the_run_has_what_start_up_has_left_and_says_so(self) -> None:
        harness = self.begun(17.0, 103.0)
        assert harness.state.timers[guards.DEADLINE_END] == 103.0
        assert notes(harness.opening) == [
            ("start-up", "took 17.0 s; 1m43s of the deadline of 2m00s are left")
        ]
        assert guards.by_command(harness.state).deadline_s == 120.0

    def test_without_a_deadline_to_count_it_the_plans_own_holds(self) -> None:
        harness = self.begun(17.0, None)
        assert harness.state.timers[guards.DEADLINE_END] == 90.0
        assert notes(harness.opening) == [("start-up", "took 17.0 s")]

    def test_a_new_deadline_counts_from_the_command_and_an_addition_from_the_old_one(self) -> None:
        harness = self.begun(17.0, 103.0)
        for written, then_s in (("4m", 223.0), ("+1m", 163.0)):
            event = Extension.of(deadline=written).event(harness.state, None, "r", 5.0)
            assert event.deadline_s == then_s
        assert describe(event, harness.state.startup_s) == "from now on: deadline 3m00s"
        harness.at(5.0).tell(event)
        assert harness.state.timers[guards.DEADLINE_END] == 163.0

    def test_a_deadline_that_is_over_is_refused_in_the_users_time(self) -> None:
        harness = self.begun(17.0, 103.0)
        late = Extension.of(deadline="10s").event(harness.state, None, "r", 5.0)
        assert harness.core.refusal(late) == (
            "a deadline of 10.0 s is too early: the run has used 17.0 s; expected more, for all of it"
        )
