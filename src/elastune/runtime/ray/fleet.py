"""The driver's view of the run: its nodes, gangs, clock and timers, and the provider.

Orders leave in one message per node. A machine that is up is not a node yet: its agent and slot processes
have to be warm. So `ProviderNodes` reports only which machines are up, and the runtime reports a node as
ready. The run's clock stands still while the driver is down; the machine's does not.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from elastune.core.commands import Train
from elastune.core.events import NodesReady
from elastune.model.ids import NodeId, Slot
from elastune.providers.ray_cluster import RayProvider
from elastune.providers.watcher import Belief, NodeEvent, Watcher
from elastune.runtime.ray.messages import DropModel, GangId, News, NodeOrder, Order, Sealed
from elastune.runtime.ray.node_connections import Inbox, NodeConnection, Outcome, SlotShare, connect

# Three times what a poll takes at most.
_SILENCE_S = 90.0
_FIRST_SILENCE_S = 600.0
"""Before its first message: Ray starts the agent, which on a busy machine takes minutes. The core gives up
nodes that do not come up; this is for those that were up when the driver began anew."""


# How long models that are not needed any more may stay where they are.
_DROPS_S = 0.2


class Dispatch(NamedTuple):
    """A message from a node; `offset` converts its clock to ours. `news` None: the node is gone."""

    node: NodeId
    offset: float
    news: News | None
    error: str = ""


class NodeFleet:
    """`share`: the same of every node."""

    def __init__(self, share: SlotShare) -> None:
        self._share = share
        self._connections: dict[NodeId, NodeConnection] = {}
        self._orders: dict[NodeId, list[tuple[int, NodeOrder]]] = {}
        self._inbox = Inbox()
        self._looked = time.monotonic()
        self._idle_until = 0.0

    def __contains__(self, node: NodeId) -> bool:
        return node in self._connections

    def start(self, node: NodeId, ray_node: str, sealed: Sealed) -> None:
        """Start the slots of that node; each reports `SlotReady`."""
        self._connections[node] = connect(node, ray_node, sealed, self._share, self._inbox)

    def stop(self, node: NodeId) -> None:
        self._orders.pop(node, None)
        connection = self._connections.pop(node, None)
        if connection is not None:
            connection.stop()

    def close(self) -> None:
        """End all that is left, also if Ray is down: slots of the driver's node would outlive it."""
        for node in tuple(self._connections):
            with contextlib.suppress(Exception):
                self.stop(node)

    def order(self, slot: Slot, order: NodeOrder) -> None:
        """Sent by the next `send`; dropped if the node is gone."""
        if slot.node in self._connections:
            self._orders.setdefault(slot.node, []).append((slot.number, order))

    def order_all(self, order: Order) -> int:
        """To every node that has answered, not to a slot; returns how many."""
        nodes = [node for node, connection in self._connections.items() if connection.offset is not None]
        for node in nodes:
            self._orders.setdefault(node, []).append((0, order))
        return len(nodes)

    def send(self) -> None:
        """Models that are not needed any more wait a while for other orders to the same node."""
        now = time.monotonic()
        orders, self._orders = self._orders, {}
        for node, some in orders.items():
            if node not in self._connections:
                continue
            if now < self._idle_until and all(isinstance(order, DropModel) for _, order in some):
                self._orders[node] = some
            else:
                self._connections[node].send(some)
        if now >= self._idle_until:
            self._idle_until = now + _DROPS_S

    def clock_of(self, node: NodeId) -> float:
        """What to add to our monotonic clock to get that node's."""
        connection = self._connections.get(node)
        return 0.0 if connection is None or connection.offset is None else -connection.offset

    def receive(self, timeout_s: float) -> Iterator[Dispatch]:
        """What has arrived; waits at most `timeout_s` for the first message."""
        for connection, outcome in self._inbox.take(timeout_s):
            if self._connections.get(connection.node) is connection:
                yield from self._open(connection, outcome)
        yield from self._silent()

    def _open(self, connection: NodeConnection, outcome: Outcome) -> Iterator[Dispatch]:
        import ray  # noqa: PLC0415

        if isinstance(outcome, Exception):
            yield self._gone(connection, outcome)
            return
        try:
            connection.listen()
        except ray.exceptions.RayError as error:
            yield self._gone(connection, error)
            return
        for each in outcome:
            yield Dispatch(connection.node, connection.offset or 0.0, each)

    def _gone(self, connection: NodeConnection, error: Exception) -> Dispatch:
        with contextlib.suppress(Exception):  # mostly nothing is left to stop
            self.stop(connection.node)
        return Dispatch(connection.node, 0.0, None, _first_line(error))

    def _silent(self) -> Iterator[Dispatch]:
        """A poll returns after a while even if there is no news."""
        now = time.monotonic()
        were_stopped = now - self._looked > _SILENCE_S  # this process stood still
        self._looked = now
        for connection in tuple(self._connections.values()):
            if connection.heard is None:
                continue
            patience_s = _FIRST_SILENCE_S if connection.offset is None else _SILENCE_S
            if were_stopped:
                connection.heard = now
            elif now - connection.heard > patience_s:
                self.stop(connection.node)
                yield Dispatch(connection.node, 0.0, None, f"no message for {patience_s:.0f} s")


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


# Its slots may have to be restarted and import everything.
_FORMING_PATIENCE_S = 120.0


class RealGang:
    def __init__(self, lease: Train, now_s: float, patience_s: float) -> None:
        """`patience_s`: how long it may be silent once it trains."""
        self.lease = lease
        self.id = GangId(lease.trial, lease.generation)
        self.busy = True
        """It forms, trains or saves, so a message is expected."""
        self.heard_s = now_s
        self.patience_s = max(patience_s, _FORMING_PATIENCE_S)
        self._training_patience_s = patience_s
        self.awaits: NodeId | None = None
        """The node that its model comes from, until the model has arrived."""

    def started(self) -> None:
        self.patience_s = self._training_patience_s
        self.awaits = None

    def be_patient(self, patience_s: float) -> None:
        """Another lease may need more patience."""
        self.patience_s = self._training_patience_s = max(patience_s, self._training_patience_s)

    def is_hung(self, now_s: float) -> bool:
        return self.busy and now_s - self.heard_s > self.patience_s


# How often the provider is asked: while a request or a boot is under way, and otherwise.
_BUSY_S = 0.05
_QUIET_S = 0.5


class ProviderNodes:
    def __init__(
        self, provider: RayProvider, clock: Callable[[], float], belief: Belief | None = None
    ) -> None:
        self.provider = provider
        self._clock = clock
        self._watcher = Watcher(belief, billed_s=provider.billed_s)
        self._open: set[str] = set()
        self._up: list[NodeId] = []
        self._next_s = 0.0

    def request(self, request: int, count: int) -> None:
        token = self._watcher.expect(request)
        self._open.add(token)
        self.provider.request(token, count)
        self._next_s = 0.0

    def release(self, nodes: Collection[NodeId]) -> None:
        self._watcher.release(nodes)
        self.provider.release(nodes)
        self._next_s = 0.0

    def host_names(self, node: NodeId) -> tuple[str, ...]:
        """The address and the name of the machine that a node is on."""
        import ray  # noqa: PLC0415

        name = self.provider.ray_node(node)
        found = (each for each in ray.nodes() if each["NodeID"] == name)
        keys = ("NodeManagerAddress", "NodeManagerHostname")
        return tuple(dict.fromkeys(each[key] for each in found for key in keys))

    def due_s(self) -> float:
        """How long until the next look."""
        return max(0.0, self._next_s - self._clock())

    def look(self) -> Iterator[NodeEvent]:
        """News since the last look; machines that came up are in `came_up` afterwards."""
        if self.due_s() > 0.0:
            return
        survey = self.provider.survey()
        self._open -= {status.token for status in survey.requests if not status.open}
        events = self._watcher.observe(survey, self._clock())
        booting = any(machine.ready_s is None for machine in survey.machines)
        self._next_s = self._clock() + (_BUSY_S if booting or self._open else _QUIET_S)
        for event in events:
            if isinstance(event, NodesReady):
                self._up.extend(event.nodes)
            else:
                yield event

    def came_up(self) -> list[NodeId]:
        up, self._up = self._up, []
        return up

    @property
    def is_waiting(self) -> bool:
        """Whether a request is open or nodes are held."""
        return bool(self._open or self._watcher.belief.machines)


@dataclass(slots=True)
class RunClock:
    """`origin` is the monotonic time at which the run's clock showed 0."""

    origin: float

    @classmethod
    def starting_at(cls, now_s: float = 0.0) -> RunClock:
        return cls(time.monotonic() - now_s)

    def restart(self, now_s: float = 0.0) -> None:
        """The time until now, in which the cluster started, does not count."""
        self.origin = time.monotonic() - now_s

    def __call__(self) -> float:
        return time.monotonic() - self.origin

    def of(self, monotonic: float) -> float:
        return monotonic - self.origin

    def monotonic(self, at_s: float) -> float:
        return at_s + self.origin


class RunTimers:
    """In the order in which they are due; `fresh` ones fire after all rows up to now are reported.

    Timers that were moved or cancelled do not fire.
    """

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self._fresh: set[str] = set()
        self._queue: list[tuple[float, int, str]] = []
        self._order = itertools.count()

    def set(self, timer: str, at_s: float, *, fresh: bool) -> None:
        self._at[timer] = at_s
        (self._fresh.add if fresh else self._fresh.discard)(timer)
        heapq.heappush(self._queue, (at_s, next(self._order), timer))

    def cancel(self, timer: str) -> None:
        self._at.pop(timer, None)

    def next_s(self) -> float | None:
        return self._queue[0][0] if self._queue else None

    def take(self, now_s: float) -> tuple[str, bool] | None:
        """The next one that is due, and whether it is fresh."""
        while self._queue and self._queue[0][0] <= now_s:
            at_s, _, timer = heapq.heappop(self._queue)
            if self._at.get(timer) == at_s:
                del self._at[timer]
                return timer, timer in self._fresh
        return None
