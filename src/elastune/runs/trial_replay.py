"""Trial replay: trains one trial of a hopping run again, alone, in the visit order of its journal.

Training is sequential SGD over the partitions in the order of the visits, so the same order gives the same
weights, bit for bit on the same kind of machine. A replay shows that. What all workers trained at once is
trained again by a gang of as many processes (`gang_replay`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from elastune.checkpoints.encoding import decode, encode
from elastune.checkpoints.store import Store
from elastune.core.events import Config
from elastune.errors import ExecutionError, JobError
from elastune.history.gangs import GangLife, VisitLife
from elastune.history.recorder import history_of
from elastune.history.trials import TIMES_ONLY
from elastune.journal.records import Entry
from elastune.journal.run_folders import FoundRun
from elastune.journal.store import Journal
from elastune.model.ids import TrialId
from elastune.runs.gang_replay import GangSpell, ReplaySource, train_spell
from elastune.runs.reopening import reopen
from elastune.runs.run_files import open_store
from elastune.training.trainable import State
from elastune.training.visits import Shown, make_visit


@dataclass(frozen=True, slots=True)
class EpochVisits:
    """The effective visits of one iteration, in order; or, if all workers trained it at once, the partitions
    of each, in order, and the gang."""

    iteration: int
    visits: tuple[VisitLife, ...]
    shares: tuple[tuple[int, ...], ...] = ()
    gang: int = 0


@dataclass(frozen=True, slots=True)
class TrialVisitOrder:
    """`parent`: the trial it was forked from, and after how many iterations."""

    config: Config
    parent: tuple[TrialId, int] | None
    epochs: tuple[EpochVisits, ...]


def read_visit_orders(entries: Iterable[Entry]) -> dict[TrialId, TrialVisitOrder]:
    """Of visits lost with a worker and repeated, only the effective one."""
    history = history_of(entries, TIMES_ONLY)
    gangs: dict[TrialId, list[GangLife]] = {number: [] for number in history.trials}
    for gang in history.gangs:
        gangs[gang.trial].append(gang)
    return {
        number: TrialVisitOrder(
            trial.config,
            None if trial.parent is None else (trial.parent, trial.inherited),
            tuple(_epochs(gangs[number])),
        )
        for number, trial in history.trials.items()
    }


def _epochs(gangs: Sequence[GangLife]) -> list[EpochVisits]:
    """Of one trial, whose gangs ran one after the other."""
    epochs: list[EpochVisits] = []
    seen: list[VisitLife] = []
    for gang in gangs:
        del seen[0 if gang.visit is None else gang.visit.done :]
        if gang.visit is not None and gang.end == "visited":
            seen.append(gang.visit)
        for iteration in range(gang.first_iteration, gang.first_iteration + gang.rows):
            done = (epoch for epoch in epochs if epoch.iteration < iteration)
            epochs = [*done, _epoch(gang, iteration, seen)]
            seen = []
    return epochs


def _epoch(gang: GangLife, iteration: int, seen: Sequence[VisitLife]) -> EpochVisits:
    if gang.shares:
        return EpochVisits(iteration, (), gang.shares, gang.generation)
    return EpochVisits(iteration, tuple(seen))


Progress = Callable[[int, int], None]
"""Called with the visits done and the total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedTrial:
    """`same`: whether the bytes equal the checkpoint of the run; None: it has none."""

    run: str
    trial: TrialId
    iteration: int
    visits: int
    checkpoint: str | None
    same: bool | None
    sha256: str  # hash of the resulting state
    state: State

    def to_dict(self) -> dict[str, object]:
        names = ("run", "trial", "iteration", "visits", "checkpoint", "same", "sha256")
        return {name: getattr(self, name) for name in names}


def retrace(
    found: FoundRun, trial: int | None = None, iteration: int | None = None, *, told: Progress | None = None
) -> ReplayedTrial:
    """`trial` defaults to the best one, `iteration` to that of its newest checkpoint."""
    replay = _Replay.of(found)
    kept = replay.kept()
    number, of_best = replay.best() if trial is None else (TrialId(trial), None)
    if number not in replay.orders:
        raise JobError(f"run {found.record.run} has no trial {number}; it has {len(replay.orders)}, from 0")
    newest = max(kept.get(number, ()), default=None)
    last = iteration or of_best or newest or len(replay.orders[number].epochs)
    epochs = replay.epochs(number, last)
    total, done, data = sum(max(1, len(epoch.visits)) for _, epoch in epochs), 0, b""
    for steps, data in replay.states(epochs):  # noqa: B007  the last one is what was asked for
        done += steps
        if told is not None:
            told(done, total)
    is_kept = last in kept.get(number, ())
    return ReplayedTrial(
        run=found.record.run,
        trial=number,
        iteration=last,
        visits=total,
        checkpoint=replay.store.path(number, last) if is_kept else None,
        same=bytes(replay.store.read(number, last)) == data if is_kept else None,
        sha256=hashlib.sha256(data).hexdigest(),
        state=decode(data, pickles=replay.source.job.pickles),
    )


@dataclass(frozen=True, slots=True)
class _Replay:
    source: ReplaySource
    orders: dict[TrialId, TrialVisitOrder]

    @classmethod
    def of(cls, found: FoundRun) -> _Replay:
        source = ReplaySource.of(found)
        journal = Journal.open(found.journal, read_only=True)
        return cls(source, read_visit_orders(journal.read(found.record.run)))

    @property
    def store(self) -> Store:
        return open_store(self.source.job, self.source.found.folder)

    def kept(self) -> dict[TrialId, set[int]]:
        """Iterations with a checkpoint."""
        kept: dict[TrialId, set[int]] = {}
        for trial, iteration in self.store.list():
            kept.setdefault(TrialId(trial), set()).add(iteration)
        return kept

    def best(self) -> tuple[TrialId, int]:
        """Trial and iteration of the best model so far."""
        best = reopen(self.source.found).standing.best
        if best is None:
            raise ExecutionError(f"run {self.source.found.record.run} has no best model yet; name a trial")
        return TrialId(best.trial), best.iterations

    def epochs(self, trial: TrialId, last: int) -> list[tuple[TrialId, EpochVisits]]:
        """From the first iteration, which a fork has from its parent."""
        order = self.orders[trial]
        before: list[tuple[TrialId, EpochVisits]] = []
        if order.parent is not None:
            parent, inherited = order.parent
            before = self.epochs(parent, min(inherited, last))
        own = [(trial, epoch) for epoch in order.epochs if epoch.iteration <= last]
        if len(before) + len(own) < last:
            done = len(before) + len(own)
            raise JobError(f"trial {trial} has only {done} iterations; expected an iteration up to {done}")
        return before + own

    def states(self, epochs: Iterable[tuple[TrialId, EpochVisits]]) -> Iterator[tuple[int, bytes]]:
        """The encoded state after every visit, or after all that one gang trained, and how much that was."""
        state: bytes | None = None
        for (trial, gang), group in groupby(epochs, key=lambda each: (each[0], each[1].gang)):
            spell = [epoch for _, epoch in group]
            if gang:
                state = self._train_together(trial, spell, state)
                yield len(spell), state
                continue
            for epoch in spell:
                for visit in epoch.visits:
                    state = self._visit(trial, epoch.iteration, visit, state)
                    yield 1, state

    def _train_together(self, trial: TrialId, spell: Sequence[EpochVisits], state: bytes | None) -> bytes:
        return train_spell(
            GangSpell(
                run_folder=str(self.source.found.folder.path.absolute()),
                trial=trial,
                config=self.orders[trial].config,
                first=spell[0].iteration,
                last=spell[-1].iteration,
                shares=spell[0].shares,
                state=state,
            )
        )

    def _visit(self, trial: TrialId, iteration: int, visit: VisitLife, state: bytes | None) -> bytes:
        source = self.source
        loaded = source.partitions.take(visit.partition, (visit.partition,))
        done = make_visit(
            source.shipment.recipe,
            self.orders[trial].config,
            None if state is None else decode(state, pickles=source.job.pickles),
            Shown(
                data=loaded.data,
                partition=visit.partition,
                rows=loaded.rows,
                iteration=iteration,
                evaluates=visit.evaluates,
            ),
            source.conditions(trial),
            keep=lambda training: encode(training.save(), pickles=source.job.pickles),
        )
        if done is None:
            raise ExecutionError(f"trial {trial} trains nothing on {visit}: the trainable has changed")
        return done.kept
