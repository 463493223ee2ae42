"""Two runs share a worker group, and everything goes wrong at random."""

from __future__ import annotations

import random

import pytest

from elastune.model.ids import NodeId
from elastune.providers.kubernetes.api import KubernetesError
from elastune.providers.kubernetes.broker import GroupBroker, GroupPurpose
from elastune.providers.kubernetes.calls import RayClusterCalls
from tests.providers.contract import nodes
from tests.providers.kubernetes.stage import api_at
from tests.providers.kubernetes.stand_in import CLUSTER, GROUP, StandIn, serving

MOST = 4
FAULTS = [(0.0, 0.0), (0.1, 0.1), (0.3, 0.2)]


class World:
    """Its clock stands still between two rounds, also for the pods."""

    def __init__(self, stand_in: StandIn, address: str, luck: random.Random) -> None:
        self.stand_in = stand_in
        self.luck = luck
        self.now_s = 1000.0
        stand_in.clock = lambda: self.now_s
        self.calls = RayClusterCalls(api_at(address), CLUSTER, GROUP)
        self.asked: dict[str, dict[str, int]] = {"one": {}, "two": {}}
        self.brokers = {run: self.take_over(run) for run in self.asked}

    def take_over(self, run: str) -> GroupBroker:
        """A new driver of the run."""
        made = GroupBroker(
            self.calls,
            GroupPurpose(run=run, job="", max_nodes=MOST, patience_s=30.0),
            clock=lambda: self.now_s,
            wall=lambda: self.now_s,
            lease_s=lambda: 300.0,
        )
        while True:
            try:
                made.look_afresh()
            except KubernetesError:
                continue
            break
        for token, count in self.asked[run].items():
            made.request(token, count)
        return made

    def happen(self, token: str) -> None:
        run = self.luck.choice(sorted(self.brokers))
        broker = self.brokers[run]
        match self.luck.choice(["request", "request", "release", "lose", "evict", "restart", "wait"]):
            case "request":
                self.asked[run][token] = self.luck.randint(1, 3)
                broker.request(token, self.asked[run][token])
            case "release":
                held = nodes(broker.survey())
                broker.release(
                    [NodeId(node) for node in self.luck.sample(held, self.luck.randint(0, len(held)))]
                )
            case "lose":
                there = self.stand_in.alive()
                for name in self.luck.sample(there, min(1, len(there))):
                    self.stand_in.lose(name)
            case "evict":
                there = self.stand_in.alive()
                for name in self.luck.sample(there, min(1, len(there))):
                    self.stand_in.evict(name, 20.0)
            case "restart":
                self.brokers[run] = self.take_over(run)

    def work(self, seconds: float) -> None:
        for broker in self.brokers.values():
            broker.work()
            check(broker)
        self.now_s += seconds


def check(broker: GroupBroker) -> None:
    """A survey is consistent."""
    survey = broker.survey()
    granted = {node for each in survey.requests for node in each.granted}
    assert {machine.node for machine in survey.machines} <= granted
    held = [each for each in survey.machines if broker.records[each.node].released_s is None]
    assert len(held) <= MOST  # released ones that the operator has not ended yet are listed, too
    for each in survey.requests:
        assert bool(each.refused) == bool(each.reason)
        assert len(each.granted) + each.refused <= each.asked


@pytest.mark.parametrize("seed", range(14))
def test_nothing_is_left_and_nothing_is_deleted_at_random(seed: int) -> None:
    run_with_faults(seed)


def run_with_faults(seed: int) -> None:
    """Requests, releases, losses and new drivers; calls fail before and after they were executed."""
    luck = random.Random(f"pods {seed}")
    stand_in = StandIn(
        machines=luck.choice([2, 100]),
        most=luck.choice([3, 100]),
        grace_s=luck.choice([0.0, 3.0, 20.0]),
        is_patient=luck.choice([False, True]),
        luck=random.Random(seed),
    )
    with serving(stand_in) as address:
        stand_in.unheard, stand_in.unanswered = luck.choice(FAULTS)
        world = World(stand_in, address, luck)
        for number in range(30):
            world.happen(str(number))
            for _ in range(luck.choice([1, 4])):
                world.work(luck.choice([0.5, 5.0, 40.0]))
        stand_in.unheard = stand_in.unanswered = 0.0
        for broker in world.brokers.values():
            broker.wind_up()
        for _ in range(12):
            world.work(15.0)
        assert stand_in.alive() == []
    assert (stand_in.group["replicas"], stand_in.annotations) == (0, {})
    assert stand_in.deleted_at_random == []
