"""Records what the nodes, gangs and trials of a run did, event by event, and builds its `History`.

The only reader of events beside the core. It needs neither core nor policy, because the journal has the
commands beside the events. Money and slot time are booked here a second time, by the ledger's rules; a test
compares the two.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import CancelTimer, Ending, SetTimer
from elastune.core.events import AnyEvent
from elastune.history.gangs import GangBook, GangLife
from elastune.history.nodes import NodeBook, NodeLife, Refusal
from elastune.history.notes import RunNote, note_on, notes_of
from elastune.history.trials import BestStep, HistoryTerms, RowBook, TrialBook, TrialHistory
from elastune.journal.codec import Message, decode, event_of, mentions
from elastune.journal.records import Entry
from elastune.model.ids import NodeId, TrialId
from elastune.model.rows import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEnd:
    """The barrier after a stage. Stages are counted from 0 in each pool."""

    pool: int
    stage: int
    at_s: float
    sync_s: float = 0.0  # from the last trial saved to the barrier passed


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """The driver was down, and the run's clock stopped."""

    at_s: float
    down_s: float


class Recorder:
    """Fed with the entries of a journal or by a running run; all views read it.

    An event is booked before its commands. `for_tables`: keep all rows with all metrics; without
    `lists_rows` only the job's metric, for a table of trials.
    """

    def __init__(self, terms: HistoryTerms, *, for_tables: bool = False, lists_rows: bool = True) -> None:
        self.nodes = NodeBook(terms.cluster)
        self.gangs = GangBook(terms.cluster)
        self.trials = TrialBook(terms)
        self.rows = RowBook(is_kept=for_tables, is_listed=lists_rows)
        self._metric = terms.metric
        self.stages: list[StageEnd] = []
        self._barriers: dict[tuple[int, int], float] = {}  # when they were ordered
        self.remarks: list[RunNote] = []
        self.outages: list[Outage] = []
        self.money: list[tuple[float, float]] = []
        self.ending: Ending | None = None
        self.ended_s: float | None = None
        self.now_s = 0.0
        self.events = 0

    def take(self, event: AnyEvent, commands: Iterable[object]) -> None:
        for at_s in self.nodes.bends_before(event.at_s):
            self.note_money(at_s)
        self.now_s = event.at_s
        self.events += 1
        self._book(event)
        for command in commands:
            self._book_command(command)
        # The bill is linear between bends and jumps, so only these points are kept.
        nodes_usd, gangs_usd = self.nodes.usd_before, self.gangs.usd_before
        if nodes_usd is not None or gangs_usd is not None:
            self.nodes.usd_before = self.gangs.usd_before = None
            before_usd = (self.nodes.usd(self.now_s) if nodes_usd is None else nodes_usd) + (
                self.gangs.usd(self.now_s) if gangs_usd is None else gangs_usd
            )
            self.money.append((self.now_s, before_usd))
            self.note_money(self.now_s)

    def _book(self, event: AnyEvent) -> None:  # noqa: C901  one case per event
        at_s = event.at_s
        match event:
            case ev.Progressed() | ev.TrialPaused() | ev.GangStarted():
                self._book_gang(event)
            case ev.TrialsSampled():
                self.trials.sampled(event)
                self.rows.touch(*(number for number, _ in event.trials))
            case ev.NodesGranted():
                self.nodes.granted(event)
            case ev.NodesRefused():
                self.nodes.refused(event)
            case ev.NodesReady():
                self.nodes.ready(event)
            case ev.NodeNoticed():
                self.nodes.noticed(event)
            case ev.NodeLost():
                self._lose(event.node, event.billed_s)
            case ev.NodeFound():
                self.nodes.found(event.node, at_s, event.billed_s, event.usd_per_hour)
            case ev.BarrierPassed(pool=pool, stage=stage):
                sync_s = at_s - self._barriers.pop((pool, stage), at_s)
                self.stages.append(StageEnd(pool=pool, stage=stage, at_s=at_s, sync_s=sync_s))
            case ev.Resumed():
                self._resumed(event)
            case ev.RunExtended():
                self.ending = self.ended_s = None

    def _book_command(self, command: object) -> None:
        match command:
            case do.Train(trial=trial):
                self.gangs.train(command, self.now_s)
                self.rows.touch(trial)
            case do.Pause(trial=trial):
                self.gangs.saves(trial, self.now_s)
            case do.Stop(trial=trial):
                self._dissolve(trial, "stopped")
            case do.RequestNodes():
                self.nodes.requested(command, self.now_s)
            case do.ReleaseNodes():
                self.nodes.released(command, self.now_s)
            case do.Fork():
                self.trials.forked(command)
            case do.Barrier(pool=pool, stage=stage):
                self._barriers[pool, stage] = self.now_s
            case do.Note():
                self.remarks.extend(notes_of(command, self.now_s))
            case do.EndRun():
                self.ending, self.ended_s = command.reason, self.now_s

    def _book_gang(self, event: ev.Progressed | ev.TrialPaused | ev.GangStarted) -> None:
        """Late events of a dissolved gang count in tables only."""
        trial, is_present = event.trial, self.gangs.is_present(event.trial, event.generation)
        match event:
            case ev.Progressed():
                rows = Rows(event.rows, self._metric)
                self.rows.reported(event, rows)
                if is_present:
                    self._progressed(event, rows)
            case ev.TrialPaused():
                self.rows.touch(trial)
                if is_present:
                    self.trials.save_all(trial, event.at_s)
                    self.gangs.saved(trial, event.at_s)
                    if not event.stays:
                        self._dissolve(trial, "paused")
            case ev.GangStarted() if is_present:
                self.gangs.trains(trial, event.at_s, event.repeated)

    def _progressed(self, event: ev.Progressed, rows: Rows) -> None:
        self.trials.progressed(event, rows)
        self.gangs.reported(event.trial, rows)
        if isinstance(event, ev.VisitEnded):
            self.gangs.visited(event)
            self._dissolve(event.trial, "visited")
        elif isinstance(event, ev.TrialCrashed):
            self.trials.crashed(event)
            self._dissolve(event.trial, "crashed")
        elif isinstance(event, ev.GangLost):
            self._dissolve(event.trial, "lost")
        elif isinstance(event, ev.LeaseEnded):
            self.gangs.waits(event.trial, event.at_s)

    def _lose(self, node: NodeId, billed_s: float | None) -> None:
        if not self.nodes.is_held(node):
            return
        for trial in self.gangs.on(node):
            self._dissolve(trial, "lost")
        self.nodes.end(node, self.now_s, lost=True, billed_s=billed_s)

    def _resumed(self, event: ev.Resumed) -> None:
        if event.down_s:
            self.outages.append(Outage(at_s=event.at_s, down_s=event.down_s))
        self.remarks.append(note_on(event))
        self.nodes.down(event.down_s, event.at_s)
        for trial in self.gangs.present():
            self._dissolve(trial, "lost")
        for node, billed_s in event.lost:
            if self.nodes.is_held(node):
                self._lose(node, billed_s)
            else:
                self.nodes.found(node, event.at_s, billed_s)

    def _dissolve(self, trial: TrialId, why: str) -> None:
        self.gangs.dissolve(trial, self.now_s, why)
        self.trials.forget_unsaved(trial)

    def _usd(self, at_s: float) -> float:
        return self.nodes.usd(at_s) + self.gangs.usd(at_s)

    def note_money(self, at_s: float) -> None:
        self.money.append((at_s, self._usd(at_s)))

    def history(self) -> History:
        """Up to now; the recorder can go on."""
        self.note_money(self.now_s)
        return History(
            nodes=self.nodes.lives(self.now_s),
            gangs=self.gangs.lives(self.now_s),
            trials=dict(self.trials.histories),
            money=tuple(point for point, _ in itertools.groupby(self.money)),
            best=tuple(self.trials.best),
            stages=tuple(self.stages),
            remarks=tuple(self.remarks),
            refusals=tuple(self.nodes.refusals),
            outages=tuple(self.outages),
            ending=self.ending,
            end_s=self.now_s if self.ended_s is None else self.ended_s,
            events=self.events,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    nodes: tuple[NodeLife, ...]
    gangs: tuple[GangLife, ...]
    trials: Mapping[TrialId, TrialHistory]
    money: tuple[tuple[float, float], ...]  # (time, accrued with minimum charges), linear in between
    best: tuple[BestStep, ...]  # every new best model, from the time its checkpoint was durable
    stages: tuple[StageEnd, ...]
    remarks: tuple[RunNote, ...]
    refusals: tuple[Refusal, ...]
    outages: tuple[Outage, ...]
    ending: Ending | None  # None: the journal ends before the run ended
    end_s: float  # end of the run, or else the time of the last event
    events: int

    @property
    def usd(self) -> float:
        return self.money[-1][1] if self.money else 0.0

    @property
    def crashes(self) -> int:
        return sum(len(trial.crashes) for trial in self.trials.values())


def history_of(entries: Iterable[Entry], terms: HistoryTerms) -> History:
    """The history of a run up to the end of its journal."""
    record = Recorder(terms)
    for entry in entries:
        record.take(event_of(entry), commands_of(entry))
    return record.history()


def commands_of(entry: Entry) -> list[Message]:
    """All but timers, which concern the core only."""
    return [decode(line) for line in entry.command_lines if not mentions(line, SetTimer, CancelTimer)]
