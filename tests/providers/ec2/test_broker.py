"""What the broker asks of EC2, and when. EC2 is a model of it, on a clock of our own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection
from dataclasses import replace
from random import Random

import pytest

from elastune.errors import InvariantError
from elastune.model.ids import NodeId
from elastune.providers.ec2 import calls as ec2
from elastune.providers.ec2.broker import SETTLE_S, Broker, CallPurpose
from elastune.providers.ec2.calls import CloudError, Instance, InstancePhase, Launch, Market, Offering
from elastune.providers.ec2.fleet import LAG_S, LEASE_S, Clocks
from elastune.providers.ec2.inventory import wait_until_gone
from elastune.providers.protocol import RequestStatus
from tests.clouds.virtual import Box, Misfortune, VirtualEc2

EPOCH = 1_000_000_000.0
SPOT = Offering(instance_type="a", market=Market.SPOT, subnet=None, usd_per_hour=4.0)
OTHER = replace(SPOT, instance_type="b")
DEMAND = replace(SPOT, market=Market.ON_DEMAND, usd_per_hour=12.0)


class Moody(VirtualEc2):
    """Fails a call, or does not answer it, on request."""

    def __init__(self, wall: Callable[[], float], misfortune: Misfortune) -> None:
        super().__init__(wall, misfortune, seed=1)
        self.moods: dict[str, Callable[[], None]] = {}
        self.is_blind = self.is_deaf = self.are_stopped = False
        self.log: list[str] = []

    def launch(self, launch: Launch) -> tuple[Instance, ...]:
        self._feel("launch")
        return super().launch(launch)

    def instances(self, run: str | None = None) -> tuple[Instance, ...]:
        listed = () if self.is_blind else super().instances(run)
        running = InstancePhase.STOPPED if self.are_stopped else InstancePhase.RUNNING
        return tuple(
            replace(each, phase=running) if each.phase is InstancePhase.RUNNING else each for each in listed
        )

    def terminate(self, instances: Collection[str]) -> None:
        self._feel("terminate")
        if not self.is_deaf:
            super().terminate(instances)

    def put_off(self, instances: Collection[str], expires: float) -> None:
        self._feel("put_off")
        super().put_off(instances, expires)

    def _feel(self, verb: str) -> None:
        self.log.append(verb)
        self.moods.get(verb, lambda: None)()


def failing(error: CloudError) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


class Stage:
    """Time passes only on request."""

    def __init__(self, misfortune: Misfortune | None = None) -> None:
        self.now_s = 0.0
        self.until_s: float | None = math.inf
        self.ec2 = Moody(lambda: EPOCH + self.now_s, misfortune or Misfortune())
        self.purpose = CallPurpose(
            run="r",
            offerings=(SPOT, OTHER, DEMAND),
            max_nodes=4,
            usd_per_hour=4.0,
            user_data=lambda expires: f"until {expires:.0f}",
            job="j",
            owner="o",
        )
        self.broker = self.hire()

    def hire(self, *, down_s: float | None = None) -> Broker:
        clocks = Clocks(wall=lambda: EPOCH + self.now_s, run=lambda: self.now_s)
        return Broker(
            self.ec2,
            self.purpose,
            clocks=clocks,
            lease=lambda: self.until_s,
            luck=Random(1),
            down_s=down_s,
        )

    def expiries(self) -> set[float]:
        return {float(box.tags[-1][1][ec2.EXPIRY]) - EPOCH for box in self.boxes}

    def work(self, seconds: float = 0.0) -> None:
        """Whatever is due within that time, when it is due."""
        until_s = self.now_s + seconds
        while True:
            due_s = self.broker.work() - EPOCH
            for id_ in self.ec2.joined():
                self.broker.join(id_)
            if due_s > until_s:
                self.now_s = until_s
                return
            self.now_s = due_s

    def fail(self, error: CloudError, *, of: Callable[[Launch], bool] = lambda _: True) -> None:
        """From now on launches of some offerings."""
        honest = self.ec2.launch

        def launch(launch: Launch) -> tuple[Instance, ...]:
            if of(launch):
                raise error
            return honest(launch)

        self.ec2.launch = launch  # type: ignore[method-assign]

    @property
    def boxes(self) -> list[Box]:
        return list(self.ec2.boxes.values())

    def nodes(self) -> list[str]:
        return [machine.node for machine in self.broker.survey().machines]

    def status(self, token: str) -> RequestStatus:
        (found,) = [status for status in self.broker.survey().requests if status.token == token]
        return found


def kinds(stage: Stage) -> list[tuple[str, str]]:
    return [(box.launch.offering.instance_type, box.launch.offering.market.value) for box in stage.boxes]


class TestLaunches:
    def test_the_first_ware_is_bought_if_it_can_be_had(self) -> None:
        stage = Stage()
        stage.broker.request("1", 3)
        stage.work()
        assert kinds(stage) == [("a", "spot")] * 3
        assert len(stage.status("1").granted) == 3

    def test_what_cannot_be_had_is_bought_elsewhere(self) -> None:
        stage = Stage()
        stage.fail(ec2.NoCapacityError("none"), of=lambda launch: launch.offering.market is Market.SPOT)
        stage.broker.request("1", 2)
        stage.work()
        assert kinds(stage) == [("a", "on-demand")] * 2
        assert [machine.usd_per_hour for machine in stage.broker.survey().machines] == [12.0, 12.0]
        assert stage.status("1").prices == dict.fromkeys(stage.status("1").granted, 12.0)

    def test_the_rest_of_a_part_is_bought_elsewhere(self) -> None:
        stage = Stage(Misfortune(partial=1.0))
        stage.broker.request("1", 4)
        stage.work()
        status = stage.status("1")
        assert len(status.granted) + status.refused == 4
        assert len({box.launch.client_token for box in stage.boxes}) > 1

    def test_what_no_offering_has_is_refused_with_the_reasons(self) -> None:
        stage = Stage()
        stage.fail(ec2.NoCapacityError("InsufficientInstanceCapacity"))
        stage.broker.request("1", 2)
        stage.work()
        status = stage.status("1")
        assert (status.granted, status.refused) == ((), 2)
        assert "a spot: InsufficientInstanceCapacity" in status.reason
        assert "a on-demand: InsufficientInstanceCapacity" in status.reason

    def test_too_many_calls_are_made_again_later_and_later(self) -> None:
        stage, times = Stage(), []

        def busy(launch: Launch) -> bool:
            times.append(stage.now_s)
            return len(times) < 5

        stage.fail(ec2.BusyError("RequestLimitExceeded"), of=busy)
        stage.broker.request("1", 1)
        stage.work(60.0)
        waits = [after - before for before, after in itertools.pairwise(times)]
        assert len(stage.boxes) == 1
        assert all(2**n <= wait <= 1.5 * 2**n for n, wait in enumerate(waits))

    def test_a_call_without_an_answer_is_repeated_and_launches_nothing_twice(self) -> None:
        stage, heard = Stage(), []

        def lost(launch: Launch) -> bool:
            heard.append(launch)
            if len(heard) == 1:
                VirtualEc2.launch(stage.ec2, launch)
            return len(heard) == 1

        stage.fail(ec2.UnsureError("read timeout"), of=lost)
        stage.broker.request("1", 2)
        stage.work(30.0)
        assert heard[0] == heard[1]
        assert len(stage.boxes) == len(stage.nodes()) == 2

    def test_a_promise_that_was_not_kept_is_bought_elsewhere_next_time(self) -> None:
        """A launch is answered, and its instances end before they ever ran: there was no capacity."""
        stage = Stage()
        stage.broker.request("1", 2)
        stage.work()
        for box in stage.boxes:
            box.ends, box.reason = EPOCH + 1.0, "Server.InsufficientInstanceCapacity: not now"
        stage.work(40.0)
        assert stage.nodes() == []
        stage.broker.request("2", 1)
        stage.work()
        assert kinds(stage)[2:] == [("b", "spot")]

    def test_a_right_that_is_missing_is_told_for_good(self) -> None:
        stage = Stage()
        stage.fail(ec2.RefusedError("EC2 refuses: UnauthorizedOperation"))
        stage.broker.request("1", 1)
        stage.work()
        assert stage.broker.broken == "EC2 refuses: UnauthorizedOperation"
        stage.broker.request("2", 1)
        assert stage.status("2").refused == 1

    def test_tags_are_there_from_the_first_moment_on(self) -> None:
        stage = Stage()
        stage.broker.request("7", 1)
        stage.work()
        (box,) = stage.boxes
        assert box.launch.tags == {
            ec2.RUN: "r",
            ec2.REQUEST: "7",
            ec2.ASKED: "1",
            ec2.JOB: "j",
            ec2.OWNER: "o",
            ec2.PRICE: "4.0",
            ec2.EXPIRY: str(int(EPOCH + LEASE_S)),
        }

    def test_tags_are_what_ec2_takes(self) -> None:
        stage = Stage()
        stage.purpose = replace(stage.purpose, job="tüne; rm -rf 'x'\\", owner="o" * 300)
        stage.broker = stage.hire()
        stage.broker.request("7", 1)
        stage.work()
        (box,) = stage.boxes
        assert box.launch.tags[ec2.JOB] == "tüne_ rm -rf _x__"
        assert len(box.launch.tags[ec2.OWNER]) == 256

    def test_a_token_stands_for_one_request(self) -> None:
        stage = Stage()
        stage.broker.request("1", 1)
        with pytest.raises(InvariantError, match="token"):
            stage.broker.request("1", 2)


class TestLeases:
    def test_a_living_driver_puts_the_expiry_off(self) -> None:
        stage = Stage()
        stage.broker.request("1", 2)
        stage.work(3600.0)
        assert len(stage.ec2.alive(EPOCH + 3600.0)) == 2
        assert all(3600.0 < expiry <= 3600.0 + LEASE_S for expiry in stage.expiries())

    def test_without_one_all_end_by_themselves(self) -> None:
        stage = Stage()
        stage.broker.request("1", 2)
        stage.work(100.0)
        assert stage.ec2.alive(EPOCH + 100.0 + LEASE_S + 31.0) == []

    def test_no_expiry_lies_beyond_the_money(self) -> None:
        stage = Stage()
        stage.until_s = 250.0
        stage.broker.request("1", 1)
        stage.work(100.0)
        assert stage.expiries() == {250.0}

    def test_before_more_are_launched_the_others_are_cut_short(self) -> None:
        stage = Stage()
        stage.broker.request("1", 1)
        stage.work(10.0)
        stage.until_s = 300.0
        stage.broker.request("2", 1)
        stage.ec2.log.clear()
        stage.work()
        assert stage.ec2.log == ["put_off", "launch"]
        assert stage.expiries() == {300.0}

    def test_nothing_is_launched_while_the_others_cannot_be_cut_short(self) -> None:
        stage = Stage()
        stage.broker.request("1", 1)
        stage.work(10.0)
        stage.until_s = 300.0
        stage.ec2.moods["put_off"] = failing(ec2.BusyError("RequestLimitExceeded"))
        stage.broker.request("2", 1)
        stage.work(20.0)
        assert len(stage.boxes) == 1

    def test_who_would_not_live_until_it_is_up_is_not_launched(self) -> None:
        stage = Stage()
        stage.until_s = 30.0
        stage.broker.request("1", 1)
        stage.work()
        assert stage.boxes == []
        assert "what the budget has left" in stage.status("1").reason

    def test_before_the_run_has_begun_nothing_is_launched(self) -> None:
        stage = Stage()
        stage.until_s = None
        stage.broker.request("1", 1)
        stage.work(60.0)
        assert stage.boxes == []
        stage.until_s = math.inf
        stage.work()
        assert len(stage.boxes) == 1


class TestEndings:
    def test_release_is_exact(self) -> None:
        stage = Stage()
        stage.broker.request("1", 3)
        stage.work()
        first, second, third = stage.nodes()
        stage.broker.release([NodeId(second)])
        stage.work()
        assert stage.nodes() == [first, third]
        assert stage.ec2.alive(EPOCH + stage.now_s) == [first, third]

    def test_what_cannot_be_ended_is_told_again_and_again(self) -> None:
        """It costs money, so the run has to see it. And nothing else is launched meanwhile."""
        stage = Stage()
        stage.broker.request("1", 1)
        stage.work(60.0)
        (node,) = stage.nodes()
        stage.ec2.moods["terminate"] = failing(ec2.UnsureError("read timeout"))
        stage.broker.release([NodeId(node)])
        stage.broker.request("2", 1)
        assert stage.nodes() == []
        stage.work(6.0)
        assert stage.nodes() == [node]
        stage.broker.release([NodeId(node)])
        assert stage.nodes() == []
        stage.work(6.0)
        assert stage.nodes() == [node]
        assert len(stage.boxes) == 1
        del stage.ec2.moods["terminate"]
        stage.work(60.0)
        assert len(stage.boxes) == 2
        assert node in stage.nodes(), "for the last time: it ended later than it was given back"
        stage.broker.release([NodeId(node)])
        assert node not in stage.nodes()
        assert stage.broker.fleet.alive() == tuple(stage.nodes())

    def test_a_lagging_listing_loses_nothing(self) -> None:
        stage = Stage(Misfortune(lag_s=25.0))
        stage.broker.request("1", 2)
        seen = []
        for _ in range(200):
            stage.work(1.0)
            seen.append(len(stage.nodes()))
        assert set(seen) == {2}

    def test_who_was_stopped_is_ended_for_good(self) -> None:
        """Its disk would cost money."""
        stage = Stage()
        stage.broker.request("1", 1)
        stage.work(30.0)
        stage.ec2.are_stopped = True
        stage.work(20.0)
        assert stage.nodes() == []
        assert stage.ec2.alive(EPOCH + stage.now_s) == []

    def test_who_is_not_listed_for_long_is_gone(self) -> None:
        stage = Stage()
        stage.broker.request("1", 1)
        stage.work(30.0)
        stage.ec2.is_blind = True
        stage.work(LAG_S - 20.0)
        assert len(stage.nodes()) == 1
        stage.work(60.0)
        assert stage.nodes() == []

    def test_at_the_end_a_listing_shows_that_nothing_is_left(self) -> None:
        stage = Stage(Misfortune(lag_s=10.0))
        stage.broker.request("1", 3)
        stage.work(30.0)

        def pause(seconds: float) -> None:
            stage.now_s += seconds

        assert wait_until_gone(stage.broker, rounds=60, pause=pause) == ()
        assert stage.ec2.alive(EPOCH + stage.now_s) == []

    def test_what_does_not_end_is_named(self) -> None:
        stage = Stage()
        stage.broker.request("1", 1)
        stage.work(10.0)
        stage.ec2.is_deaf = True

        def pause(seconds: float) -> None:
            stage.now_s += seconds

        assert wait_until_gone(stage.broker, rounds=10, pause=pause) == ("i-0000",)


class TestTakingOver:
    def test_a_new_driver_finds_what_the_old_one_launched_without_an_answer(self) -> None:
        stage = Stage(Misfortune(lag_s=20.0))
        stage.broker.request("1", 2)
        stage.work()
        stage.broker = stage.hire(down_s=1.0)
        stage.broker.request("1", 2)
        stage.work(SETTLE_S + 40.0)
        assert len(stage.boxes) == 2
        assert sorted(stage.nodes()) == sorted(stage.ec2.boxes)

    def test_the_lease_of_a_find_is_extended_once_the_run_has_heard_of_it(self) -> None:
        """A listing that lagged behind let the new driver believe that the node was lost."""
        stage = Stage(Misfortune(lag_s=20.0))
        stage.broker.request("1", 1)
        stage.work()
        stage.now_s += 5.0
        stage.broker = stage.hire(down_s=5.0)
        stage.work(16.0)
        assert stage.nodes() == list(stage.ec2.boxes)
        assert stage.expiries() == {LEASE_S}
        stage.work(LEASE_S)
        assert min(stage.expiries()) > LEASE_S

    def test_a_part_that_is_known_is_no_reason_to_presume_another(self) -> None:
        """Asked for two, the first offering had one, and the driver died: the rest was never launched."""
        stage = Stage(Misfortune(partial=1.0))
        stage.broker.request("1", 2)
        while not stage.boxes:
            stage.broker._try(stage.broker._orders["1"])
        stage.ec2.misfortune = Misfortune()
        stage.broker = stage.hire(down_s=1.0)
        stage.broker.request("1", 2)
        stage.work(SETTLE_S + LAG_S + 10.0)
        assert sorted(stage.status("1").granted) == sorted(stage.ec2.boxes)
        assert len(stage.boxes) == 2

    def test_who_joined_before_it_was_known_is_ready_when_it_is(self) -> None:
        stage = Stage()
        stage.broker.request("1", 1)
        stage.work()
        (node,) = stage.nodes()
        stage.broker = stage.hire(down_s=1.0)
        stage.broker.join(node, 0.0)
        stage.work(10.0)
        assert [machine.ready_s for machine in stage.broker.survey().machines] == [0.0]

    def test_what_lived_and_died_unseen_is_told_and_billed(self) -> None:
        """Two hours later EC2 lists it no more; that its client token was used is all that is known."""
        stage = Stage()
        stage.broker.request("1", 1)
        stage.work()
        stage.now_s += 7200.0
        stage.broker = stage.hire(down_s=1.0)
        stage.broker.request("1", 1)
        stage.work(SETTLE_S + LAG_S + 10.0)
        (gone,) = stage.status("1").granted
        assert gone not in stage.nodes()
        assert (stage.broker.fleet.billed_s(gone) or 0.0) >= LEASE_S
        assert len(stage.boxes) == 1
