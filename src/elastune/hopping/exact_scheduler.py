"""`exact`: the shortest schedule, or the best one found in time and a bound, by CP-SAT of OR-Tools.

Every unit has an interval per holder of its partition, of which one is chosen; the intervals of a worker and
those of a trial do not overlap (the MILP of Cerebro's section 5.1 as a constraint program). `Planned` follows
such a schedule online and takes only the *order* of visits of each worker and trial from it: a late unit
delays those behind it and nothing else; a failed one runs again.

Deviations: times are whole ticks (milliseconds if possible, else so fine that the bound, lowered accordingly,
loses about a millionth). A hop depends on where a model was before, so every visit is planned with its hop:
if hops take time the result is good, but the search proves nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from elastune.errors import JobError
from elastune.hopping.epoch import Epoch, Schedule, ScheduledVisit, Unit, WorkerId
from elastune.hopping.epoch_state import Assignment, EpochState
from elastune.hopping.list_scheduler import MostLeft
from elastune.hopping.lower_bound import lower_bound_s
from elastune.hopping.simulation import simulate
from elastune.model.ids import TrialId

Plan = tuple[ScheduledVisit, ...]


@dataclass(slots=True)
class Planned:
    """Plans at the first dispatch, and again whenever a worker has joined or left."""

    plan: Callable[[Epoch], Plan]
    _visits: Plan = ()
    _first: int = 0
    _roster: int | None = None

    def dispatch(self, state: EpochState) -> tuple[Assignment, ...]:
        if self._roster != state.roster:
            self._visits, self._first, self._roster = self.plan(state.snapshot()), 0, state.roster
        while self._first < len(self._visits) and state.is_done(self._visits[self._first].unit):
            self._first += 1
        chosen = []
        trials: set[TrialId] = set()
        workers: set[WorkerId] = set()
        for visit in itertools.islice(self._visits, self._first, None):
            unit, worker = visit.unit, visit.worker
            if state.is_todo(unit):
                if unit.trial not in trials and worker not in workers and state.can_start(unit, worker):
                    chosen.append(Assignment(unit, worker))
                trials.add(unit.trial)
                workers.add(worker)
                if len(workers) == len(state.workers):
                    break
        return tuple(chosen)


OPTIMAL = 1e-6
FINEST = 2.0**30


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverEffort:
    """How long to search. `warm` starts from the schedule of `list`, so the result is never worse.

    With `limit_s` the result depends on the machine; with one thread and the solver's deterministic seconds,
    which are about as long, it does not.
    """

    limit_s: float = 10.0
    deterministic_s: float | None = None
    threads: int = 1
    seed: int = 0
    warm: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    schedule: Schedule | None  # None only if a cold search found nothing in time
    bound_s: float
    optimal: bool


def solve(epoch: Epoch, effort: SolverEffort | None = None) -> Solved:
    """The shortest schedule for the rest of the epoch; units without a holder are left out."""
    effort = effort or SolverEffort()
    first = simulate(epoch, MostLeft()) if effort.warm else None
    bound_s = lower_bound_s(epoch) if first is None else first.bound_s
    if first is not None and first.makespan_s <= bound_s * (1 + OPTIMAL):
        return Solved(schedule=first, bound_s=bound_s, optimal=True)
    found, proven_s = _Model(epoch, _Ticks.of(epoch)).solve(effort, bound_s, first)
    if not any(epoch.hops.seconds.values()):
        bound_s = max(bound_s, proven_s)
    # The order that was found, with the true times instead of ticks.
    retimed = simulate(epoch, Planned(lambda _: found)) if found else None
    candidates = [each for each in (first, retimed) if each is not None]
    if not candidates:
        return Solved(schedule=None, bound_s=bound_s, optimal=False)
    best = min(candidates, key=lambda schedule: schedule.makespan_s)
    bound_s = min(bound_s, best.makespan_s)
    optimal = best.makespan_s <= bound_s * (1 + OPTIMAL)
    return Solved(schedule=replace(best, bound_s=bound_s), bound_s=bound_s, optimal=optimal)


def exact_scheduler(effort: SolverEffort | None = None) -> Planned:
    """The same online: solved at the first dispatch, and again whenever a worker has joined or left."""
    return Planned(lambda epoch: (solve(epoch, effort).schedule or simulate(epoch, MostLeft())).visits)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ticks:
    durations: Mapping[tuple[Unit, WorkerId], int]
    underway: Mapping[WorkerId, int]
    tick_s: float
    excess: float  # the largest share by which a duration was rounded up

    @staticmethod
    def of(epoch: Epoch) -> _Ticks:
        seconds = {
            (unit, worker.id): worker.unit_s[unit.trial] * epoch.size(unit.partition)
            + epoch.hops.seconds.get(unit.trial, 0.0)
            for unit in epoch.units_left
            for worker in epoch.workers
            if unit.partition in worker.partitions
        }
        left_s = {each.worker: each.left_s for each in epoch.underway}
        every = [*seconds.values(), *left_s.values()]
        whole = all(abs(each * 1000 - round(each * 1000)) < 1e-9 * max(1.0, each) for each in every)
        tick_s = 1e-3 if whole else max(1e-300, sum(every) / FINEST)
        durations = {key: max(1, round(value / tick_s)) for key, value in seconds.items()}
        excess = max((ticks * tick_s / seconds[key] - 1.0 for key, ticks in durations.items()), default=0.0)
        underway = {worker: int(value / tick_s) for worker, value in left_s.items()}
        return _Ticks(durations=durations, underway=underway, tick_s=tick_s, excess=max(0.0, excess))


class _Model:
    def __init__(self, epoch: Epoch, ticks: _Ticks) -> None:
        self._ticks = ticks
        self._model = _ortools().CpModel()
        horizon = sum(ticks.durations.values()) + sum(ticks.underway.values())
        self._makespan = self._model.new_int_var(0, horizon, "makespan")
        self._starts: dict[tuple[Unit, WorkerId], Any] = {}
        self._chosen: dict[tuple[Unit, WorkerId], Any] = {}
        lanes: dict[object, list[Any]] = {}
        ways: dict[Unit, list[Any]] = {}
        for (unit, worker), length in ticks.durations.items():
            name = f"{unit.trial}/{unit.partition}/{worker}"
            start = self._model.new_int_var(0, horizon, name)
            chosen = self._model.new_bool_var(f"{name} chosen")
            interval = self._model.new_optional_fixed_size_interval_var(start, length, chosen, name)
            self._model.add(self._makespan >= start + length).only_enforce_if(chosen)
            self._starts[unit, worker], self._chosen[unit, worker] = start, chosen
            ways.setdefault(unit, []).append(chosen)
            for lane in (("trial", unit.trial), ("worker", worker)):
                lanes.setdefault(lane, []).append(interval)
        for each in epoch.underway:
            length = ticks.underway[each.worker]
            self._model.add(self._makespan >= length)
            if length:
                interval = self._model.new_fixed_size_interval_var(0, length, f"{each.worker} busy")
                for lane in (("trial", each.unit.trial), ("worker", each.worker)):
                    lanes.setdefault(lane, []).append(interval)
        for each_way in ways.values():
            self._model.add_exactly_one(each_way)
        for intervals in lanes.values():
            self._model.add_no_overlap(intervals)
        self._model.minimize(self._makespan)

    def solve(self, effort: SolverEffort, bound_s: float, first: Schedule | None) -> tuple[Plan, float]:
        """Visits in ticks, of which only the order counts, and a bound in true seconds."""
        cp_model = _ortools()
        self._model.add(self._makespan >= int(bound_s / self._ticks.tick_s * (1 - OPTIMAL)))
        if first is not None:
            self._hint(first)
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = effort.limit_s
        if effort.deterministic_s is not None:
            solver.parameters.max_deterministic_time = effort.deterministic_s
        solver.parameters.num_workers = effort.threads
        solver.parameters.random_seed = effort.seed
        status = solver.solve(self._model)
        proven_s = float(solver.best_objective_bound) * self._ticks.tick_s / (1 + self._ticks.excess)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return (), max(0.0, proven_s)
        visits = [
            ScheduledVisit(
                unit=unit,
                worker=worker,
                start_s=solver.value(start) * self._ticks.tick_s,
                end_s=(solver.value(start) + self._ticks.durations[unit, worker]) * self._ticks.tick_s,
            )
            for (unit, worker), start in self._starts.items()
            if solver.value(self._chosen[unit, worker])
        ]
        return tuple(sorted(visits, key=lambda visit: (visit.start_s, visit.worker))), proven_s

    def _hint(self, first: Schedule) -> None:
        """The schedule of `list`, in ticks."""
        free: dict[object, int] = {("worker", busy): ticks for busy, ticks in self._ticks.underway.items()}
        for visit in first.visits:
            key = (visit.unit, visit.worker)
            if key in self._starts:
                trial, worker = ("trial", visit.unit.trial), ("worker", visit.worker)
                start = max(free.get(trial, 0), free.get(worker, 0))
                free[trial] = free[worker] = start + self._ticks.durations[key]
                self._model.add_hint(self._starts[key], start)
        took = {(visit.unit, visit.worker) for visit in first.visits}
        for key, chosen in self._chosen.items():
            self._model.add_hint(chosen, int(key in took))


def _ortools() -> Any:
    try:
        from ortools.sat.python import cp_model  # noqa: PLC0415  heavy, and an extra
    except ImportError:
        raise JobError(
            "the exact scheduler of model hopping needs OR-Tools, which is not installed: "
            "pip install 'elastune[hopper]', or set the scheduler to 'list'"
        ) from None
    return cp_model
