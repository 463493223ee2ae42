"""What must hold of the visits in a journal, whatever happened: Cerebro's invariants."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import AnyCommand
from elastune.core.events import AnyEvent


@dataclass
class Watch:
    """Sees every event with the commands that it caused, in order.

    Between visits a trial may train together with all workers: a gang whose members share out the partitions.
    If that comes to a row, the epoch is over; if not, what was durable of its visits is still there.
    """

    partitions: int
    validation: int = 0
    together: dict[int, do.Train] = field(default_factory=dict)
    """Gangs, by trial."""
    orders: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)
    """Of every trial: the order of the partitions in each epoch, as its model saw them. Of one that trained
    together: those of rank 0."""
    running: dict[int, do.Train] = field(default_factory=dict)
    """By trial."""
    seen: dict[int, list[int]] = field(default_factory=dict)
    safe: dict[int, int] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    at: dict[int, str] = field(default_factory=dict)
    """The node where each trial's newest model lies."""
    gone: set[int] = field(default_factory=set)
    """Trials whose newest model went with its node: only a durable state can be gone on from."""
    visits: int = 0
    repeated: int = 0

    def take(self, event: AnyEvent, commands: Iterable[AnyCommand]) -> None:
        self._happens(event)
        for command in commands:
            self._is_told(command)

    def reopen(self) -> None:
        """A run that had ended goes on: models in the middle of an epoch were not kept."""
        self.safe.clear()

    def _happens(self, event: AnyEvent) -> None:  # noqa: C901  one case per event
        match event:
            case ev.VisitEnded() if self._is_of(event):
                lease = self.running.pop(event.trial)
                assert lease.visit is not None
                seen = self.seen.setdefault(event.trial, [])
                seen.append(lease.visit.partition)
                self.visits += 1
                self.at[event.trial] = lease.gang[0].node
                self.gone.discard(event.trial)
                if event.kept:
                    self.safe[event.trial] = len(seen)
                if event.rows:
                    assert len(event.rows) == 1, "one row per epoch"
                    assert event.kept, "what is counted is durable"
                    assert event.saved == (event.rows[0].iteration,)
                    assert sorted(seen) == list(range(self.partitions + self.validation)), "completeness"
                    assert all(each < self.partitions for each in seen[: self.partitions]), "evaluated first"
                    self.rows[event.trial] = self.rows.get(event.trial, lease.after_iteration) + 1
                    assert event.rows[0].iteration == self.rows[event.trial]
                    self.orders.setdefault(event.trial, []).append(tuple(seen))
                    self.seen[event.trial], self.safe[event.trial] = [], 0
                else:
                    assert not lease.visit.is_last
            case ev.Progressed():
                self._progressed(event)
            case ev.TrialPaused(trial=trial, generation=generation):
                if trial in self.together and self.together[trial].generation == generation:
                    del self.together[trial]
            case ev.ModelStowed(trial=trial, visits=visits, error=None) if trial not in self.gone:
                if visits <= len(self.seen.get(trial, ())):
                    self.safe[trial] = max(visits, self.safe.get(trial, 0))
            case ev.NodeLost(node=node):
                self._lose(node)
            case ev.Resumed():
                self.running.clear()
                self.together.clear()
                self.gone.update(self.at)
            case _:
                pass

    def _progressed(self, event: ev.Progressed) -> None:
        """Of a gang, or the bad end of either."""
        gang = self.together.get(event.trial)
        if gang is not None and gang.generation == event.generation and event.rows:
            self.seen[event.trial], self.safe[event.trial] = [], 0
            self.orders.setdefault(event.trial, []).extend(gang.shares[0] for _ in event.rows)
            self.rows[event.trial] = event.rows[-1].iteration
        if isinstance(event, ev.TrialCrashed | ev.GangLost):
            if gang is not None and gang.generation == event.generation:
                del self.together[event.trial]
            if self._is_of(event):
                del self.running[event.trial]
        elif isinstance(event, ev.LeaseEnded) and self._is_of(event):
            del self.running[event.trial]  # there was nothing left to train

    def _lose(self, node: str) -> None:
        self.gone |= {trial for trial, at in self.at.items() if at == node}
        for leases in (self.running, self.together):
            lost = [trial for trial, lease in leases.items() if any(slot.node == node for slot in lease.gang)]
            for trial in lost:
                del leases[trial]

    def _is_told(self, command: AnyCommand) -> None:
        match command:
            case do.Train(trial=trial, visit=visit, gang=(_,)) if visit is not None:
                self._is_alone(command)
                assert visit.partition in command.shares[0], "the data are there"
                seen = self.seen.setdefault(trial, [])
                if trial in self.gone:
                    assert visit.done <= self.safe.get(trial, 0), "that state is nowhere any more"
                if visit.done < len(seen):  # what was not durable is done again
                    assert visit.done >= self.safe.get(trial, 0)
                    self.repeated += len(seen) - visit.done
                    del seen[visit.done :]
                assert visit.done == len(seen)
                assert visit.partition not in seen, "twice in an epoch"
                assert visit.evaluates == (visit.partition >= self.partitions)
                self.running[trial] = command
            case do.Train(trial=trial):
                self._trains_together(command)
            case do.ReleaseNodes(nodes=nodes):
                for node in nodes:
                    self._lose(node)
            case do.Stop(trial=trial, generation=generation):
                for leases in (self.running, self.together):
                    if trial in leases and leases[trial].generation == generation:
                        del leases[trial]
            case _:
                pass

    def _trains_together(self, command: do.Train) -> None:
        before = self.together.get(command.trial)
        if before is None or before.generation != command.generation:  # else it is a longer lease
            self._is_alone(command)
            sizes = {len(share) for share in command.shares}
            assert len(sizes) == 1, "members with unequal shares would wait for each other"
            steps = [set(step) for step in zip(*command.shares, strict=True)]
            assert all(len(step) in (1, len(command.gang)) for step in steps), "one each, or one for all"
            held = sorted(partition for step in steps for partition in step)
            assert held == list(range(self.partitions + self.validation)), "every partition once"
            del self.seen.setdefault(command.trial, [])[self.safe.get(command.trial, 0) :]
        self.together[command.trial] = command

    def _is_alone(self, command: do.Train) -> None:
        leases = [*self.running.values(), *self.together.values()]
        assert all(lease.trial != command.trial for lease in leases), "isolation"
        taken = {slot for lease in leases for slot in lease.gang}
        assert taken.isdisjoint(command.gang), "exclusive access"

    def _is_of(self, event: ev.Progressed) -> bool:
        lease = self.running.get(event.trial)
        return lease is not None and lease.generation == event.generation
