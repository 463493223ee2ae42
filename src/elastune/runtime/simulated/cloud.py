"""Faults of a simulated run, and the simulated provider as the driver sees it, on the run's clock.

On the command line: `--faults mild`, `--faults harsh`, `--faults lost_per_hour=0.2,refused=0.1,crash=0.02`,
or a preset and what differs from it: `--faults mild,crash=0.5`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from elastune.core import events as ev
from elastune.errors import JobError
from elastune.model.cluster import ClusterTerms
from elastune.model.ids import NodeId
from elastune.providers.protocol import Machine, Survey
from elastune.providers.simulated import SimulatedProvider
from elastune.providers.simulated_faults import NodeFaults
from elastune.providers.watcher import Belief, NodeEvent, Watcher
from elastune.wording import nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Beside the nodes, the user's code may crash and the driver may go down."""

    nodes: NodeFaults = field(default_factory=NodeFaults)
    crash: float = 0.0
    """Probability that a gang's training crashes once, at some iteration of its first lease."""
    killed: float = 0.0
    """Probability that a worker of a gang is killed from outside, likewise; not the fault of the trial."""
    driver_per_hour: float = 0.0
    """Rate at which the driver dies and is resumed from its journal."""
    driver_down_s: float = 60.0
    """How long it is down, on average."""

    def __post_init__(self) -> None:
        for name in ("crash", "killed"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise JobError(f"faults: {name} is {getattr(self, name)}, expected a probability from 0 to 1")
        for name in ("driver_per_hour", "driver_down_s"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise JobError(f"faults: {name} is {getattr(self, name)}, expected 0 or more")


NO_FAULTS = Faults()
_OWN = tuple(each.name for each in dataclasses.fields(Faults) if each.name != "nodes")
_KNOWN = (*_OWN, *(each.name for each in dataclasses.fields(NodeFaults)))
PRESETS = {
    "none": NO_FAULTS,
    "mild": Faults(
        nodes=NodeFaults(lost_per_hour=0.02, noticed_per_hour=0.05, refused=0.02, straggler=0.02), crash=0.005
    ),
    "harsh": Faults(
        nodes=NodeFaults(
            lost_per_hour=0.3,
            noticed_per_hour=0.3,
            refused=0.2,
            boot_failure=0.03,
            straggler=0.1,
            straggler_factor=3.0,
        ),
        crash=0.05,
        driver_per_hour=0.2,
    ),
}


def parse_faults(text: str) -> Faults:
    """From a preset's name, `key=value,...`, or a preset and what differs from it: `mild,crash=0.5`."""
    first, *others = (part.strip() for part in text.split(","))
    if first in PRESETS:
        return _changed(PRESETS[first], _read(others))
    return _changed(NO_FAULTS, _read([first, *others]))


def write_faults(faults: Faults) -> str:
    """The shortest text that `parse_faults` reads as these faults."""
    values = _flat(faults)
    ways: list[str] = []
    for name, preset in PRESETS.items():
        usual = _flat(preset)
        changes = [f"{key}={value}" for key, value in values.items() if value != usual[key]]
        ways.append(",".join(changes if changes and preset == NO_FAULTS else [name, *changes]))
    return min((way for way in ways if "=None" not in way), key=len)


def _flat(faults: Faults) -> dict[str, float | None]:
    return {name: getattr(faults, name) for name in _OWN} | dataclasses.asdict(faults.nodes)


def _read(parts: Iterable[str]) -> dict[str, float]:
    given: dict[str, float] = {}
    for part in parts:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if key not in _KNOWN or not equals:
            near = nearest(key, [*_KNOWN, *PRESETS])
            hint = f" (did you mean {near}?)" if near not in (None, key) else ""
            raise JobError(
                f"--faults has {part!r}{hint}; expected {', '.join(PRESETS)}, or key=value with the keys "
                f"{', '.join(_KNOWN)}; a preset may come first: mild,crash=0.5"
            )
        if key in given:
            raise JobError(f"--faults has {key} twice; expected each key once")
        try:
            given[key] = int(value) if key == "capacity" else float(value)
        except ValueError:
            raise JobError(f"--faults: {key} is {value!r}, expected a number") from None
    return given


def _changed(faults: Faults, given: Mapping[str, float]) -> Faults:
    nodes = {key: value for key, value in given.items() if key not in _OWN}
    own = {key: value for key, value in given.items() if key in _OWN}
    return dataclasses.replace(faults, nodes=dataclasses.replace(faults.nodes, **nodes), **own)  # type: ignore[arg-type]


class SimulatedCloud:
    """Its own clock is ahead of the run's by `down_s`, the total time for which the driver was down."""

    def __init__(
        self, terms: ClusterTerms, *, seed: int, faults: Faults, run_clock: Callable[[], float]
    ) -> None:
        self.down_s = 0.0
        self._run_clock = run_clock
        self.provider = SimulatedProvider(
            terms, seed=seed, clock=lambda: run_clock() + self.down_s, faults=faults.nodes
        )
        self._watcher = Watcher(billed_s=self._billed_s)

    def request(self, request: int, count: int) -> None:
        self.provider.request(self._watcher.expect(request), count)

    def release(self, nodes: tuple[NodeId, ...]) -> None:
        self._watcher.release(nodes)
        self.provider.release(nodes)

    def next_news_s(self) -> float | None:
        """When the provider will have news, by the run's clock."""
        change_s = self.provider.next_change_s()
        if change_s is None:
            return None
        at_s = max(self._run_clock(), change_s - self.down_s)
        while at_s + self.down_s < change_s:  # rounding must not make every look a moment early
            at_s = math.nextafter(at_s, math.inf)
        return at_s

    def look(self) -> Sequence[NodeEvent]:
        return self._watcher.observe(self._survey(), self._run_clock())

    def come_back(self, down_s: float, belief: Belief) -> tuple[ev.Resumed, Sequence[NodeEvent]]:
        """The first look of a new driver after `down_s`; `belief` is what its journal says about nodes."""
        died_s = self._run_clock() + self.down_s
        self.down_s += down_s
        self._watcher = Watcher(belief, billed_s=self._billed_s)
        news = self.look()
        known = {machine.node for machine in belief.machines}
        lost = [event for event in news if isinstance(event, ev.NodeLost) and event.node in known]
        ends = {node: self.provider.ended_s(node) for node in sorted(belief.gone)}
        unreleased = [node for node, ended_s in ends.items() if ended_s is not None and ended_s > died_s]
        nodes = [*(event.node for event in lost), *unreleased]
        billed = tuple((node, self.provider.billed_s(node)) for node in nodes)
        others = [event for event in news if event not in lost]
        return ev.Resumed(at_s=self._run_clock(), down_s=down_s, lost=billed), others

    def _billed_s(self, node: NodeId) -> float | None:
        """Of the provider at the time: tests put another one in its place."""
        return self.provider.billed_s(node)

    def _survey(self) -> Survey:
        """On the run's clock."""
        survey = self.provider.survey()
        if not self.down_s:
            return survey
        machines = tuple(_earlier(machine, self.down_s) for machine in survey.machines)
        return replace(survey, at_s=survey.at_s - self.down_s, machines=machines)


def _earlier(machine: Machine, by_s: float) -> Machine:
    ready_s, until_s = (None if at is None else at - by_s for at in (machine.ready_s, machine.until_s))
    return replace(machine, since_s=machine.since_s - by_s, ready_s=ready_s, until_s=until_s)
