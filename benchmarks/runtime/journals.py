"""What a real run's journal tells about time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import AnyCommand
from elastune.core.events import AnyEvent
from elastune.journal.codec import decode
from elastune.journal.run_folders import find_run
from elastune.journal.store import Journal

Step = tuple[AnyEvent, tuple[AnyCommand, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Events with the commands that they caused, in order; times on the run's clock."""

    steps: tuple[Step, ...]

    @classmethod
    def read(cls, folder: Path) -> Timeline:
        """Of the last run in the folder."""
        found = find_run(folder, "last")
        steps: list[Step] = []
        for entry in Journal.open(found.journal, read_only=True).read(found.record.run):
            event, *commands = (decode(line) for line in (entry.event_line, *entry.command_lines))
            steps.append((event, tuple(commands)))  # type: ignore[arg-type]
        return cls(steps=tuple(steps))

    @property
    def ready_s(self) -> float:
        """When the first node was ready, with all its slots."""
        return next(event.at_s for event, _ in self.steps if isinstance(event, ev.NodesReady))

    @property
    def ended_s(self) -> float:
        return self._first(lambda command: isinstance(command, do.EndRun))

    @property
    def reports(self) -> list[ev.Progressed]:
        return [event for event, _ in self.steps if isinstance(event, ev.Progressed) and event.rows]

    def lease_ends(self) -> list[float]:
        """When each trial last stopped training, in this order."""
        ends = {event.trial: event.at_s for event, _ in self.steps if isinstance(event, ev.LeaseEnded)}
        return sorted(ends.values())

    def nodes(self) -> str:
        """How many were up, one after the other: `1 3 2`. Those that come before a gang starts count once."""
        up, path, coming = 0, [0], False
        for event, commands in self.steps:
            before = up
            coming = coming and not isinstance(event, ev.GangStarted)
            if isinstance(event, ev.NodesReady):
                up += len(event.nodes)
            elif isinstance(event, ev.NodeLost):
                up -= 1
            up -= sum(len(command.nodes) for command in commands if isinstance(command, do.ReleaseNodes))
            if up > before and coming:
                path[-1] = up
            elif up != before:
                path.append(up)
            coming = up > before or (coming and up == before)
        return " ".join(map(str, path[1:]))

    def resizes(self) -> list[Resize]:
        """A gang is over and the same trial's next one has started; one trial only."""
        found: list[Resize] = []
        revoked: float | None = None
        rows: Sequence[ev.Row] = ()
        for event, commands in self.steps:
            if isinstance(event, ev.Progressed) and event.rows:
                rows = event.rows
                if found and found[-1].first_row_s is None:
                    found[-1] = found[-1].seen(rows[0].at_s)
            if isinstance(event, ev.GangStarted) and revoked is not None and rows:
                found.append(Resize(asked_s=revoked, last_row_s=rows[-1].at_s, started_s=event.at_s))
                revoked = None
            if revoked is None and any(isinstance(command, do.Revoke | do.Pause) for command in commands):
                revoked = event.at_s
        return [resize for resize in found if resize.first_row_s is not None]

    def _first(self, is_it: Callable[[AnyCommand], bool]) -> float:
        return next(event.at_s for event, commands in self.steps if any(map(is_it, commands)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    asked_s: float
    last_row_s: float
    started_s: float
    first_row_s: float | None = None

    def seen(self, first_row_s: float) -> Resize:
        return Resize(
            asked_s=self.asked_s,
            last_row_s=self.last_row_s,
            started_s=self.started_s,
            first_row_s=first_row_s,
        )

    @property
    def order_s(self) -> float:
        """From the order to stop to the start of training on the new slots."""
        return self.started_s - self.asked_s

    @property
    def still_s(self) -> float:
        """From the last row of the old gang to the start of the new one."""
        return self.started_s - self.last_row_s

    @property
    def gap_s(self) -> float:
        """From the end of the old gang's last iteration to that of the new one's first."""
        return (self.first_row_s or self.started_s) - self.last_row_s
