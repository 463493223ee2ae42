"""Speeds measured from a journal: iterations by gang size, start-up, saves, boots.

Works for any run, not only for measurements, so a running run can use its own observed speed.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import itemgetter

from elastune.history.gangs import GangLife, VisitLife
from elastune.history.nodes import NodeLife
from elastune.history.recorder import history_of
from elastune.history.trials import TIMES_ONLY
from elastune.journal.records import Entry
from elastune.model.ids import TrialId

# The first iteration of a gang is slower: caches, lazy imports, the first batch.
_WARM_UP = 1


@dataclass(slots=True)
class Measurements:
    iterations: dict[int, dict[TrialId, list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    """By slots and trial."""
    startup: list[float] = field(default_factory=list)
    save: list[float] = field(default_factory=list)
    boot: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    """From the start of billing until a node is ready, by how many were asked for at once."""
    queue: list[float] = field(default_factory=list)

    @property
    def spread(self) -> float:
        """How much configurations differ in speed, at the smallest gang size that several of them had."""
        for _, by_trial in sorted(self.iterations.items()):
            means = [statistics.fmean(values) for values in by_trial.values() if values]
            if len(means) > 1:
                return statistics.stdev(means) / statistics.fmean(means)
        return 0.0

    def typical(self) -> dict[int, list[float]]:
        """Iterations by slots, scaled to the average configuration, because not every configuration was
        measured on every number of slots. `spread` has the differences."""
        paces = self._paces()
        return {
            slots: [
                seconds / paces.get(trial, 1.0) for trial, values in by_trial.items() for seconds in values
            ]
            for slots, by_trial in sorted(self.iterations.items())
        }

    def _paces(self) -> dict[TrialId, float]:
        """The time of each configuration relative to the average, at the smallest gang size."""
        _, by_trial = min(self.iterations.items(), default=(0, {}))
        means = {trial: statistics.fmean(values) for trial, values in by_trial.items() if values}
        average = statistics.fmean(means.values()) if means else 1.0
        return {trial: mean / average for trial, mean in means.items() if average > 0.0 and mean > 0.0}

    def to_dict(self) -> dict[str, object]:
        """As a job's `profile` reads it."""
        return {
            "iteration": {str(slots): values for slots, values in self.typical().items()},
            "spread": self.spread,
            "startup": self.startup or [0.0],
            "save": self.save or [0.0],
            "boot": {str(count): values for count, values in sorted(self.boot.items())},
            "queue": self.queue,
        }


def measure(entries: Iterable[Entry]) -> Measurements:
    history = history_of(entries, TIMES_ONLY)
    found = Measurements()
    ended = sorted(history.gangs, key=lambda gang: gang.until_s if gang.end else math.inf)
    for gang in ended:
        if gang.visit is None and gang.iterations_s:
            kept = gang.iterations_s[_WARM_UP:] or gang.iterations_s
            found.iterations[len(gang.gang)][gang.trial] += kept
    visits = [(gang, gang.visit) for gang in ended if gang.visit is not None and gang.end == "visited"]
    _add_starts_and_saves(found, history.gangs, visits)
    _add_epochs(found, visits)
    _add_nodes(found, history.nodes)
    return found


def _add_starts_and_saves(
    found: Measurements, gangs: Iterable[GangLife], visits: Iterable[tuple[GangLife, VisitLife]]
) -> None:
    """The time of a visit beside training and reading data is its start; for the last visit, its save."""
    starts = [(gang.started_s, gang.started_s - gang.from_s) for gang in gangs if gang.started_s is not None]
    saves = [
        (gang.until_s, gang.until_s - gang.save_from_s)
        for gang in gangs
        if gang.end == "paused" and gang.save_from_s is not None
    ]
    for gang, visit in visits:
        other_s = max(0.0, gang.until_s - gang.from_s - visit.seconds - visit.load_s)
        (saves if gang.rows else starts).append((gang.until_s, other_s))
    found.startup += [seconds for _, seconds in sorted(starts, key=itemgetter(0))]
    found.save += [seconds for _, seconds in sorted(saves, key=itemgetter(0))]


def _add_epochs(found: Measurements, visits: Iterable[tuple[GangLife, VisitLife]]) -> None:
    """An iteration of a hopping model is the sum of its visits."""
    epochs: dict[TrialId, list[float]] = {}
    of = 1
    for gang, visit in visits:
        epoch = epochs.setdefault(gang.trial, [])
        if not visit.done:
            epoch.clear()
        epoch.append(visit.seconds)
        of = visit.of
        if gang.rows:
            found.iterations[1][gang.trial].append(sum(epochs.pop(gang.trial)))
    for trial, seconds in epochs.items():  # an epoch that was cut short
        if trial not in found.iterations[1]:
            found.iterations[1][trial].append(statistics.fmean(seconds) * of)


def _add_nodes(found: Measurements, nodes: Iterable[NodeLife]) -> None:
    asked = [node for node in nodes if node.requested_s is not None]
    found.queue += [max(0.0, node.born_s - (node.requested_s or 0.0)) for node in asked]
    ready = [(node.ready_s, node) for node in asked if node.ready_s is not None]
    for ready_s, node in sorted(ready, key=itemgetter(0)):
        found.boot[node.together].append(ready_s - node.born_s)
