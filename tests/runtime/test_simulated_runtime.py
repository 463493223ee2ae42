"""The virtual clock: commands go on the agenda, and what happens is told in order of time."""

from __future__ import annotations

import pytest

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import Ending
from elastune.errors import InvariantError
from elastune.model.distributions import Constant
from elastune.model.ids import NodeId, Slot, TrialId
from elastune.providers.protocol import Machine
from elastune.providers.simulated_faults import NodeFaults
from elastune.providers.watcher import Belief
from elastune.runtime.simulated.cloud import NO_FAULTS, Faults
from tests.core.harness import make_terms
from tests.messages import log_of
from tests.runtime.workshop import T0, Workshop, lease, profile


def shop(faults: NodeFaults | None = None, *, queue_s: float = 15.0, init_s: float = 20.0) -> Workshop:
    terms = make_terms()
    cluster = type(terms.cluster)(
        slots_per_node=4,
        max_nodes=4,
        price_per_hour=36.0,
        queue=Constant(queue_s),
        init=Constant(init_s),
    )
    return Workshop(terms=make_terms(cluster=cluster), faults=Faults(nodes=faults) if faults else NO_FAULTS)


def test_nodes_queue_and_boot() -> None:
    here = shop()
    here.tell(do.RequestNodes(request=1, count=2))
    here.tell(do.RequestNodes(request=2, count=1), at_s=18.0)
    assert here.log() == [
        (15.0, "granted n0 n1"),
        (33.0, "granted n2"),
        (35.0, "ready n0 n1"),
        (53.0, "ready n2"),
    ]


def test_a_node_that_is_given_back_while_it_boots_is_never_ready() -> None:
    here = shop()
    here.tell(do.RequestNodes(request=1, count=2))
    here.tell(do.ReleaseNodes(nodes=(NodeId("n0"),)), at_s=20.0)
    assert here.log() == [(15.0, "granted n0 n1"), (35.0, "ready n1")]


def test_what_the_provider_does_not_have_is_refused() -> None:
    here = shop(NodeFaults(capacity=1))
    here.tell(do.RequestNodes(request=1, count=3))
    assert here.log() == [(15.0, "granted n0"), (15.0, "refused 2"), (35.0, "ready n0")]


def test_a_lost_node_takes_its_gangs_along() -> None:
    here = shop(NodeFaults(lost_per_hour=1.0))
    here.tell(do.RequestNodes(request=1, count=1))
    here.tell(lease(10_000), at_s=40.0)
    log = here.log()
    assert log[-1][1] == "lost n0"
    assert here.body.gangs == {}


def test_a_gang_elsewhere_survives() -> None:
    here = shop(NodeFaults(lost_per_hour=1.0))
    here.tell(do.RequestNodes(request=1, count=1))
    here.tell(lease(3, gang=(Slot(NodeId("other"), 0),)), at_s=40.0)
    assert (70.0, "trial 0 waits, reached 1..3") in here.log()


def test_notice_comes_before_the_end() -> None:
    here = shop(NodeFaults(noticed_per_hour=1.0, notice_s=120.0))
    here.tell(do.RequestNodes(request=1, count=1))
    log = here.log()
    notice = next(event for event in here.heard if isinstance(event, ev.NodeNoticed))
    assert notice.until_s == pytest.approx(notice.at_s + 120.0)
    assert log[-1] == (round(notice.until_s, 6), "lost n0")


def test_timers_ring_once_at_the_time_they_were_set_to_last() -> None:
    here = Workshop()
    here.tell(do.SetTimer(timer="a", at_s=10.0), do.SetTimer(timer="b", at_s=5.0))
    here.tell(do.SetTimer(timer="a", at_s=30.0), at_s=2.0)
    here.tell(do.SetTimer(timer="c", at_s=20.0), do.CancelTimer(timer="c"), at_s=3.0)
    assert here.log() == [(5.0, "rings b"), (30.0, "rings a")]


def test_a_timer_can_be_moved_forward_and_back() -> None:
    here = Workshop()
    here.tell(do.SetTimer(timer="a", at_s=30.0))
    here.tell(do.SetTimer(timer="a", at_s=10.0), do.SetTimer(timer="a", at_s=30.0), at_s=2.0)
    assert here.log() == [(30.0, "rings a")]


def test_barriers_take_the_time_to_synchronise() -> None:
    here = Workshop(type(profile())(iteration=Constant(1.0), speedup=profile().speedup, sync=Constant(3.0)))
    here.tell(do.Barrier(pool=0, stage=2), at_s=10.0)
    assert here.log() == [(13.0, "passed stage 2 of pool 0")]


def test_trials_are_drawn_at_once_and_by_their_number() -> None:
    one, other = Workshop(), Workshop()
    one.tell(do.Sample(trials=(TrialId(1), TrialId(2))))
    other.tell(do.Sample(trials=(TrialId(2),)))
    assert one.log() == [(0.0, "drawn [1, 2]")]
    other.log()
    drawn = [
        e.trials[-1].config for shop in (one, other) for e in shop.heard if isinstance(e, ev.TrialsSampled)
    ]
    assert drawn[0] == drawn[1]


def test_timers_of_one_instant_ring_in_the_order_they_were_set_after_all_else() -> None:
    here = Workshop()
    here.tell(do.SetTimer(timer="z", at_s=10.0), lease(1), do.SetTimer(timer="a", at_s=10.0))
    assert here.log() == [
        (0.0, "trial 0 trains"),
        (10.0, "trial 0 waits, reached 1..1"),
        (10.0, "rings z"),
        (10.0, "rings a"),
    ]


def test_a_run_that_goes_on_with_nothing_to_happen_is_a_bug() -> None:
    here = Workshop()
    here.body.ended = False
    with pytest.raises(InvariantError, match="the agenda is empty"):
        here.log()


class TestDriverCrash:
    def belief(self, *nodes: str, gone: tuple[str, ...] = ()) -> Belief:
        machines = tuple(Machine(node=NodeId(node), token="1", since_s=15.0, ready_s=35.0) for node in nodes)
        return Belief(machines=machines, requests=frozenset({1}), gone=frozenset(map(NodeId, gone)))

    def running(self, faults: NodeFaults | None = None) -> Workshop:
        here = shop(faults)
        here.tell(do.RequestNodes(request=1, count=2))
        here.tell(lease(10), do.SetTimer(timer="a", at_s=100.0), at_s=40.0)
        here.tell(at_s=55.0)
        return here

    def test_gangs_and_timers_die_and_nodes_live(self) -> None:
        here = self.running()
        event = here.body.crash(1000.0, self.belief("n0", "n1"))
        assert event == ev.Resumed(at_s=55.0, down_s=1000.0)
        here.heard.clear()
        assert here.log() == []
        assert here.body.gangs == {}
        assert here.body.cloud.provider.live() == ("n0", "n1")

    def test_nodes_cost_while_the_driver_is_down(self) -> None:
        here = self.running()
        here.body.crash(1000.0, self.belief("n0", "n1"))
        assert here.body.cloud.provider.billed_s(NodeId("n0")) == 1040.0

    def test_a_node_that_vanished_meanwhile_is_told_with_its_bill(self) -> None:
        here = self.running(NodeFaults(lost_per_hour=1.0))
        event = here.body.crash(100_000.0, self.belief("n0", "n1"))
        assert isinstance(event, ev.Resumed)
        assert [node for node, _ in event.lost] == ["n0", "n1"]
        assert all(0.0 < billed_s < 100_000.0 for _, billed_s in event.lost)

    def test_a_node_whose_release_was_not_carried_out_is_found(self) -> None:
        here = self.running()
        here.body.crash(60.0, self.belief("n0", gone=("n1",)))
        here.heard.clear()
        assert here.log() == [(55.0, "found n1")]

    def test_a_request_whose_answer_was_missed_is_answered_now(self) -> None:
        here = shop()
        here.tell(do.RequestNodes(request=1, count=2))
        here.tell(at_s=10.0)
        here.body.crash(100.0, self.belief())
        here.heard.clear()
        assert here.log() == [(10.0, "granted n0 n1"), (10.0, "ready n0 n1")]
        granted = here.heard[0]
        assert isinstance(granted, ev.NodesGranted)
        assert granted.billed_s == 95.0

    def test_the_runs_clock_goes_on_where_it_stood(self) -> None:
        here = self.running()
        here.body.crash(1000.0, self.belief("n0", "n1"))
        here.tell(do.RequestNodes(request=2, count=1), do.SetTimer(timer="b", at_s=60.0))
        here.heard.clear()
        assert here.log() == [(60.0, "rings b"), (70.0, "granted n2"), (90.0, "ready n2")]


def test_a_log_reads_as_it_happened() -> None:
    end = do.EndRun(reason=Ending.COMPLETE, best=do.Best(trial=T0, iteration=1, metric=0.5))
    assert log_of([(1.5, end)]) == [(1.5, "-> end, complete, with 0.5 of trial 0")]
