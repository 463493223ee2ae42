"""Decides what to change in a worker group next. No thread, no network, no clock of its own: `work` makes one
round, which reads group and pods, and then changes the group in one call.

Safe whatever happens between any two calls:

- The call that raises the replicas also writes the request into the annotation of its run. So it is made
  once, also by a driver that takes over, and a change that got no answer shows in the next reading.
- KubeRay deletes pods at random if there are more than replicas, and counts those that are ending. So
  replicas are only lowered together with the names of as many pods, unless there are no pods for them.
- KubeRay replaces a pod that ended by itself. The run did not ask for that: the new pod serves its next
  request, or is deleted by name.
- Pods do not end with a lease. `keeper.py` and `elastune nodes --sweep` end those whose lease is over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from elastune.model.ids import NodeId
from elastune.providers.kubernetes.api import (
    KubernetesAccessError,
    KubernetesConflictError,
    KubernetesError,
    KubernetesRefusedError,
)
from elastune.providers.kubernetes.calls import GroupCalls, Pod, PodPhase, RunShare, Want, WorkerGroup
from elastune.providers.kubernetes.sweeping import is_counted
from elastune.providers.protocol import Machine, RequestStatus, Survey, check_request

LEASE_S = 300.0
RENEW_S = 60.0
SPARE_S = 10.0
"""A replacement that no request has taken for so long is deleted."""
STUCK_S = 60.0
"""A pod whose container does not start for so long is given up: a registry may hiccup."""
RETRY_S = 30.0
"""A released pod that still runs after this is listed, and deleted, again."""
_LEAST_PATIENCE_S, _PATIENCE = 600.0, 4.0
_BUSY_LOOK_S, _LOOK_S, _ERROR_LOOK_S = 1.0, 10.0, 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPurpose:
    """The run, for its share of the group."""

    run: str
    job: str
    max_nodes: int
    usd_per_hour: float = 0.0
    expected_queue_s: float = 0.0
    patience_s: float | None = None

    @property
    def most_wait_s(self) -> float:
        usual = max(_LEAST_PATIENCE_S, _PATIENCE * self.expected_queue_s)
        return usual if self.patience_s is None else self.patience_s


@dataclass(slots=True)
class PodOrder:
    token: str
    asked: int
    since_s: float
    granted: list[NodeId] = field(default_factory=list)
    refused: int = 0
    reasons: list[str] = field(default_factory=list)

    @property
    def open(self) -> int:
        return max(0, self.asked - self.refused - len(self.granted))

    def refuse(self, count: int, why: str) -> None:
        if count > 0:
            self.refused += count
            self.reasons += [why] if why not in self.reasons else []


@dataclass(slots=True)
class PodRecord:
    """A pod of this run. Times are of the run's clock."""

    pod: Pod
    machine: Machine
    is_ours: bool
    """Claimed by this driver, not by an earlier one."""
    released_s: float | None = None
    ended_s: float | None = None
    stuck_s: float | None = None
    """Since when its container does not start."""
    is_given_up: bool = False
    """Released because of that."""
    is_booked: bool = False
    """Its release or loss is in the share of the run."""

    @property
    def is_over(self) -> bool:
        return self.released_s is not None or self.ended_s is not None

    @property
    def is_failed_start(self) -> bool:
        has_failed = self.is_given_up or (self.ended_s is not None and self.released_s is None)
        return self.is_ours and has_failed and self.machine.ready_s is None


class GroupBroker:
    """`lease_s` returns for how long nodes may live from now on; None: not known yet, so nothing is asked
    for. `wall`: seconds since 1970."""

    def __init__(
        self,
        calls: GroupCalls,
        purpose: GroupPurpose,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
        lease_s: Callable[[], float | None],
    ) -> None:
        self._calls = calls
        self._purpose = purpose
        self._clock = clock
        self._wall = wall
        self._lease_s = lease_s
        self._orders: dict[str, PodOrder] = {}
        self.records: dict[str, PodRecord] = {}
        self._joined_s: dict[str, float] = {}
        self._spare_since_s: float | None = None
        self._last_since_s = -math.inf
        self._closing = False
        self._group: WorkerGroup | None = None
        self._pods: tuple[Pod, ...] = ()
        self.trouble: str | None = None
        self.broken: str | None = None

    # The run's calls.

    def request(self, token: str, count: int) -> None:
        order = self._orders.get(token)
        check_request(token, count, None if order is None else order.asked)
        if order is not None:
            return
        self._orders[token] = order = PodOrder(token, count, self._clock(), self._granted(token))
        known = None if self._group is None else self._share(self._group).wants.get(token)
        if known is not None:  # of an earlier driver
            still = sum(self.records[node].ended_s is None for node in order.granted)
            order.refuse(order.open - max(0, known.wanted - still), "refused, lost or released before")
            return
        room = max(0, self._purpose.max_nodes - self._held() + order.open)
        order.refuse(order.open - room, f"at most {self._purpose.max_nodes} nodes")
        if self.broken is not None:
            order.refuse(order.open, self.broken)

    def release(self, nodes: Collection[NodeId]) -> None:
        for node in nodes:
            record = self.records.get(node)
            if record is not None and record.ended_s is None and record.released_s is None:
                record.released_s = self._clock()

    def limit_nodes(self, most: int) -> None:
        self._purpose = replace(self._purpose, max_nodes=most)

    def survey(self) -> Survey:
        others = {record.machine.token for record in self.records.values()} - self._orders.keys()
        adopted = [
            PodOrder(token, len(found), 0.0, found)
            for token in sorted(others)
            if (found := self._granted(token))
        ]
        statuses = tuple(
            RequestStatus(
                token=each.token,
                asked=each.asked,
                granted=tuple(each.granted),
                refused=each.refused,
                reason="; ".join(each.reasons) if each.refused else "",
            )
            for each in (*self._orders.values(), *adopted)
            if each.granted or each.refused
        )
        machines = tuple(sorted(self._machines(), key=lambda machine: machine.since_s))
        return Survey(at_s=self._clock(), machines=machines, requests=statuses)

    def join(self, node: str, at_s: float) -> None:
        self._joined_s.setdefault(node, at_s)
        record = self.records.get(node)
        if record is not None and record.machine.ready_s is None:
            ready_s = max(self._joined_s[node], record.machine.since_s)
            record.machine = replace(record.machine, ready_s=ready_s)

    def notice(self, until: Mapping[str, float]) -> None:
        for node, at_s in until.items():
            record = self.records.get(node)
            if record is not None and record.released_s is None and record.machine.until_s is None:
                record.machine = replace(record.machine, until_s=at_s)

    def billed_s(self, node: str) -> float | None:
        record = self.records.get(node)
        if record is None:
            return None
        ends = [at_s for at_s in (record.ended_s, record.released_s) if at_s is not None]
        return max(0.0, min(ends, default=self._clock()) - record.machine.since_s)

    def alive(self) -> tuple[str, ...]:
        return tuple(name for name, record in self.records.items() if record.ended_s is None)

    def addresses(self) -> dict[str, str]:
        """Pods of the run by their address."""
        found = (self.records[name].pod for name in self.alive())
        return {pod.address: pod.name for pod in found if pod.address}

    def wind_up(self) -> None:
        """Release everything and ask for nothing new."""
        self._closing = True
        self.release([NodeId(name) for name in self.alive()])
        for order in self._orders.values():
            order.refuse(order.open, "the run is over")

    # A round of calls.

    def work(self) -> float:
        self.trouble = None
        try:
            self.look_afresh()
            assert self._group is not None
            new = self._next(self._group)
            if new != self._group:
                self._calls.change(self._group, new)
                self._group = new
                self._note_booked(new)
        except KubernetesConflictError:
            return self._clock() + 0.05
        except KubernetesError as error:
            self.trouble = str(error)
            is_refused = isinstance(error, KubernetesRefusedError)
            if is_refused and not isinstance(error, KubernetesAccessError):
                self.broken = str(error)
                for order in self._orders.values():
                    order.refuse(order.open, self.broken)
            return self._clock() + _ERROR_LOOK_S
        is_busy = any(order.open for order in self._orders.values()) or any(
            record.machine.ready_s is None or record.released_s is not None
            for record in self.records.values()
            if record.ended_s is None
        )
        return self._clock() + (_BUSY_LOOK_S if is_busy else _LOOK_S)

    def look_afresh(self) -> None:
        """Read group and pods, and claim pods for open requests. Raises `KubernetesError`."""
        self._group, self._pods = self._calls.group(), self._calls.pods()
        for pod in self._pods:
            if pod.run == self._purpose.run:
                self._take_in(pod)
        listed = {pod.name for pod in self._pods}
        for name, record in self.records.items():
            if name not in listed and record.ended_s is None:
                record.ended_s = self._clock()
        self._note_booked(self._group)
        if self._closing:
            self.release([NodeId(name) for name in self.alive()])
        for pod in self._unclaimed():
            order = next((each for each in self._orders.values() if self._may_claim(each)), None)
            if order is None:
                break
            if pod.phase is not PodPhase.WAITING:
                self._calls.claim(pod, self._purpose.run, order.token)
                self._take_in(replace(pod, run=self._purpose.run, request=order.token), is_ours=True)

    # Private.

    def _share(self, group: WorkerGroup) -> RunShare:
        usual = RunShare(job=self._purpose.job, usd=self._purpose.usd_per_hour)
        return group.shares.get(self._purpose.run, usual)

    def _note_booked(self, group: WorkerGroup) -> None:
        for name in self._share(group).booked:
            if name in self.records:
                self.records[name].is_booked = True

    def _held(self) -> int:
        """Nodes of the run that are there or may come, also for requests of an earlier driver."""
        wants = {} if self._group is None else self._share(self._group).wants
        others = [order for order in self._orders.values() if order.token not in wants]
        alive = [record for record in self.records.values() if not record.is_over]
        ending = sum(
            record.is_over and not record.is_booked and record.machine.token in wants
            for record in self.records.values()
        )
        return (
            sum(want.wanted for want in wants.values())
            - ending
            + sum(order.open for order in others)
            + sum(record.machine.token not in wants for record in alive)
        )

    def _granted(self, token: str) -> list[NodeId]:
        return [NodeId(name) for name, each in self.records.items() if each.machine.token == token]

    def _unclaimed(self) -> list[Pod]:
        return [
            pod
            for pod in self._pods
            if pod.run is None and pod.phase is not PodPhase.ENDED and pod.ends is None
        ]

    def _may_claim(self, order: PodOrder) -> bool:
        """Only what the group was asked for."""
        assert self._group is not None
        return order.open > 0 and order.token in self._share(self._group).wants

    def _take_in(self, pod: Pod, *, is_ours: bool = False) -> None:
        now_s = self._clock()
        record = self.records.get(pod.name)
        if record is None:
            order = self._orders.get(pod.request)
            least_s = max(self._last_since_s, -math.inf if order is None else order.since_s)
            age_s = max(0.0, self._wall() - (pod.since or self._wall()))
            self._last_since_s = since_s = min(now_s, max(least_s, now_s - age_s))
            machine = Machine(node=NodeId(pod.name), token=pod.request, since_s=since_s)
            record = self.records[pod.name] = PodRecord(pod, machine, is_ours)
            if order is not None and NodeId(pod.name) not in order.granted:
                order.granted.append(NodeId(pod.name))
                order.refused = min(order.refused, order.asked - len(order.granted))
            if pod.name in self._joined_s:
                self.join(pod.name, self._joined_s[pod.name])
        record.pod = pod if pod.trouble else replace(pod, trouble=record.pod.trouble)
        self._judge_boot(record, pod, now_s)
        if record.ended_s is None and (
            pod.phase is PodPhase.ENDED or (pod.ends is not None and record.released_s is not None)
        ):
            record.ended_s = now_s
        elif pod.ends is not None and record.ended_s is None:
            self.notice({pod.name: now_s + max(0.0, pod.ends - self._wall())})

    def _judge_boot(self, record: PodRecord, pod: Pod, now_s: float) -> None:
        """A container that does not start keeps its machine, and Kubernetes tries for ever."""
        if not pod.trouble or record.machine.ready_s is not None or record.is_over:
            record.stuck_s = None
            return
        record.stuck_s = now_s if record.stuck_s is None else record.stuck_s
        if now_s - record.stuck_s >= STUCK_S:
            record.is_given_up = True
            self.release([NodeId(pod.name)])

    def _machines(self) -> list[Machine]:
        now_s = self._clock()
        return [
            record.machine
            for record in self.records.values()
            if record.ended_s is None and (record.released_s is None or now_s - record.released_s >= RETRY_S)
        ]

    def _next(self, group: WorkerGroup) -> WorkerGroup:
        """The group as it should be."""
        there = {pod.name for pod in self._pods}
        group = replace(group, named=tuple(name for name in group.named if name in there))
        share = self._share(group)
        group, share = self._without_ended(group, share)
        group, share = self._without_hopeless(group, share)
        group, share = self._with_requests(group, share)
        group, share = self._without_spares(group, share)
        share = self._with_lease(share)
        is_over = self._closing and not share.replicas
        is_needed = share.replicas or self._orders or self.alive()
        return group.with_share(self._purpose.run, None if is_over or not is_needed else share)

    def _without_ended(self, group: WorkerGroup, share: RunShare) -> tuple[WorkerGroup, RunShare]:
        """Released pods are deleted by name; KubeRay replaces those that ended by themselves."""
        there = {pod.name for pod in self._pods}
        share = replace(share, booked=tuple(name for name in share.booked if name in there))
        for name, record in self.records.items():
            token = record.machine.token
            if record.is_booked or (record.released_s is None and record.ended_s is None):
                continue
            if record.ended_s is None:
                group = group.less(1, [name])
            elif token in share.wants and share.wants[token].wanted:
                share = replace(share, spare=share.spare + 1)
            share = replace(share.want(token, 1), booked=(*share.booked, name))
        return group, share

    def _without_hopeless(self, group: WorkerGroup, share: RunShare) -> tuple[WorkerGroup, RunShare]:
        """Requests whose pods wait for too long, and what was refused of others."""
        now_s = self._clock()
        waiting = [pod for pod in self._unclaimed() if pod.phase is PodPhase.WAITING]
        for order in self._orders.values():
            known = share.wants.get(order.token)
            if known is None:
                continue
            waited_s = now_s - order.since_s
            if order.open and waited_s > self._purpose.most_wait_s:
                why = waiting[0].reason if waiting else "no pod was made"
                order.refuse(order.open, f"waited for {waited_s / 60:.0f} min ({why or 'no reason given'})")
            held = sum(not self.records[node].is_over for node in order.granted)
            group, dropped = self._drop(group, known.wanted - order.open - held)
            share = share.want(order.token, dropped)
        return group, share

    def _drop(self, group: WorkerGroup, most: int) -> tuple[WorkerGroup, int]:
        """Up to so many replicas less, with the names of pods that no run has claimed; without a name only
        those for which there is no pod."""
        there = [pod for pod in self._pods if is_counted(pod) and pod.name not in group.named]
        free = [pod for pod in there if pod.run is None]
        free.sort(key=lambda pod: (pod.ends is None, pod.phase is not PodPhase.WAITING))
        named = [pod.name for pod in free[: max(0, most)]]
        count = min(max(0, most), len(named) + max(0, group.replicas - len(there)))
        return (group.less(count, named), count) if count else (group, 0)

    def _with_requests(self, group: WorkerGroup, share: RunShare) -> tuple[WorkerGroup, RunShare]:
        if (self._lease_s() or 0.0) <= 0.0 or self._closing:
            return group, share
        for order in self._orders.values():
            if not order.open or order.token in share.wants:
                continue
            taken = min(share.spare, order.open)
            room = max(0, group.most - group.replicas)
            order.refuse(order.open - taken - room, f"the group has at most {group.most} replicas")
            if order.open:
                group = replace(group, replicas=group.replicas + order.open - taken)
                wants = {**share.wants, order.token: Want(asked=order.asked, wanted=order.open)}
                share = replace(share, spare=share.spare - taken, wants=wants)
                order.since_s = self._clock()
        return group, share

    def _without_spares(self, group: WorkerGroup, share: RunShare) -> tuple[WorkerGroup, RunShare]:
        now_s = self._clock()
        others = sum(each.replicas for run, each in group.shares.items() if run != self._purpose.run)
        absent = others + share.replicas - group.replicas  # another client has lowered the replicas
        share = replace(share, spare=max(0, share.spare - max(0, absent)))
        if not share.spare:
            self._spare_since_s = None
            return group, share
        self._spare_since_s = now_s if self._spare_since_s is None else self._spare_since_s
        if not self._closing and now_s - self._spare_since_s < SPARE_S:
            return group, share
        group, dropped = self._drop(group, share.spare)
        return group, replace(share, spare=share.spare - dropped)

    def _with_lease(self, share: RunShare) -> RunShare:
        """Renewed early enough, and shortened at once."""
        lease_s = self._lease_s()
        if lease_s is None:
            return share
        expires = self._wall() + min(lease_s, LEASE_S)
        is_fresh = share.expires is not None and -1.0 <= expires - share.expires < RENEW_S
        return share if is_fresh else replace(share, expires=expires)
