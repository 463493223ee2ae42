"""Which trial used which node from when to when, and what it cost.

The ledger counts in two ways that must agree: by node, as the provider bills, and by stage. A stage of a pool
lasts from one barrier to the next; an asynchronous policy has a single one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from elastune.core.trials import Activity
from elastune.model.billing import bills_nodes, charged_s, ingress_usd, most_node_usd, paid_until_s, slot_rate
from elastune.model.cluster import SECONDS_PER_HOUR, ClusterTerms
from elastune.model.ids import Gang, NodeId, TrialId

# Costs of nodes are relative to the ordinary one; where that is free, to this rate.
_ANY_RATE = 1.0 / SECONDS_PER_HOUR


@dataclass(slots=True)
class Use:
    """Slot-seconds by activity."""

    starting_s: float = 0.0
    training_s: float = 0.0
    saving_s: float = 0.0
    waiting_s: float = 0.0

    @property
    def busy_s(self) -> float:
        return self.starting_s + self.training_s + self.saving_s + self.waiting_s

    def add(self, activity: Activity, slot_s: float) -> None:
        if activity is Activity.TRAINING:
            self.training_s += slot_s
        elif activity is Activity.STARTING:
            self.starting_s += slot_s
        elif activity is Activity.SAVING:
            self.saving_s += slot_s
        else:
            self.waiting_s += slot_s


@dataclass(slots=True)
class NodeAccount:
    """One node. `billed_s` differs from its life only by a minimum charge or by the driver's down time."""

    pool: int
    born_s: float
    ready_s: float | None = None
    ended_s: float | None = None
    down_s: float = 0.0
    lost: bool = False
    use: Use = field(default_factory=Use)
    billed_s: float = 0.0
    usd: float = 0.0
    weight: float = 1.0
    """Its price as a multiple of the ordinary node's, if it came from another market, say."""


@dataclass(slots=True)
class StageAccount:
    """One stage of one pool. A minimum charge counts in the stage in which the node was released."""

    pool: int
    stage: int
    began_s: float
    ended_s: float | None = None
    node_s: float = 0.0
    booting_s: float = 0.0
    use: Use = field(default_factory=Use)
    held_s: dict[int, float] = field(default_factory=dict)
    """Seconds by the number of nodes at that time, if there were any."""
    usd: float = 0.0

    @property
    def peak_nodes(self) -> int:
        """The most at once, be it for the moment in which a stage before gives up what it had."""
        return max(self.held_s, default=0)

    @property
    def nodes(self) -> int:
        """As many as were there for the longest time; of equals, the most."""
        return max(self.held_s, key=lambda count: (self.held_s[count], count), default=0)


@dataclass(slots=True)
class _Open:
    """The present use of a pool; integrated over time whenever it changes."""

    account: StageAccount
    at_s: float
    before: StageAccount | None = None
    nodes: int = 0
    weight: float = 0.0
    """The sum over these nodes."""
    booting: int = 0
    slots: list[int] = field(default_factory=lambda: [0] * len(Activity))
    """By activity."""


class Ledger:
    def __init__(self, cluster: ClusterTerms) -> None:
        self._cluster = cluster
        self._by_node = bills_nodes(cluster)
        self._rate = cluster.node_usd_per_s or _ANY_RATE
        self._slot_rate = slot_rate(cluster)
        self.usual_weight = 1.0 if cluster.node_usd_per_s else 0.0
        self._dearest = cluster.dearest_usd_per_s / self._rate
        self.nodes: dict[NodeId, NodeAccount] = {}
        self.trials: dict[TrialId, Use] = {}
        self.stages: list[StageAccount] = []
        self._open: dict[int, _Open] = {}
        self._closed_usd = 0.0
        self._live: dict[NodeId, NodeAccount] = {}
        self._busy_slots = 0
        self._busy_since = 0.0  # sum of slots x start time over the present gangs

    @property
    def terms(self) -> ClusterTerms:
        return self._cluster

    def accrued_usd(self, at_s: float, extra_s: float = 0.0) -> float:
        """What is paid if all nodes are released `extra_s` after `at_s`."""
        end = at_s + extra_s
        if not self._by_node:
            return self._closed_usd + self._slot_rate * (self._busy_slots * end - self._busy_since)
        node_s = sum(
            node.weight * charged_s(self._cluster, end - node.born_s + node.down_s)
            for node in self._live.values()
        )
        return self._closed_usd + self._rate * node_s

    def wound_up_usd(self, at_s: float, gangs: Mapping[Gang, float]) -> float:
        """What is paid if every gang, and with it its nodes, goes on for so many seconds."""
        if not self._by_node:
            slot_s = math.fsum(len(gang) * seconds for gang, seconds in gangs.items())
            return self.accrued_usd(at_s) + self._slot_rate * slot_s
        longest: dict[NodeId, float] = {}
        for gang, seconds in gangs.items():
            for slot in gang:
                longest[slot.node] = max(seconds, longest.get(slot.node, 0.0))
        node_s = math.fsum(
            account.weight
            * charged_s(self._cluster, at_s + longest.get(node, 0.0) - account.born_s + account.down_s)
            for node, account in self._live.items()
        )
        return self._closed_usd + self._rate * node_s

    def spent_usd(self, at_s: float) -> float:
        """The cost so far by age, without what minimum charges still add."""
        if not self._by_node:
            return self.accrued_usd(at_s)
        node_s = sum(node.weight * (at_s - node.born_s + node.down_s) for node in self._live.values())
        return self._closed_usd + self._rate * node_s

    def stage_usd(self, pool: int, at_s: float) -> float:
        """What the present stage of a pool has cost so far."""
        return self._touch(pool, at_s).account.usd if pool in self._open else 0.0

    def idle_slot_s(self, stage: StageAccount) -> float:
        """Slot-seconds of nodes that were up and unused: at a barrier, with or without a gang that waits
        there, or held for later."""
        up_s, working_s = stage.node_s - stage.booting_s, stage.use.busy_s - stage.use.waiting_s
        return max(0.0, up_s * self._cluster.slots_per_node - working_s)

    def lasts_until_s(self, usd: float, *, asked: int = 0, at_s: float = 0.0) -> float | None:
        """When so much is paid if nothing changes; None: never. `asked` more nodes count from `at_s`, at the
        highest price."""
        if not self._by_node:
            rate = self._slot_rate * self._busy_slots
            return (usd - self._closed_usd) / rate + self._busy_since / self._busy_slots if rate else None
        births = [(node.born_s - node.down_s, node.weight) for node in self._live.values() if node.weight]
        births = sorted(births + [(at_s, self._dearest)] * (asked if self._dearest else 0))
        if not births:
            return None
        node_s = (usd - self._closed_usd - ingress_usd(self._cluster, asked)) / self._rate
        return paid_until_s(self._cluster, births, node_s)

    @property
    def burn_usd_per_s(self) -> float:
        """What each further second costs at most."""
        if self._by_node:
            return self._rate * sum(node.weight for node in self._live.values())
        return self._slot_rate * self._busy_slots

    def node_rate(self, node: NodeId) -> float:
        """What each further second of the node costs, where nodes are billed."""
        return self._rate * self.nodes[node].weight

    def node_usd(self, lasting_s: float) -> float:
        """What one more node costs at most if it is released after `lasting_s`."""
        return most_node_usd(self._cluster, lasting_s)

    def open_stage(self, pool: int, stage: int, at_s: float) -> None:
        """A new stage begins where the last one of this pool ends."""
        account = StageAccount(pool=pool, stage=stage, began_s=at_s)
        self.stages.append(account)
        now = self._open.get(pool)
        if now is None:
            self._open[pool] = _Open(account, at_s)
            return
        self._integrate(now, at_s)
        now.account.ended_s = at_s
        now.before, now.account = now.account, account

    def grant(
        self, node: NodeId, pool: int, at_s: float, billed_s: float = 0.0, usd_per_hour: float | None = None
    ) -> None:
        """`usd_per_hour`: its price; None: that of the job's nodes."""
        account = NodeAccount(pool=pool, born_s=at_s - billed_s, weight=self._weight(usd_per_hour))
        self.nodes[node] = self._live[node] = account
        now = self._touch(pool, at_s)
        now.nodes += 1
        now.weight += account.weight
        now.booting += 1
        self._pay(account, now.account, ingress_usd(self._cluster, 1))
        if billed_s:
            now.account.node_s += billed_s
            now.account.booting_s += billed_s
            if self._by_node:
                now.account.usd += billed_s * account.weight * self._rate

    def ready(self, node: NodeId, at_s: float) -> None:
        account = self.nodes[node]
        account.ready_s = at_s
        self._touch(account.pool, at_s).booting -= 1

    def end(self, node: NodeId, at_s: float, *, lost: bool = False, billed_s: float | None = None) -> None:
        """The node is released or lost: it costs nothing from here on."""
        account = self._live.pop(node)
        now = self._touch(account.pool, at_s)
        now.nodes -= 1
        now.weight = now.weight - account.weight if now.nodes else 0.0
        now.booting -= account.ready_s is None
        account.ended_s, account.lost = at_s, lost
        lived_s = at_s - account.born_s + account.down_s
        account.billed_s = charged_s(self._cluster, lived_s if billed_s is None else billed_s)
        if self._by_node:
            usd = account.billed_s * account.weight * self._rate
            account.usd += usd
            self._closed_usd += usd
            served = now.account if at_s > now.account.began_s else now.before or now.account
            served.usd += (account.billed_s - lived_s) * account.weight * self._rate

    def found(self, node: NodeId, at_s: float, billed_s: float, usd_per_hour: float | None = None) -> None:
        """A node that was thought released, or was unknown, has been billed until now, and ends now."""
        if not self._open:
            return
        account = self.nodes.get(node)
        pool = next(iter(self._open)) if account is None else account.pool
        stage = self._touch(pool, at_s).account
        if account is None:
            weight = self._weight(usd_per_hour)
            account = self.nodes[node] = NodeAccount(pool=pool, born_s=at_s - billed_s, weight=weight)
            self._pay(account, stage, ingress_usd(self._cluster, 1))
        more_s = charged_s(self._cluster, billed_s) - account.billed_s
        account.billed_s += more_s
        account.ended_s = at_s
        if self._by_node:
            self._pay(account, stage, more_s * account.weight * self._rate)

    def down(self, down_s: float) -> None:
        """The driver was down: nodes were billed while the run's clock stood still."""
        for account in self._live.values():
            account.down_s += down_s
            stage = self._open[account.pool].account
            stage.node_s += down_s
            if self._by_node:
                stage.usd += down_s * account.weight * self._rate

    def gang_begins(self, gang: Gang, pool: int, activity: Activity, at_s: float) -> None:
        """A gang forms; where functions are billed, its slots cost from here on."""
        self._touch(pool, at_s).slots[activity] += len(gang)
        self._busy_slots += len(gang)
        self._busy_since += len(gang) * at_s

    def gang_turns(self, pool: int, slots: int, before: Activity, after: Activity, at_s: float) -> None:
        now = self._touch(pool, at_s)
        now.slots[before] -= slots
        now.slots[after] += slots

    def gang_used(self, trial: TrialId, gang: Gang, activity: Activity, seconds: float) -> None:
        """Seconds that a gang spent in an activity, booked on its trial and its nodes."""
        if trial not in self.trials:
            self.trials[trial] = Use()
        self.trials[trial].add(activity, seconds * len(gang))
        for slot in gang:
            self.nodes[slot.node].use.add(activity, seconds)

    def gang_ends(self, gang: Gang, pool: int, activity: Activity, began_s: float, at_s: float) -> None:
        """`began_s`: when the gang formed."""
        self._touch(pool, at_s).slots[activity] -= len(gang)
        self._busy_slots -= len(gang)
        self._busy_since -= len(gang) * began_s
        if not self._by_node:
            self._closed_usd += self._slot_rate * len(gang) * (at_s - began_s)

    def close(self, at_s: float) -> None:
        for now in self._open.values():
            self._integrate(now, at_s)
            now.account.ended_s = at_s
            if now.before is not None and not now.account.node_s and not now.account.usd:
                self.stages.remove(now.account)  # the last barrier opened a stage without nodes
                now.account = now.before

    def reopen_stage(self, pool: int, stage: int, at_s: float) -> None:
        """The run goes on after `close`, in this stage of the pool."""
        now = self._touch(pool, at_s)
        now.account.ended_s = None
        if now.account.stage != stage:  # it had no nodes and was left out
            self.open_stage(pool, stage, at_s)

    def _weight(self, usd_per_hour: float | None) -> float:
        return self.usual_weight if usd_per_hour is None else usd_per_hour / SECONDS_PER_HOUR / self._rate

    def _pay(self, node: NodeAccount, stage: StageAccount, usd: float) -> None:
        node.usd += usd
        stage.usd += usd
        self._closed_usd += usd

    def _touch(self, pool: int, at_s: float) -> _Open:
        now = self._open[pool]
        self._integrate(now, at_s)
        return now

    def _integrate(self, now: _Open, at_s: float) -> None:
        seconds = at_s - now.at_s
        if seconds <= 0.0:
            return
        now.at_s, account = at_s, now.account
        if now.nodes:
            account.held_s[now.nodes] = account.held_s.get(now.nodes, 0.0) + seconds
        account.node_s += seconds * now.nodes
        account.booting_s += seconds * now.booting
        use, slots = account.use, now.slots
        use.starting_s += seconds * slots[Activity.STARTING]
        use.training_s += seconds * slots[Activity.TRAINING]
        use.waiting_s += seconds * slots[Activity.WAITING]
        use.saving_s += seconds * slots[Activity.SAVING]
        if self._by_node:
            account.usd += seconds * now.weight * self._rate
        else:
            account.usd += seconds * sum(slots) * self._slot_rate
