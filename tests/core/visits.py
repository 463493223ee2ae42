"""What must hold of the visits in a journal, whatever happened: Cerebro's invariants."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from elastune.core import AnyCommand, AnyEvent
from elastune.core import commands as do
from elastune.core import events as ev


@dataclass
class Watch:
    """Sees every event with the commands that it caused, in order."""

    partitions: int
    validation: int = 0
    running: dict[int, do.Train] = field(default_factory=dict)
    """By trial."""
    seen: dict[int, list[int]] = field(default_factory=dict)
    safe: dict[int, int] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    visits: int = 0
    repeated: int = 0

    def take(self, event: AnyEvent, commands: Iterable[AnyCommand]) -> None:
        self._happens(event)
        for command in commands:
            self._is_told(command)

    def _happens(self, event: AnyEvent) -> None:
        match event:
            case ev.VisitEnded() if self._is_of(event):
                lease = self.running.pop(event.trial)
                assert lease.visit is not None
                seen = self.seen.setdefault(event.trial, [])
                seen.append(lease.visit.partition)
                self.visits += 1
                if event.kept:
                    self.safe[event.trial] = len(seen)
                if event.rows:
                    assert sorted(seen) == list(range(self.partitions + self.validation)), "completeness"
                    assert all(each < self.partitions for each in seen[: self.partitions]), "evaluated first"
                    self.rows[event.trial] = self.rows.get(event.trial, lease.after_iteration) + 1
                    assert event.rows[0].iteration == self.rows[event.trial]
                    self.seen[event.trial], self.safe[event.trial] = [], 0
                else:
                    assert not lease.visit.is_last
            case ev.Progressed() if isinstance(event, ev.TrialCrashed | ev.GangLost | ev.LeaseEnded):
                if self._is_of(event):
                    del self.running[event.trial]
            case ev.NodeLost(node=node):
                self.running = {
                    trial: lease for trial, lease in self.running.items() if lease.gang[0].node != node
                }
            case ev.Resumed():
                self.running.clear()
            case _:
                pass

    def _is_told(self, command: AnyCommand) -> None:
        match command:
            case do.Train(trial=trial, visit=visit, gang=(slot,)) if visit is not None:
                assert trial not in self.running, "isolation"
                assert all(slot not in lease.gang for lease in self.running.values()), "exclusive access"
                assert visit.partition in command.shares[0], "the data are there"
                seen = self.seen.setdefault(trial, [])
                if visit.done < len(seen):  # what was not durable is done again
                    assert visit.done >= self.safe.get(trial, 0)
                    self.repeated += len(seen) - visit.done
                    del seen[visit.done :]
                assert visit.done == len(seen)
                assert visit.partition not in seen, "twice in an epoch"
                assert visit.evaluates == (visit.partition >= self.partitions)
                self.running[trial] = command
            case do.Train(trial=trial):
                self.seen[trial], self.safe[trial] = [], 0
                self.rows.pop(trial, None)
            case do.Stop(trial=trial, generation=generation):
                if trial in self.running and self.running[trial].generation == generation:
                    del self.running[trial]
            case _:
                pass

    def _is_of(self, event: ev.Progressed) -> bool:
        lease = self.running.get(event.trial)
        return lease is not None and lease.generation == event.generation
