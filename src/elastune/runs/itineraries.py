"""The ways of models through the data, from a journal: which partitions, in which order, epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from elastune.core.events import Config
from elastune.journal import Entry
from elastune.place import TrialId
from elastune.runs.history.book import history_of
from elastune.runs.history.gangs import GangLife, VisitLife
from elastune.runs.history.terms import TIMES_ONLY


@dataclass(frozen=True, slots=True)
class EpochWay:
    """The visits of one iteration that counted, in their order; none: all workers trained it at once."""

    iteration: int
    visits: tuple[VisitLife, ...]


@dataclass(frozen=True, slots=True)
class Itinerary:
    """Of one trial. `parent`: it was forked from that one, after so many iterations."""

    config: Config
    parent: tuple[TrialId, int] | None
    epochs: tuple[EpochWay, ...]


def read_itineraries(entries: Iterable[Entry]) -> dict[TrialId, Itinerary]:
    """What was lost with a worker and done again is there once: as it counted."""
    history = history_of(entries, TIMES_ONLY)
    gangs: dict[TrialId, list[GangLife]] = {number: [] for number in history.trials}
    for gang in history.gangs:
        gangs[gang.trial].append(gang)
    return {
        number: Itinerary(
            trial.config,
            None if trial.parent is None else (trial.parent, trial.inherited),
            tuple(_epochs(gangs[number])),
        )
        for number, trial in history.trials.items()
    }


def _epochs(gangs: Sequence[GangLife]) -> list[EpochWay]:
    """Of one trial; its gangs followed each other."""
    epochs: list[EpochWay] = []
    seen: list[VisitLife] = []
    for gang in gangs:
        del seen[0 if gang.visit is None else gang.visit.done :]
        if gang.visit is not None and gang.end == "visited":
            seen.append(gang.visit)
        for iteration in range(gang.first_iteration, gang.first_iteration + gang.rows):
            done = (epoch for epoch in epochs if epoch.iteration < iteration)
            epochs = [*done, EpochWay(iteration, tuple(seen))]
            seen = []
    return epochs
