"""What a journal tells about speed: iterations by the size of the gang, start-up, saves, boots.

The journal of a measurement and that of any other run are read alike, so a run that is under way can learn
from itself.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from elastune.core import AnyEvent
from elastune.core import commands as do
from elastune.core import events as ev
from elastune.journal import Entry
from elastune.journal.codec import decode
from elastune.place import NodeId, TrialId

# The first iteration of a gang is slower: caches, lazy imports, the first batch.
_WARM_UP = 1


@dataclass(slots=True)
class Measurements:
    """Seconds, one by one."""

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
        """How much the configurations differ in speed, at the smallest gang that several of them had."""
        for _, by_trial in sorted(self.iterations.items()):
            means = [statistics.fmean(values) for values in by_trial.values() if values]
            if len(means) > 1:
                return statistics.stdev(means) / statistics.fmean(means)
        return 0.0

    def typical(self) -> dict[int, list[float]]:
        """Iterations by slots, as if all were of the average configuration: not every one was measured on
        every number of slots, and how much they differ is told by `spread`."""
        paces = self._paces()
        return {
            slots: [
                seconds / paces.get(trial, 1.0) for trial, values in by_trial.items() for seconds in values
            ]
            for slots, by_trial in sorted(self.iterations.items())
        }

    def _paces(self) -> dict[TrialId, float]:
        """How long each configuration takes, where all were measured alike, for one of the average."""
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


@dataclass(slots=True)
class _Gang:
    slots: int
    formed_s: float
    last_s: float | None = None
    seconds: list[float] = field(default_factory=list)


def measure(entries: Iterable[Entry]) -> Measurements:
    """Everything that the entries tell."""
    reader = _Reader()
    for entry in entries:
        event = decode(entry.event_line)
        if isinstance(event, AnyEvent):
            reader.happens(event)
            for line in entry.command_lines:
                reader.commanded(decode(line), event.at_s)
    reader.close()
    return reader.found


class _Reader:
    def __init__(self) -> None:
        self.found = Measurements()
        self.gangs: dict[TrialId, _Gang] = {}
        self.saving: dict[TrialId, float] = {}
        self.visits: dict[TrialId, tuple[float, do.Visit]] = {}
        self.tours: dict[TrialId, list[float]] = {}
        """Seconds of the visits of an epoch that goes on."""
        self.of = 1
        self.asked: dict[int, tuple[float, int]] = {}
        self.booting: dict[NodeId, tuple[float, int]] = {}

    def happens(self, event: AnyEvent) -> None:
        match event:
            case ev.VisitEnded():
                self._visited(event)
            case ev.GangStarted(trial=trial, at_s=at_s) if trial in self.gangs:
                gang = self.gangs[trial]
                gang.last_s = at_s
                self.found.startup.append(at_s - gang.formed_s)
            case ev.Progressed(trial=trial) if trial in self.gangs:
                self._progressed(event)
            case ev.TrialPaused(trial=trial, at_s=at_s):
                if trial in self.saving:
                    self.found.save.append(at_s - self.saving.pop(trial))
                self._close(trial)
            case ev.NodesGranted() | ev.NodesReady():
                self._nodes(event)

    def _visited(self, event: ev.VisitEnded) -> None:
        """What is not training, nor reading the data once, is its start; of the last, its save."""
        if event.trial not in self.visits:
            return
        since_s, visit = self.visits.pop(event.trial)
        tour = self.tours.setdefault(event.trial, [])
        if not visit.done:
            tour.clear()
        tour.append(event.seconds)
        self.of = visit.of
        other_s = max(0.0, event.at_s - since_s - event.seconds - event.load_s)
        (self.found.save if event.rows else self.found.startup).append(other_s)
        if event.rows:
            self.found.iterations[1][event.trial].append(sum(self.tours.pop(event.trial)))

    def _progressed(self, event: ev.Progressed) -> None:
        gang = self.gangs[event.trial]
        self._rows(gang, event.rows)
        if isinstance(event, ev.LeaseEnded):
            gang.last_s = None
        elif isinstance(event, ev.TrialCrashed | ev.GangLost):
            self._close(event.trial)

    def _nodes(self, event: ev.NodesGranted | ev.NodesReady) -> None:
        for node in event.nodes:
            if isinstance(event, ev.NodesReady):
                since_s, count = self.booting.pop(node, (None, 0))
                if since_s is not None:
                    self.found.boot[count].append(event.at_s - since_s)
                continue
            since_s = event.at_s - event.billed_s
            asked_s, count = self.asked.get(event.request, (since_s, len(event.nodes)))
            self.booting[node] = since_s, count
            self.found.queue.append(max(0.0, since_s - asked_s))

    def commanded(self, command: object, at_s: float) -> None:
        match command:
            case do.Train(trial=trial, visit=visit) if visit is not None:
                self.visits[trial] = at_s, visit
            case do.Train(trial=trial, gang=gang):
                known = self.gangs.get(trial)
                if known is None:
                    self.gangs[trial] = _Gang(len(gang), at_s)
                elif known.last_s is None and known.seconds:
                    known.last_s = at_s
            case do.Pause(trial=trial):
                self.saving[trial] = at_s
            case do.Stop(trial=trial):
                self._close(trial)
            case do.RequestNodes(request=request, count=count):
                self.asked[request] = at_s, count

    def close(self) -> None:
        for trial in tuple(self.gangs):
            self._close(trial)
        for trial, seconds in self.tours.items():  # an epoch that was not awaited
            if trial not in self.found.iterations[1] and seconds:
                self.found.iterations[1][trial].append(statistics.fmean(seconds) * self.of)
        if not self.found.iterations[1]:
            del self.found.iterations[1]

    @staticmethod
    def _rows(gang: _Gang, rows: Iterable[ev.Row]) -> None:
        for row in rows:
            if gang.last_s is not None:
                gang.seconds.append(row.at_s - gang.last_s)
            gang.last_s = row.at_s

    def _close(self, trial: TrialId) -> None:
        gang = self.gangs.pop(trial, None)
        if gang is not None and gang.seconds:
            kept = gang.seconds[_WARM_UP:] or gang.seconds
            self.found.iterations[gang.slots][trial] += kept
