"""What the journal of a run tells about hopping: times without boots, bytes that moved, work done again."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.runtime.journals import Timeline
from elastune.core import commands as do
from elastune.core import events as ev
from elastune.model.ids import NodeId, TrialId


@dataclass(frozen=True, slots=True)
class Stay:
    """One visit that came to its end."""

    lease: do.Train
    visit: do.Visit
    began_s: float
    ended: ev.VisitEnded

    @property
    def overhead_s(self) -> float:
        """All but training: the way of the order, of the model and of the answer."""
        return self.ended.at_s - self.began_s - self.ended.seconds


@dataclass(frozen=True, slots=True)
class Loss:
    node: NodeId
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """A whole run. `began_s` is when the first trial was told to train: all nodes are up then."""

    began_s: float
    stays: tuple[Stay, ...]
    begun: int
    """Visits, also those that came to nothing."""
    rows: dict[tuple[TrialId, int], ev.Row]
    losses: tuple[Loss, ...]
    joined_s: tuple[float, ...]
    """When nodes came up after the beginning."""
    boots_s: dict[NodeId, float]

    @classmethod
    def of(cls, timeline: Timeline) -> Course:
        orders = [
            (command, event.at_s)
            for event, commands in timeline.steps
            for command in commands
            if isinstance(command, do.Train)
        ]
        if not orders:
            raise ValueError("nothing was trained in this run; expected one that came to its end")
        began_s = orders[0][1]
        events = [event for event, _ in timeline.steps]
        ready = [event for event in events if isinstance(event, ev.NodesReady)]
        progress = [event for event in events if isinstance(event, ev.Progressed)]
        return cls(
            began_s=began_s,
            stays=tuple(_stays(orders, progress)),
            begun=sum(lease.visit is not None for lease, _ in orders),
            rows={(event.trial, row.iteration): row for event in progress for row in event.rows},
            losses=tuple(Loss(each.node, each.at_s) for each in events if isinstance(each, ev.NodeLost)),
            joined_s=tuple(each.at_s for each in ready if each.at_s > began_s for _ in each.nodes),
            boots_s=_boots_s(events, ready),
        )

    @property
    def seconds(self) -> float:
        """From the first order to train to the last row."""
        return max(row.at_s for row in self.rows.values()) - self.began_s

    @property
    def epochs_s(self) -> list[float]:
        """Of each epoch of all trials; they train in rounds."""
        last = {iteration: 0.0 for _, iteration in self.rows}
        for (_, iteration), row in self.rows.items():
            last[iteration] = max(last[iteration], row.at_s)
        ends = [self.began_s, *(last[iteration] for iteration in sorted(last))]
        return [after - before for before, after in itertools.pairwise(ends)]

    @property
    def moved_bytes(self) -> int:
        """Of models that went from one worker to another."""
        return sum(stay.ended.model_bytes for stay in self.stays if stay.ended.hopped)

    @property
    def hops(self) -> int:
        return sum(stay.ended.hopped for stay in self.stays)

    @property
    def model_bytes(self) -> float:
        """Of a model, in the mean over the visits."""
        return statistics.fmean(stay.ended.model_bytes for stay in self.stays) if self.stays else 0.0

    @property
    def again(self) -> int:
        """Visits that ended and had to be made once more: the model was lost with its node."""
        return len(self.stays) - len(self._kinds())

    @property
    def in_vain(self) -> int:
        """Visits that were cut short."""
        return self.begun - len(self.stays)

    def overheads_s(self, iteration: int | None = None) -> list[float]:
        """Of all visits, or of those of one epoch."""
        return [
            stay.overhead_s
            for stay in self.stays
            if iteration is None or stay.lease.after_iteration + 1 == iteration
        ]

    def is_complete(self, partitions: int) -> bool:
        """Whether in every epoch that has a row its trial was on every partition."""
        per_epoch = Counter((trial, iteration) for trial, iteration, _ in self._kinds())
        return all(per_epoch[key] == partitions for key in self.rows)

    def metrics(self) -> dict[tuple[TrialId, int], dict[str, float]]:
        return {key: dict(row.metrics) for key, row in self.rows.items()}

    def _kinds(self) -> set[tuple[TrialId, int, int]]:
        return {
            (stay.lease.trial, stay.lease.after_iteration + 1, stay.visit.partition) for stay in self.stays
        }


def _stays(orders: Sequence[tuple[do.Train, float]], progress: Sequence[ev.Progressed]) -> Iterator[Stay]:
    leases = {(lease.trial, lease.generation): (lease, at_s) for lease, at_s in orders}
    for event in progress:
        if isinstance(event, ev.VisitEnded):
            lease, since_s = leases[event.trial, event.generation]
            if lease.visit is not None:
                yield Stay(lease, lease.visit, since_s, event)


def _boots_s(events: Sequence[ev.Event], ready: Sequence[ev.NodesReady]) -> dict[NodeId, float]:
    """In the order in which they were ready."""
    granted = {
        node: event.at_s - event.billed_s
        for event in events
        if isinstance(event, ev.NodesGranted)
        for node in event.nodes
    }
    return {node: event.at_s - granted[node] for event in ready for node in event.nodes}
