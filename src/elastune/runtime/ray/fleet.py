"""All nodes, as the driver sees them: orders go out in one message per node, news come in.

What the driver knows of a gang.

Where the newest model of every trial is, as far as the driver knows: by name, not the bytes.

The provider as a real run sees it.

A machine that is up is no node yet: its agent and the slot processes have to be warm. So the readiness of a
node is told by the body, and here only which machines are up.

The run's clock, which stands still while the driver is down, and the machine's, which does not.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Container, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from elastune.core.commands import Train
from elastune.core.events import NodesReady
from elastune.model.ids import NodeId, Slot, TrialId
from elastune.providers.ray_cluster import RayProvider
from elastune.providers.watcher import Belief, NodeEvent, Watcher
from elastune.runtime.ray.messages import Bring, GangId, Model, News, Order, Sealed
from elastune.runtime.ray.node_connections import Inbox, NodeConnection, Outcome, SlotShare, connect

# Three times what a poll takes at most.
_SILENCE_S = 90.0


class Dispatch(NamedTuple):
    """News from a node; `offset` takes its clock to ours. None: nobody is there any more."""

    node: NodeId
    offset: float
    news: News | None
    error: str = ""


class NodeFleet:
    """`share`: of every node alike."""

    def __init__(self, share: SlotShare) -> None:
        self._share = share
        self._connections: dict[NodeId, NodeConnection] = {}
        self._orders: dict[NodeId, list[tuple[int, Order | Bring]]] = {}
        self._inbox = Inbox()
        self._looked = time.monotonic()

    def __contains__(self, node: NodeId) -> bool:
        return node in self._connections

    def start(self, node: NodeId, ray_node: str, sealed: Sealed) -> None:
        """Start the slots of that node. They tell when they are ready."""
        self._connections[node] = connect(node, ray_node, sealed, self._share, self._inbox)

    def stop(self, node: NodeId) -> None:
        """End all processes there."""
        connection = self._forget(node)
        if connection is not None:
            connection.stop()

    def close(self) -> None:
        """End all that is left, whatever state Ray is in: slots at home would outlive its connection."""
        for node in tuple(self._connections):
            with contextlib.suppress(Exception):
                self.stop(node)

    def order(self, slot: Slot, order: Order | Bring) -> None:
        """Goes out with the next `send`; to a node that is gone, nowhere."""
        if slot.node in self._connections:
            self._orders.setdefault(slot.node, []).append((slot.number, order))

    def order_all(self, order: Order) -> int:
        """To every node that was heard of, not to a slot; returns to how many."""
        nodes = [node for node, connection in self._connections.items() if connection.offset is not None]
        for node in nodes:
            self._orders.setdefault(node, []).append((0, order))
        return len(nodes)

    def send(self) -> None:
        orders, self._orders = self._orders, {}
        for node, some in orders.items():
            if node in self._connections:
                self._connections[node].send(some)

    def clock_of(self, node: NodeId) -> float:
        """What to add to our monotonic clock to get that node's."""
        connection = self._connections.get(node)
        return 0.0 if connection is None or connection.offset is None else -connection.offset

    def receive(self, timeout_s: float) -> Iterator[Dispatch]:
        """What has come in, waiting for the first of it at most so long."""
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
        with contextlib.suppress(Exception):  # whatever is left of it; mostly nothing is
            self.stop(connection.node)
        return Dispatch(connection.node, 0.0, None, _first_line(error))

    def _silent(self) -> Iterator[Dispatch]:
        """A poll returns after a while even if there is nothing to tell."""
        now = time.monotonic()
        were_stopped = now - self._looked > _SILENCE_S  # ourselves: nobody could be heard
        self._looked = now
        for connection in tuple(self._connections.values()):
            if connection.heard is None:
                continue
            if were_stopped:
                connection.heard = now
            elif now - connection.heard > _SILENCE_S:
                self.stop(connection.node)
                yield Dispatch(connection.node, 0.0, None, f"nothing was heard of it for {_SILENCE_S:.0f} s")

    def _forget(self, node: NodeId) -> NodeConnection | None:
        self._orders.pop(node, None)
        return self._connections.pop(node, None)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"


# Its slots may have to be started anew and to import everything.
_FORMING_PATIENCE_S = 120.0


class RealGang:
    def __init__(self, lease: Train, now_s: float, patience_s: float) -> None:
        """`patience_s`: how long nothing may be heard of it once it trains."""
        self.lease = lease
        self.id = GangId(lease.trial, lease.generation)
        self.busy = True
        """It forms, trains or saves: something is to be heard of it before long."""
        self.heard_s = now_s
        self.patience_s = max(patience_s, _FORMING_PATIENCE_S)
        self._training_patience_s = patience_s
        self.awaits: NodeId | None = None
        """The node from which its model has to come, until it is there."""

    def started(self) -> None:
        self.patience_s = self._training_patience_s
        self.awaits = None

    def is_hung(self, now_s: float) -> bool:
        return self.busy and now_s - self.heard_s > self.patience_s


class ModelPlace(NamedTuple):
    model: Model
    slot: Slot


class ModelPlaces:
    """One per trial: the one before is given up when the next comes."""

    def __init__(self) -> None:
        self._lodged: dict[TrialId, ModelPlace] = {}

    def lodge(self, model: Model, slot: Slot) -> bool:
        """The newest of its trial; returns whether it came from another slot."""
        trial = TrialId(model.trial)
        before = self._lodged.get(trial)
        self._lodged[trial] = ModelPlace(model, slot)
        return before is not None and before.slot != slot

    def find(self, lease: Train) -> ModelPlace | None:
        """The model that a visit goes on with, and where it is; None: only the store has it."""
        visits = 0 if lease.visit is None else lease.visit.done
        owner = lease.trial if lease.origin is None or visits else lease.origin
        lodged = self._lodged.get(owner)
        if lodged is None or (lodged.model.iteration, lodged.model.visits) != (lease.after_iteration, visits):
            return None
        return lodged

    def newest(self, trial: TrialId, *, elsewhere_than: Slot | None = None) -> Model | None:
        """If it has to hop to get there."""
        lodged = self._lodged.get(trial)
        return None if lodged is None or lodged.slot == elsewhere_than else lodged.model

    def forget(self, trial: TrialId) -> None:
        self._lodged.pop(trial, None)

    def forget_node(self, node: NodeId) -> None:
        """What lay there is gone; where it is durable, the store has it."""
        for trial in [trial for trial, lodged in self._lodged.items() if lodged.slot.node == node]:
            del self._lodged[trial]

    def forget_others(self, living: Container[TrialId]) -> None:
        """Nobody goes on with the models of trials that are over."""
        for trial in [trial for trial in self._lodged if trial not in living]:
            del self._lodged[trial]


# How often the provider is asked: while something is under way, and else.
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
        return tuple(
            dict.fromkeys(
                each[key] for each in found for key in ("NodeManagerAddress", "NodeManagerHostname")
            )
        )

    def due_s(self) -> float:
        """How long until the next look."""
        return max(0.0, self._next_s - self._clock())

    def look(self) -> Iterator[NodeEvent]:
        """What is new; machines that came up are in `came_up` afterwards."""
        if self.due_s() > 0.0:
            return
        survey = self.provider.survey()
        self._open -= {fate.token for fate in survey.requests if not fate.open}
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
        """Whether nodes are asked for and not answered, or held."""
        return bool(self._open or self._watcher.belief.machines)


@dataclass(slots=True)
class RunClock:
    """`origin` is the monotonic time at which the run's clock showed 0."""

    origin: float

    @classmethod
    def starting_at(cls, now_s: float = 0.0) -> RunClock:
        return cls(time.monotonic() - now_s)

    def restart(self, now_s: float = 0.0) -> None:
        """What has passed so far does not count: the cluster was being started."""
        self.origin = time.monotonic() - now_s

    def __call__(self) -> float:
        return time.monotonic() - self.origin

    def of(self, monotonic: float) -> float:
        return monotonic - self.origin

    def monotonic(self, at_s: float) -> float:
        return at_s + self.origin
