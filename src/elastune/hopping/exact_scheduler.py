"""Keeps to a schedule made before, while the world does not keep to its times.

Of every worker and every trial only the *order* of visits is taken from the plan: a unit starts as soon as it
is the next one for both. So a late unit moves those behind it and nothing else; one that failed comes again.

`exact`: the shortest schedule, or the best and a bound when the time is up, by CP-SAT of OR-Tools.

Every unit has an interval per holder of its partition, of which one is chosen; the intervals of a worker and
those of a trial do not overlap (the MILP of Cerebro's section 5.1 in the words of constraint programming).

Deviations: times are whole ticks (milliseconds if they are, else so fine that the bound, lowered accordingly,
loses about a millionth); and since a hop depends on where a model was before, every visit is planned with its
hop. Where hops take time the result is therefore good, but nothing is proven by the search.
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
    """Plans at the first question, and again whenever a worker has come or gone."""

    plan: Callable[[Epoch], Plan]
    _visits: Plan = ()
    _first: int = 0
    _roster: int | None = None

    def dispatch(self, floor: EpochState) -> tuple[Assignment, ...]:
        if self._roster != floor.roster:
            self._visits, self._first, self._roster = self.plan(floor.snapshot()), 0, floor.roster
        while self._first < len(self._visits) and floor.is_done(self._visits[self._first].unit):
            self._first += 1
        chosen = []
        trials: set[TrialId] = set()
        workers: set[WorkerId] = set()
        for visit in itertools.islice(self._visits, self._first, None):
            unit, worker = visit.unit, visit.worker
            if floor.is_todo(unit):
                if unit.trial not in trials and worker not in workers and floor.can_start(unit, worker):
                    chosen.append(Assignment(unit, worker))
                trials.add(unit.trial)
                workers.add(worker)
                if len(workers) == len(floor.workers):
                    break
        return tuple(chosen)


OPTIMAL = 1e-6
FINEST = 2.0**30


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverEffort:
    """How long to search. `warm` starts from the schedule of `list`, so the result is never worse.

    Seconds on the clock make the result depend on the machine; the solver's deterministic seconds, which are
    of about the same length, do not as long as there is one thread.
    """

    limit_s: float = 10.0
    deterministic_s: float | None = None
    threads: int = 1
    seed: int = 0
    warm: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """`schedule` is None only if a cold search found nothing in time."""

    schedule: Schedule | None
    bound_s: float
    optimal: bool


def solve(epoch: Epoch, effort: SolverEffort | None = None) -> Solved:
    """The shortest schedule for the rest of the epoch; units without a holder are left out."""
    effort = effort or SolverEffort()
    first = simulate(epoch, MostLeft()) if effort.warm else None
    bound_s = lower_bound_s(epoch) if first is None else first.bound_s
    if first is not None and first.makespan_s <= bound_s * (1 + OPTIMAL):
        return Solved(schedule=first, bound_s=bound_s, optimal=True)
    model = _Model(epoch, _Ticks.of(epoch))
    found, proven_s = model.solve(effort, bound_s, first)
    if not any(epoch.hops.seconds.values()):
        bound_s = max(bound_s, proven_s)
    candidates = [each for each in (first, _retimed(epoch, found)) if each is not None]
    if not candidates:
        return Solved(schedule=None, bound_s=bound_s, optimal=False)
    best = min(candidates, key=lambda schedule: schedule.makespan_s)
    bound_s = min(bound_s, best.makespan_s)
    optimal = best.makespan_s <= bound_s * (1 + OPTIMAL)
    return Solved(schedule=replace(best, bound_s=bound_s), bound_s=bound_s, optimal=optimal)


def exact_scheduler(effort: SolverEffort | None = None) -> Planned:
    """The same online: solved at the first question, and again whenever a worker has come or gone."""

    def plan(epoch: Epoch) -> Plan:
        solved = solve(epoch, effort)
        schedule = solved.schedule or simulate(epoch, MostLeft())
        return schedule.visits

    return Planned(plan)


def _retimed(epoch: Epoch, plan: Plan) -> Schedule | None:
    """The order that was found with the true times instead of ticks."""
    return simulate(epoch, Planned(lambda _: plan)) if plan else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ticks:
    """Whole numbers for the solver. `excess`: by which share a duration was rounded up, at most."""

    durations: Mapping[tuple[Unit, WorkerId], int]
    underway: Mapping[WorkerId, int]
    tick_s: float
    excess: float

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
    """The constraints, and what is needed to read the answer."""

    def __init__(self, epoch: Epoch, ticks: _Ticks) -> None:
        cp_model = _ortools()
        self._ticks = ticks
        self._model = cp_model.CpModel()
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
        """Visits in ticks (only their order counts), and a bound in true seconds."""
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
        """The schedule of `list`, laid out anew in ticks."""
        free: dict[object, int] = {}
        for busy, length in self._ticks.underway.items():
            free["worker", busy] = length
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
            "pip install 'elastune[hopper]', or take the scheduler 'list'"
        ) from None
    return cp_model
