"""An existing Ray cluster as a fixed pool of nodes: machines are lent to the run, not started or ended."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from elastune.errors import InvariantError
from elastune.model.ids import NodeId
from elastune.providers.local.roster import Roster
from elastune.providers.protocol import ProviderSetting, Survey
from elastune.providers.ray_cluster import FinalCheck, RayMembership, RayProviderBase, noticed_nodes

_FRESH_S = 0.5
"""A survey reuses a listing of the cluster that is younger than this."""


class AttachedProvider(RayProviderBase):
    """Grants the Ray nodes that have what a node of the job needs, and takes them back.

    Only totals count: other work on the cluster is not seen, nor are the nodes granted to another run. A Ray
    node that is granted again gets a new name. A drained one, by the watchdog of a spot machine or by hand,
    is under notice and not granted any more.
    """

    def __init__(
        self, setting: ProviderSetting, address: str, *, slot_gpus: int = 0, slot_cpus: int = 1
    ) -> None:
        super().__init__(setting, slot_cpus, slot_gpus)
        self._address = address
        self._roster = Roster()
        self._fitting: tuple[str, ...] = ()
        self._noticed_s: dict[str, float] = {}
        self._looked_s: float | None = None
        self._membership: RayMembership | None = None

    def open(self) -> None:
        self._membership = RayMembership(self._address)

    def close(self) -> None:
        if self._membership is not None:
            self._membership.leave()
        self._membership = None

    def request(self, token: str, count: int) -> None:
        now_s = self._look()
        free = [name for name in self._lendable if name not in self._roster.ray_nodes]
        room, reason = min(self._limits(len(free)))
        nodes = self._roster.order(token, count, room=room, reason=reason)
        if not nodes:
            return
        self._roster.begin(token, now_s)
        self._roster.start(token, nodes)
        for node, name in zip(nodes, free, strict=False):
            self._roster.come_up(node, name, now_s)

    def survey(self) -> Survey:
        now_s = self._setting.clock()
        if self._looked_s is None or abs(now_s - self._looked_s) >= _FRESH_S:
            now_s = self._look()
        survey = self._roster.survey(now_s)
        until_s = {self._roster.node_of(name): at_s for name, at_s in self._noticed_s.items()}
        machines = (replace(machine, until_s=until_s.get(machine.node)) for machine in survey.machines)
        return replace(survey, machines=tuple(machines))

    def release(self, nodes: Collection[NodeId]) -> None:
        self._roster.drop(nodes)

    @property
    def broken(self) -> str | None:
        """Nodes may join the cluster again at any time."""
        return None

    def ray_node(self, node: NodeId) -> str | None:
        return self._roster.ray_node(node)

    @property
    def is_elsewhere(self) -> bool:
        """Whether a node that fits is on another machine than the Ray node this process is connected to."""
        import ray  # noqa: PLC0415

        self._look()
        home = ray.get_runtime_context().get_node_id()
        return _spreads([node for node in ray.nodes() if node["NodeID"] in {*self._fitting, home}])

    def final_check(self) -> FinalCheck | None:
        """Nothing was started, so nothing has to end."""
        return None

    @property
    def pids(self) -> tuple[int, ...]:
        """No process of the cluster is ours."""
        return ()

    @property
    def _lendable(self) -> tuple[str, ...]:
        return tuple(name for name in self._fitting if name not in self._noticed_s)

    def _limits(self, free: int) -> Iterable[tuple[int, str]]:
        cpus, gpus = self.resources()
        most, fitting = self._setting.terms.max_nodes, len(self._lendable)
        need = " and ".join(
            f"{amount:g} {kind}" for amount, kind in ((cpus, "CPUs"), (gpus, "GPUs")) if amount
        )
        yield most - self._roster.held, f"at most {most} nodes"
        yield free, f"the Ray cluster has {fitting} nodes of at least {need}, {fitting - free} of them taken"

    def _look(self) -> float:
        """List the cluster's nodes. Those that are dead or no longer fit are gone."""
        if self._membership is None:
            raise InvariantError(
                "the attached provider is not open: call open() before, nothing after close()"
            )
        import ray  # noqa: PLC0415

        needed = dict(zip(("CPU", "GPU"), self.resources(), strict=True))
        fitting = (node["NodeID"] for node in ray.nodes() if node["Alive"] and _fits(node, needed))
        self._fitting = tuple(sorted(fitting))
        lost = [name for name in self._roster.ray_nodes if name not in self._fitting]
        self._roster.drop([node for name in lost if (node := self._roster.node_of(name)) is not None])
        self._looked_s = self._setting.clock()
        # The first reading stays: the same deadline, read twice, differs by the clocks' rounding.
        self._noticed_s = noticed_nodes(self._looked_s) | self._noticed_s
        return self._looked_s


def _spreads(nodes: Iterable[Mapping[str, Any]]) -> bool:
    """Whether these are on more than one machine."""
    machines = {(node.get("NodeManagerAddress"), node.get("NodeManagerHostname")) for node in nodes}
    return len(machines) > 1


def _fits(node: Mapping[str, Any], needed: Mapping[str, float]) -> bool:
    return all(node["Resources"].get(kind, 0.0) >= amount for kind, amount in needed.items())
