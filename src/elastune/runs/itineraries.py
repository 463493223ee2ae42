"""The ways of models through the data, from a journal: which partitions, in which order, epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from elastune.core import AnyCommand, AnyEvent
from elastune.core import commands as do
from elastune.core import events as ev
from elastune.journal import Entry
from elastune.journal.codec import decode
from elastune.place import TrialId


@dataclass(frozen=True, slots=True)
class EpochWay:
    """The visits of one iteration that counted, in their order; none: all workers trained it at once."""

    iteration: int
    visits: tuple[do.Visit, ...]


@dataclass(slots=True)
class Itinerary:
    """Of one trial. `parent`: it was forked from that one, after so many iterations."""

    config: ev.Config
    parent: tuple[TrialId, int] | None = None
    epochs: list[EpochWay] = field(default_factory=list)
    seen: list[do.Visit] = field(default_factory=list)
    """Of the epoch that goes on."""


def read_itineraries(entries: Iterable[Entry]) -> dict[TrialId, Itinerary]:
    """What was lost with a worker and done again is there once: as it counted."""
    reader = _Reader()
    for entry in entries:
        event = decode(entry.event_line)
        if isinstance(event, AnyEvent):
            reader.happens(event)
            for line in entry.command_lines:
                command = decode(line)
                if isinstance(command, AnyCommand):
                    reader.is_told(command)
    return reader.found


class _Reader:
    def __init__(self) -> None:
        self.found: dict[TrialId, Itinerary] = {}
        self.forks: dict[TrialId, tuple[TrialId, int]] = {}
        self.leases: dict[TrialId, do.Train] = {}

    def happens(self, event: AnyEvent) -> None:
        match event:
            case ev.TrialsSampled(trials=trials):
                for number, config in trials:
                    self.found[number] = Itinerary(config, self.forks.get(number))
            case ev.Progressed() if self._is_present(event):
                self._progressed(event, self.found[event.trial], self.leases[event.trial])
            case _:
                pass

    def _is_present(self, event: ev.Progressed) -> bool:
        lease = self.leases.get(event.trial)
        return lease is not None and lease.generation == event.generation

    @staticmethod
    def _progressed(event: ev.Progressed, way: Itinerary, lease: do.Train) -> None:
        if isinstance(event, ev.VisitEnded) and lease.visit is not None:
            way.seen.append(lease.visit)
        for row in event.rows:
            done = (epoch for epoch in way.epochs if epoch.iteration < row.iteration)
            way.epochs = [*done, EpochWay(row.iteration, tuple(way.seen))]
            way.seen = []

    def is_told(self, command: AnyCommand) -> None:
        match command:
            case do.Fork(trial=trial, parent=parent, iteration=iteration):
                self.forks[trial] = parent, iteration
            case do.Train(trial=trial, visit=visit):
                self.leases[trial] = command
                way = self.found[trial]
                del way.seen[0 if visit is None else visit.done :]
            case _:
                pass
