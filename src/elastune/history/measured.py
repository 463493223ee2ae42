"""Speeds measured from a journal: iterations by gang size and configuration, start-up, saves, boots.

Works for any run, not only for measurements, so a running run can use its own observed speed.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

import numpy as np

from elastune.core.events import Config
from elastune.history.gangs import GangLife, VisitLife
from elastune.history.nodes import NodeLife
from elastune.history.recorder import history_of
from elastune.history.trials import TIMES_ONLY
from elastune.journal.records import Entry
from elastune.model.ids import TrialId
from elastune.model.speeds import ConfigSpeed, SpeedModel, fit_speeds, settings_of
from elastune.policies.profile import UNMEASURED

# The first iteration of a gang is slower: caches, lazy imports, the first batch.
_WARM_UP = 1


@dataclass(frozen=True, slots=True)
class Population:
    """The configurations that a run draws: their mean time relative to those measured, and their spread."""

    factor: float
    spread: float


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
    """From the request of a node until it is granted."""
    sync: list[float] = field(default_factory=list)
    """From the last trial saved at a barrier until the barrier is passed."""
    configs: dict[TrialId, Config] = field(default_factory=dict)
    unmeasured: list[str] = field(default_factory=list)
    """What was left out, and why."""
    population: Population | None = None
    """None: the configurations were drawn as those of the run will be."""

    @property
    def spread(self) -> float:
        """How much configurations differ in speed; of those measured, at the smallest gang size that several
        of them had."""
        if self.population is not None:
            return self.population.spread
        for _, by_trial in sorted(self.iterations.items()):
            means = [statistics.fmean(values) for values in by_trial.values() if values]
            if len(means) > 1:
                return statistics.stdev(means) / statistics.fmean(means)
        return 0.0

    def typical(self) -> dict[int, list[float]]:
        """Iterations by slots, scaled to the average configuration, because not every configuration was
        measured on every number of slots. `spread` has the differences."""
        paces = self.paces()
        return {
            slots: [
                seconds / paces.get(trial, 1.0) for trial, values in by_trial.items() for seconds in values
            ]
            for slots, by_trial in sorted(self.iterations.items())
        }

    def paces(self) -> dict[TrialId, float]:
        """The time of each configuration relative to the average one, at the smallest gang size."""
        _, by_trial = min(self.iterations.items(), default=(0, {}))
        means = {trial: statistics.fmean(values) for trial, values in by_trial.items() if values}
        average = statistics.fmean(means.values()) if means else 1.0
        if self.population is not None:
            average *= self.population.factor
        return {trial: mean / average for trial, mean in means.items() if average > 0.0 and mean > 0.0}

    def speeds(self) -> tuple[ConfigSpeed, ...]:
        """The measured configurations. The weight is the number of iterations."""
        counts: dict[TrialId, int] = defaultdict(int)
        for by_trial in self.iterations.values():
            for trial, values in by_trial.items():
                counts[trial] += len(values)
        return tuple(
            ConfigSpeed(settings_of(self.configs[trial]), pace, float(counts[trial]))
            for trial, pace in sorted(self.paces().items())
            if trial in self.configs
        )

    def as_drawn(self, drawn: Sequence[Config]) -> Measurements:
        """For configurations that were chosen to differ, not drawn: what is average, and how much others
        differ from it, is then a question of those that a run draws."""
        model = fit_speeds(self.speeds())
        return self if model is None or not drawn else replace(self, population=self._predicted(model, drawn))

    def _predicted(self, model: SpeedModel, drawn: Sequence[Config]) -> Population:
        """What nothing is known about is left to the measured ones: the extremes of their speed bound the
        predictions, and their spread bounds what the model does not explain."""
        means, unknown = model.predict_all(drawn)
        paces = list(self.paces().values())
        medians = np.clip(means / np.sqrt(1.0 + unknown**2), min(paces), max(paces))
        factor = float(medians.mean())
        unexplained = min(float(np.median(unknown)), self.spread)
        return Population(factor, math.hypot(float(medians.std()) / factor, unexplained))

    def to_dict(self) -> dict[str, object]:
        """As a job's `profile` reads it."""
        return {
            "iteration": {str(slots): values for slots, values in self.typical().items()},
            "spread": self.spread,
            "startup": self.startup or [0.0],
            "save": self.save or [0.0],
            "sync": self.sync or [0.0],
            "speeds": [each.to_dict() for each in self.speeds()],
            "boot": {str(count): values for count, values in sorted(self.boot.items())},
            "queue": self.queue,
            "unmeasured": self.unmeasured,
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
    found.sync += [stage.sync_s for stage in history.stages]
    found.configs = {trial: each.config for trial, each in history.trials.items()}
    found.unmeasured += [each.text for each in history.remarks if each.topic == UNMEASURED]
    return found


def _add_starts_and_saves(
    found: Measurements, gangs: Iterable[GangLife], visits: Iterable[tuple[GangLife, VisitLife]]
) -> None:
    """The time of a visit beside training and reading data is its start; for the last visit, its save."""
    fresh = (gang for gang in gangs if not gang.repeated)  # others have trained again meanwhile
    starts = [(gang.started_s, gang.started_s - gang.from_s) for gang in fresh if gang.started_s is not None]
    saves = [save for gang in gangs for save in gang.saves]
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
