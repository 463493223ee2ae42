"""A run as it was: every node, gang, row and dollar over time, from its journal alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from elastune.core.commands import CancelTimer, Ending, SetTimer
from elastune.journal import Entry
from elastune.journal.codec import Message, decode, mentions
from elastune.place import TrialId
from elastune.runs.history.gangs import GangLife
from elastune.runs.history.nodes import NodeLife, Refusal
from elastune.runs.history.recorder import Outage, Recorder, StageEnd
from elastune.runs.history.terms import HistoryTerms
from elastune.runs.history.trials import BestStep, TrialCourse
from elastune.runs.remarks import Remark
from elastune.runs.replay import event_of


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    nodes: tuple[NodeLife, ...]
    gangs: tuple[GangLife, ...]
    trials: Mapping[TrialId, TrialCourse]
    money: tuple[tuple[float, float], ...]
    """What had accrued at each of these times, minimum charges included; straight lines between them."""
    best: tuple[BestStep, ...]
    """Every new best model, from the moment its checkpoint was durable."""
    stages: tuple[StageEnd, ...]
    remarks: tuple[Remark, ...]
    refusals: tuple[Refusal, ...]
    outages: tuple[Outage, ...]
    ending: Ending | None
    """None: the journal ends before the run does."""
    end_s: float
    """When the run ended; without an end, the time of the last event."""
    events: int

    @property
    def usd(self) -> float:
        return self.money[-1][1] if self.money else 0.0

    @property
    def crashes(self) -> int:
        return sum(len(trial.crashes) for trial in self.trials.values())


def history_of(entries: Iterable[Entry], terms: HistoryTerms) -> History:
    """The history of a run, from the first event to wherever its journal ends."""
    record = Recorder(terms)
    for entry in entries:
        record.take(event_of(entry), commands_of(entry))
    record.note_money(record.now_s)
    return History(
        nodes=record.nodes.lives(record.now_s),
        gangs=record.gangs.lives(record.now_s),
        trials=record.trials.courses(),
        money=_without_repeats(record.money),
        best=tuple(record.trials.best),
        stages=tuple(record.stages),
        remarks=tuple(record.remarks),
        refusals=tuple(record.nodes.refusals),
        outages=tuple(record.outages),
        ending=record.ending,
        end_s=record.now_s if record.ended_s is None else record.ended_s,
        events=record.events,
    )


def commands_of(entry: Entry) -> list[Message]:
    """All but timers: they say when the core will look again, which is of no use to a reader."""
    return [decode(line) for line in entry.command_lines if not mentions(line, SetTimer, CancelTimer)]


def _without_repeats(points: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    return tuple(point for index, point in enumerate(points) if not index or point != points[index - 1])
