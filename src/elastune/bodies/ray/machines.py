"""The provider as a real run sees it: its surveys, told as events of the run.

A machine that is up is no node yet: its agent and the slot processes have to be warm. So the readiness of a
node is told by the body, and here only which machines are up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from elastune.core import AnyEvent
from elastune.core import events as ev
from elastune.place import NodeId
from elastune.providers import Belief, Machine, Watcher
from elastune.providers import facts as seen
from elastune.providers.rays import RayProvider

# How often the provider is asked: while something is under way, and else.
_BUSY_S = 0.05
_QUIET_S = 0.5


class Machines:
    def __init__(
        self, provider: RayProvider, clock: Callable[[], float], belief: Belief | None = None
    ) -> None:
        self.provider = provider
        self._clock = clock
        self._watcher = Watcher(belief)
        self._machines: dict[NodeId, Machine] = {}
        self._open: set[str] = set()
        self._up: list[NodeId] = []
        self._next_s = 0.0

    def request(self, request: int, count: int) -> None:
        self._watcher.expect(str(request))
        self._open.add(str(request))
        self.provider.request(str(request), count)
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

    def look(self) -> Iterator[AnyEvent]:
        """What is new; machines that came up are in `came_up` afterwards."""
        if self.due_s() > 0.0:
            return
        survey = self.provider.survey()
        self._machines |= {machine.node: machine for machine in survey.machines}
        self._open -= {fate.token for fate in survey.fates if not fate.open}
        facts = self._watcher.observe(survey)
        booting = any(machine.ready_s is None for machine in survey.machines)
        self._next_s = self._clock() + (_BUSY_S if booting or self._open else _QUIET_S)
        for fact in facts:
            yield from self._tell(fact)

    def came_up(self) -> list[NodeId]:
        up, self._up = self._up, []
        return up

    @property
    def is_waiting(self) -> bool:
        """Whether nodes are asked for and not answered, or held."""
        return bool(self._open or self._watcher.belief.machines)

    def _tell(self, fact: seen.Fact) -> Iterator[AnyEvent]:
        now_s = self._clock()
        match fact:
            case seen.Granted(token=token, nodes=nodes, usd_per_hour=usd):
                for node in nodes:
                    yield ev.NodesGranted(
                        at_s=now_s,
                        request=int(token),
                        nodes=(node,),
                        billed_s=self._billed_s(node),
                        usd_per_hour=usd,
                    )
            case seen.Refused(token=token, count=count, reason=reason):
                yield ev.NodesRefused(at_s=now_s, request=int(token), count=count, reason=reason)
            case seen.Ready(nodes=nodes):
                self._up.extend(nodes)
            case seen.Noticed(node=node, until_s=until_s):
                yield ev.NodeNoticed(at_s=now_s, node=node, until_s=until_s)
            case seen.Lost(node=node):
                yield ev.NodeLost(at_s=now_s, node=node, billed_s=self.provider.billed_s(node))
            case seen.Orphaned(node=node):
                machine = self._machines.get(node)
                yield ev.NodeFound(
                    at_s=now_s,
                    node=node,
                    billed_s=self._billed_s(node),
                    usd_per_hour=None if machine is None else machine.usd_per_hour,
                )

    def _billed_s(self, node: NodeId) -> float:
        told = self.provider.billed_s(node)
        if told is not None:
            return told
        machine = self._machines.get(node)
        return 0.0 if machine is None else max(0.0, self._clock() - machine.since_s)
