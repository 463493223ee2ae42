"""The simulated provider as the driver sees it, on the clock of the run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from elastune.bodies.simulated.faults import Faults
from elastune.cluster import ClusterTerms
from elastune.core import events as ev
from elastune.place import NodeId
from elastune.providers.protocol import Machine, Survey
from elastune.providers.simulated import SimulatedProvider
from elastune.providers.watcher import Belief, NodeEvent, Watcher


class Cloud:
    """Its own clock is ahead of the run's by `down_s`, the time for which the driver was down in all."""

    def __init__(
        self, terms: ClusterTerms, *, seed: int, faults: Faults, run_clock: Callable[[], float]
    ) -> None:
        self.down_s = 0.0
        self._run_clock = run_clock
        self.provider = SimulatedProvider(
            terms, seed=seed, clock=lambda: run_clock() + self.down_s, faults=faults.nodes
        )
        self._watcher = Watcher(billed_s=self.provider.billed_s)

    def request(self, request: int, count: int) -> None:
        self.provider.request(self._watcher.expect(request), count)

    def release(self, nodes: tuple[NodeId, ...]) -> None:
        self._watcher.release(nodes)
        self.provider.release(nodes)

    def next_news_s(self) -> float | None:
        """When there will be something to tell, by the run's clock."""
        change_s = self.provider.next_change_s()
        if change_s is None:
            return None
        at_s = max(self._run_clock(), change_s - self.down_s)
        while at_s + self.down_s < change_s:  # rounding must not let us look a moment too early, for ever
            at_s = math.nextafter(at_s, math.inf)
        return at_s

    def look(self) -> Sequence[NodeEvent]:
        """What is new."""
        return self._watcher.observe(self._survey(), self._run_clock())

    def come_back(self, down_s: float, belief: Belief) -> tuple[ev.Resumed, Sequence[NodeEvent]]:
        """A new driver looks around after `down_s`; `belief` is what it knows of nodes from its journal."""
        died_s = self._run_clock() + self.down_s
        self.down_s += down_s
        self._watcher = Watcher(belief, billed_s=self.provider.billed_s)
        news = self.look()
        known = {machine.node for machine in belief.machines}
        lost = [event for event in news if isinstance(event, ev.NodeLost) and event.node in known]
        ends = {node: self.provider.ended_s(node) for node in sorted(belief.gone)}
        unreleased = [node for node, ended_s in ends.items() if ended_s is not None and ended_s > died_s]
        nodes = [*(event.node for event in lost), *unreleased]
        billed = tuple((node, self.provider.billed_s(node)) for node in nodes)
        others = [event for event in news if event not in lost]
        return ev.Resumed(at_s=self._run_clock(), down_s=down_s, lost=billed), others

    def _survey(self) -> Survey:
        """On the run's clock."""
        survey = self.provider.survey()
        if not self.down_s:
            return survey
        machines = tuple(self._on_run_clock(machine) for machine in survey.machines)
        return replace(survey, at_s=survey.at_s - self.down_s, machines=machines)

    def _on_run_clock(self, machine: Machine) -> Machine:
        return replace(
            machine,
            since_s=machine.since_s - self.down_s,
            ready_s=None if machine.ready_s is None else machine.ready_s - self.down_s,
            until_s=None if machine.until_s is None else machine.until_s - self.down_s,
        )
