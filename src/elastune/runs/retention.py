"""Checkpoint retention: keeps the best and the last of every unfinished trial, and the best of the run.

After the end it keeps the best of the run and the last one of each trial that was still in the race: an
extension goes on from them. Those were on the disk before the end, too, so a run needs no more disk for it,
but gives less of it back.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

from elastune.checkpoints.store import Store
from elastune.core.commands import Ending
from elastune.core.events import AnyEvent, ModelStowed, Progressed, TrialPaused, TrialsSampled, VisitEnded
from elastune.core.state import State
from elastune.core.trials import Trial
from elastune.errors import ExecutionError
from elastune.model.ids import TrialId
from elastune.model.metric import Mode


class Retention:
    """Deletes in a background thread, and only what a durable event has made useless."""

    def __init__(
        self, store: Store, state: State, *, keeps_all: bool = False, keeps_race: bool = True
    ) -> None:
        """`keeps_race`: after the end, the last checkpoints of the trials that were in the race."""
        self._store = store
        self._state = state
        self._keeps_all = keeps_all
        self._keeps_race = keeps_race
        self._there: dict[TrialId, set[int]] = {}
        self._underway: dict[TrialId, set[tuple[int, int]]] = {}  # model hopping: iteration, visits done
        self._touched: set[TrialId] = set()
        self._best: TrialId | None = None
        self._live: set[TrialId] = set()
        self._children: dict[TrialId, list[Trial]] = {}
        self._hands = ThreadPoolExecutor(max_workers=1, thread_name_prefix="retention")
        for trial in state.trials.values():  # of a run that is resumed
            self._adopt(trial)

    def take(self, event: AnyEvent) -> None:
        """Record the checkpoints of an event that the core has processed."""
        match event:
            case VisitEnded(trial=number, kept=True, rows=()) | ModelStowed(trial=number, error=None):
                tour = self._state.hop_progress.get(number)
                if tour is not None:
                    self._underway.setdefault(number, set()).add((tour.iteration, tour.safe))
                    self._touched.add(number)
            case Progressed(trial=number, saved=saved) if saved:
                self._there.setdefault(number, set()).update(saved)
                self._touched.add(number)
            case TrialPaused(trial=number):
                iteration = self._state.trial(number).saved
                if iteration:
                    self._there.setdefault(number, set()).add(iteration)
                self._touched.add(number)
            case TrialsSampled(trials=trials):
                for number, _ in trials:
                    self._adopt(self._state.trials[number])

    def _adopt(self, trial: Trial) -> None:
        if trial.parent is not None:
            self._children.setdefault(trial.parent, []).append(trial)

    def sweep(self) -> None:
        """Call when all taken events are durable in the journal."""
        state = self._state
        best = None if state.best is None else state.best.trial
        if best != self._best:
            self._touched |= {number for number in (best, self._best) if number is not None}
            self._best = best
        self._live |= self._touched
        over = {number for number in self._live if state.trials[number].phase.is_over}
        self._live -= over
        self._touched |= over
        touched, self._touched = self._touched, set()
        for number in touched & self._underway.keys():
            self._sweep_underway(number)
        if self._keeps_all:
            return
        for number in touched & self._there.keys():
            there = self._there[number]
            useless = there - self._wanted(state.trials[number], there)
            there -= useless
            for iteration in useless:
                self._hands.submit(self._store.delete, number, iteration)

    def _sweep_underway(self, number: TrialId) -> None:
        tour, there = self._state.hop_progress.get(number), self._underway[number]
        is_over = tour is None or self._state.trials[number].phase.is_over
        wanted = set() if tour is None or is_over else {(tour.iteration, tour.safe)}
        for iteration, visits in there - wanted:
            self._hands.submit(self._store.delete_underway, number, iteration, visits)
        there &= wanted

    def tidy(self) -> None:
        """After a regular end, when the journal is durable: deletes also checkpoints without an event, whose
        gang was dissolved before it could report them."""
        self._hands.submit(self._store.sweep)
        if self._state.terms.data is not None and self._state.ended is not None:
            self._hands.submit(self._store.tidy_underway)
        if not self._keeps_all:
            self._hands.submit(self._tidy)

    def close(self) -> None:
        self._hands.shutdown(wait=True)

    def _tidy(self) -> None:
        with contextlib.suppress(ExecutionError):  # a checkpoint that cannot be deleted stays
            there: dict[int, set[int]] = {}
            for number, iteration in self._store.list():
                there.setdefault(number, set()).add(iteration)
            for number, iterations in there.items():
                trial = self._state.trials.get(TrialId(number))
                wanted = set() if trial is None else self._wanted(trial, iterations)
                for iteration in iterations - wanted:
                    self._store.delete(number, iteration)

    def _may_go_on(self, trial: Trial) -> bool:
        """Whether an extension of the ended run would train it further."""
        state = self._state
        return self._keeps_race and trial.number in state.changes.cut and state.ended is not Ending.TARGET

    def _wanted(self, trial: Trial, there: set[int]) -> set[int]:
        state = self._state
        wanted = {iteration for parent, iteration in state.forks.values() if parent == trial.number}
        wanted |= {
            child.inherited
            for child in self._children.get(trial.number, ())
            if child.saved == child.inherited and (not child.phase.is_over or self._may_go_on(child))
        }
        if trial.saved and self._may_go_on(trial):
            wanted.add(trial.saved)
        if state.best is not None and state.best.trial == trial.number:
            wanted.add(state.best.iteration)
        if not trial.phase.is_over:
            known = [iteration for iteration in sorted(there) if iteration <= trial.iteration]
            wanted |= {trial.saved, *(there - set(known))}
            if known:
                best = max if state.terms.mode is Mode.MAX else min
                wanted.add(best(known, key=lambda each: trial.values[each - 1]))
        return wanted
