"""What planning takes: the planners on RubberBand's largest job, and the evaluator beside the walked graph.

Processor seconds depend on the machine; the ratios, measured in the same run, much less.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from benchmarks.paper.init_latency import FLAT, problem_with
from benchmarks.planning.contestants import CONTESTANTS, fresh_case
from benchmarks.planning.timing import median_s
from benchmarks.reporting import Cell, Report, Table, Track, silently
from elastune.model.distributions import Normal
from elastune.model.limits import Limits
from elastune.planning.prediction.draws import Draws
from elastune.planning.prediction.evaluator import Evaluator
from elastune.planning.prediction.graph import bill_dag, build_dag, walk_dag
from elastune.planning.prediction.plan import Plan, Workload
from elastune.planning.prediction.tasks import Task, TrainTask
from elastune.planning.problem import Problem

DAG_SAMPLES = 100
PLANNED = ("static", "greedy-letter", "greedy", "exact")


def large_job(*, noisy: bool) -> Problem:
    """SHA(512, 4, 4096) on up to 256 nodes by 180 minutes; with noise at the default confidence."""
    certain = problem_with(FLAT, 10.0, 180.0)
    if not noisy:
        return certain
    profile = replace(certain.profile, iteration=Normal(12.0, 1.2), spread=0.05)
    return replace(certain, profile=profile, limits=Limits(deadline_s=certain.limits.deadline_s))


def run(track: Track = silently) -> Report:
    return Report(tables=(measure_planners(track), measure_evaluators()))


def measure_planners(track: Track = silently) -> Table:
    """Seconds for the options of all stages, which every planner needs, and for the search itself."""
    rows: list[tuple[Cell, ...]] = []
    steps = [(noisy, name) for noisy in (False, True) for name in PLANNED]
    for noisy, name in track(steps):
        problem = large_job(noisy=noisy)
        options_s = median_s(lambda: None, functools.partial(_build, problem))
        search_s = median_s(functools.partial(fresh_case, problem), CONTESTANTS[name])
        solution = CONTESTANTS[name](fresh_case(problem))
        cost = None if solution is None else solution.outcome.mean_cost_usd
        rows.append(("random" if noisy else "constant", name, options_s, search_s, cost))
    exact_s = {row[0]: row[3] for row in rows if row[1] == "exact"}
    with_ratio = tuple((*row, _ratio(row[3], exact_s[row[0]])) for row in rows)
    return Table(
        name="speed-planners",
        title="Planning SHA(512,4,4096) on up to 256 nodes: 180 minutes, INIT 10 s",
        header=("latencies", "planner", "options s", "search s", "plan $", "search / exact's"),
        rows=with_ratio,
        note="Processor seconds. 'options': the useful allocations of all stages, needed by every planner.",
    )


def _build(problem: Problem, _: None) -> None:
    fresh_case(problem)


def _ratio(one: Cell, other: Cell) -> Cell:
    return one / other if isinstance(one, float) and isinstance(other, float) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _LookedUp(TrainTask):
    """A TRAIN task that knows its latencies, so that the walk is timed and not the arithmetic before it."""

    latencies_s: tuple[float, ...]

    def latency_s(self, draws: Draws, sample: int) -> float:
        return self.latencies_s[sample]


def measure_evaluators() -> Table:
    """The same plan on the same 100 samples, predicted four ways."""
    problem = large_job(noisy=True)
    workload = problem.workloads()[0]
    solution = CONTESTANTS["exact"](fresh_case(problem))
    if solution is None:
        raise AssertionError("the large job has a plan")
    plan = solution.plan

    def draws() -> Draws:
        fresh = Draws(workload, samples=DAG_SAMPLES, seed=0)
        for stage in range(len(workload.stages)):
            fresh.train(stage, 0)
        return fresh

    def warm() -> Evaluator:
        evaluator = Evaluator(workload, draws())
        evaluator.evaluate(plan)
        return evaluator

    def look_up() -> tuple[list[Task], Draws]:
        fresh = draws()
        return [_looked_up(task, fresh) for task in build_dag(workload, plan)], fresh

    cold_s = median_s(draws, lambda fresh: Evaluator(workload, fresh).evaluate(plan), repeats=5)
    ways = {
        "evaluator, first plan": cold_s,
        "evaluator, stages known": median_s(warm, lambda evaluator: evaluator.evaluate(plan), repeats=5),
        "graph, latencies looked up": median_s(look_up, lambda ready: _walk(workload, plan, *ready)),
        "graph, as it stands": median_s(
            draws, lambda fresh: _walk(workload, plan, list(build_dag(workload, plan)), fresh), repeats=1
        ),
    }
    return Table(
        name="speed-evaluator",
        title=f"Predicting one plan of SHA(512,4,4096) on {DAG_SAMPLES} samples",
        header=("way", "ms", "/ evaluator, first plan"),
        rows=tuple((way, seconds * 1000, seconds / cold_s) for way, seconds in ways.items()),
        note="'stages known' is what a planner sees after its first plans. Drawing the samples is not timed.",
    )


def _looked_up(task: Task, draws: Draws) -> Task:
    if not isinstance(task, TrainTask):
        return task
    column = draws.train(task.stage, 0).durations(task.speedup)[:, task.trial]
    return _LookedUp(
        stage=task.stage,
        after=task.after,
        trial=task.trial,
        slots=task.slots,
        gangs=task.gangs,
        speedup=task.speedup,
        latencies_s=tuple(column.tolist()),
    )


def _walk(workload: Workload, plan: Plan, tasks: list[Task], draws: Draws) -> None:
    for sample in range(DAG_SAMPLES):
        bill_dag(workload, plan, tasks, walk_dag(tasks, draws, sample))
