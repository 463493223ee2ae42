"""What a node, a gang and a save take on this machine: the profile of a job whose quote is to be fair.

Nodes of one machine boot by the same two cores, so several at once take longer than one: boots are measured
with as many at once as the plan asks for.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.runtime.journals import Timeline
from elastune.api.tuning import tune
from elastune.core import commands as do
from elastune.core import events as ev

TRAINABLE = f"{Path(__file__).with_name('weights.py')}:scaled"
SLOTS_PER_NODE = 2
_ITERATION_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """All values that were seen, in seconds."""

    queue: tuple[float, ...]
    init: tuple[float, ...]
    startup: tuple[float, ...]
    save: tuple[float, ...]

    @classmethod
    def merged(cls, parts: Iterable[Calibration]) -> Calibration:
        known = list(parts)
        return cls(
            queue=tuple(value for part in known for value in part.queue),
            init=tuple(value for part in known for value in part.init),
            startup=tuple(value for part in known for value in part.startup),
            save=tuple(value for part in known for value in part.save),
        )


def calibrate(at_once: Sequence[int], *, repeats: int = 2) -> Calibration:
    """Short real runs on so many nodes at once, with gangs of one and of two slots."""
    measured = []
    for nodes in at_once:
        for _ in range(repeats):
            measured += [_measure(nodes, trials) for trials in (SLOTS_PER_NODE * nodes, nodes)]
    return Calibration.merged(measured)


def empirical(values: Sequence[float]) -> dict[str, object]:
    """As a latency of a job."""
    return {"distribution": "empirical", "values": [round(value, 4) for value in values]}


def read(timeline: Timeline) -> Calibration:
    """Boots, starts and saves of any real run."""
    asked: dict[int, float] = {}
    granted: dict[str, float] = {}
    begun: dict[tuple[int, int], float] = {}
    formed: set[tuple[int, int]] = set()
    seen: dict[str, list[float]] = {"queue": [], "init": [], "startup": [], "save": []}
    for event, commands in timeline.steps:
        match event:
            case ev.NodesGranted():
                born_s = event.at_s - event.billed_s
                seen["queue"] += [max(0.0, born_s - asked[event.request])] * len(event.nodes)
                granted |= dict.fromkeys(event.nodes, born_s)
            case ev.NodesReady():
                seen["init"] += [event.at_s - granted[node] for node in event.nodes]
            case ev.GangStarted() if (began := begun.pop((event.trial, event.generation), None)) is not None:
                seen["startup"].append(event.at_s - began)
            case ev.TrialPaused() if (began := begun.pop((event.trial, event.generation), None)) is not None:
                seen["save"].append(event.at_s - began)
        for command in commands:
            match command:
                case do.RequestNodes():
                    asked[command.request] = event.at_s
                case do.Train() if (command.trial, command.generation) not in formed:
                    formed.add((command.trial, command.generation))
                    begun[command.trial, command.generation] = event.at_s
                case do.Pause():
                    begun[command.trial, command.generation] = event.at_s
    return Calibration(**{name: tuple(values) for name, values in seen.items()})


def _measure(nodes: int, trials: int) -> Calibration:
    job: Mapping[str, object] = {
        "trainable": TRAINABLE,
        "space": {"x": {"float": [0.0, 1.0]}, "sleep": _ITERATION_S, "scaling": 1.0},
        "metric": "score",
        "search": {"algorithm": "random", "trials": trials, "max_iterations": 3},
        "profile": {"iteration": _ITERATION_S, "speedup": {"1": 1.0, "2": 2.0}},
        "cluster": {"slots_per_node": SLOTS_PER_NODE, "nodes": nodes, "price_per_hour": 1.0},
    }
    with tempfile.TemporaryDirectory() as folder:
        tune(job, folder=folder)
        return read(Timeline.read(Path(folder)))
