"""The provider as a real run sees it.

A machine that is up is no node yet: its agent and the slot processes have to be warm. So the readiness of a
node is told by the body, and here only which machines are up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from elastune.core.events import NodesReady
from elastune.place import NodeId
from elastune.providers.rays import RayProvider
from elastune.providers.watcher import Belief, NodeEvent, Watcher

# How often the provider is asked: while something is under way, and else.
_BUSY_S = 0.05
_QUIET_S = 0.5


class Machines:
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
        self._open -= {fate.token for fate in survey.fates if not fate.open}
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
