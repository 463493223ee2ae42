"""The execution model as an explicit graph, one sample at a time (RubberBand section 4.2, Algorithm 1).

The readable counterpart of `evaluator.py`: it can be printed and drawn, and the tests check that both agree
sample by sample. `tasks.py` has the kinds of work. If models hop (`hopping.py`), every epoch of a stage is a
step of its own: all trials and the busiest worker side by side, or one trial after the other on all workers.

Deviations from the paper: a queued trial waits for *any* gang to get free, not for one fixed predecessor;
nodes are billed one by one, so that the minimum charge and holding are exact.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from elastune.hopping.partitions import TrainingMode
from elastune.model.billing import bills_nodes, charged_s, ingress_usd, node_rate, slot_rate
from elastune.planning.prediction.draws import Draws
from elastune.planning.prediction.hopping import EpochRule, epoch_rules
from elastune.planning.prediction.plan import Plan, StagePlan, Workload, kept_stages
from elastune.planning.prediction.tasks import (
    BusiestWorker,
    Hop,
    InitInstance,
    Scale,
    Sync,
    Task,
    TrainTask,
    TrainTogether,
)


@dataclass(frozen=True, slots=True)
class TaskSpan:
    start_s: float
    end_s: float


def build_dag(workload: Workload, plan: Plan) -> tuple[Task, ...]:
    """The graph in topological order: each stage extends the frontier of the one before."""
    tasks: list[Task] = []
    frontier: tuple[int, ...] = ()

    def extend(new: Sequence[Task]) -> tuple[int, ...]:
        first = len(tasks)
        tasks.extend(new)
        return tuple(range(first, len(tasks)))

    held = len(workload.node_ages_s)
    for i, (kept, planned) in enumerate(zip(kept_stages(workload, plan), plan.stages, strict=True)):
        new = planned.nodes_held - held
        if new > 0:
            frontier = extend([Scale(stage=i, after=frontier, nodes=new)])
            frontier = extend([InitInstance(stage=i, after=frontier, node=n, of=new) for n in range(new)])
        if workload.hopping is None:
            frontier = extend(_train_gangs(workload, i, planned, frontier, kept=kept))
        else:
            frontier = _extend_by_epochs(extend, (workload, i), planned, frontier)
        frontier = extend([Sync(stage=i, after=frontier)])
        held = planned.nodes_held
    return tuple(tasks)


def _train_gangs(
    workload: Workload, stage: int, planned: StagePlan, after: tuple[int, ...], *, kept: bool
) -> list[TrainTask]:
    use = planned.allocation
    return [
        TrainTask(
            stage=stage,
            after=after,
            trial=trial,
            slots=use.slots_per_trial,
            gangs=use.gangs,
            speedup=workload.profile.speedup.at(use.slots_per_trial),
            kept=kept,
        )
        for trial in range(workload.stages[stage].trials)
    ]


def _extend_by_epochs(
    extend: Callable[[Sequence[Task]], tuple[int, ...]],
    of: tuple[Workload, int],
    planned: StagePlan,
    frontier: tuple[int, ...],
) -> tuple[int, ...]:
    """No trial begins an epoch before all have ended the one before; where epochs overlap, the busiest worker
    does not wait for that."""
    workload, stage = of
    for rule in epoch_rules(workload, stage, planned.allocation.gangs):
        if rule.manner is TrainingMode.HOPPING:
            busy = frontier
            for epoch in rule.epochs:
                *hops, busiest = _hop(stage, epoch, rule, _left(workload, stage, epoch), frontier)
                if rule.overlaps:
                    frontier, busy = extend(hops), extend([replace(busiest, after=busy)])
                else:
                    frontier = extend([*hops, busiest])
            frontier = (*frontier, *busy) if rule.overlaps else frontier
            continue
        for column, trial in enumerate(_left(workload, stage, rule.epochs.start)):
            together = TrainTogether(
                stage=stage,
                after=frontier,
                epochs=rule.epochs,
                trial=trial,
                column=column,
                slots=rule.gang,
                speedup=rule.speedup,
            )
            frontier = extend([together])
    return frontier


def _left(workload: Workload, stage: int, epoch: int) -> list[int]:
    return [trial for trial, work in enumerate(workload.stages[stage].work) if work > epoch]


def _hop(
    stage: int, epoch: int, rule: EpochRule, trials: Sequence[int], after: tuple[int, ...]
) -> list[Task]:
    """The open-shop bound: side by side, the longest of these ends the epoch."""
    hops = [
        Hop(
            stage=stage,
            after=after,
            epoch=epoch,
            trial=trial,
            column=column,
            hops_s=rule.hops_s,
            stretch=rule.stretch,
        )
        for column, trial in enumerate(trials)
    ]
    busiest = BusiestWorker(
        stage=stage,
        after=after,
        epoch=epoch,
        part=rule.busiest_part,
        of=rule.workers,
        hops_s=rule.hops_s * len(trials),
        stretch=rule.stretch,
    )
    return [*hops, busiest]


def walk_dag(tasks: Sequence[Task], draws: Draws, sample: int) -> tuple[TaskSpan, ...]:
    """Start and end of every task in one sample."""
    spans: list[TaskSpan] = []
    free: dict[int, list[float]] = {}
    for task in tasks:
        start = max((spans[i].end_s for i in task.after), default=0.0)
        if isinstance(task, TrainTask):
            gangs = free.setdefault(task.stage, [start] * task.gangs)
            start = heapq.heappop(gangs)
        end = start + task.latency_s(draws, sample)
        if isinstance(task, TrainTask):
            heapq.heappush(gangs, end)
        spans.append(TaskSpan(start, end))
    return tuple(spans)


def bill_dag(workload: Workload, plan: Plan, tasks: Sequence[Task], spans: Sequence[TaskSpan]) -> float:
    """What one sample costs."""
    new_nodes = sum(isinstance(task, InitInstance) for task in tasks)
    ingress = ingress_usd(workload.cluster, new_nodes)
    if bills_nodes(workload.cluster):
        return ingress + node_rate(workload.cluster) * _billed_node_s(workload, plan, tasks, spans)
    busy = sum(
        task.slots * (span.end_s - span.start_s) / (task.stretch if isinstance(task, Hop) else 1.0)
        for task, span in zip(tasks, spans, strict=True)
        if isinstance(task, TrainTask | Hop | TrainTogether)
    )
    return ingress + slot_rate(workload.cluster) * busy


def _billed_node_s(workload: Workload, plan: Plan, tasks: Sequence[Task], spans: Sequence[TaskSpan]) -> float:
    """Seconds charged for all nodes: first in, first out, each at least the minimum."""
    cluster = workload.cluster
    alive = deque(-age for age in sorted(workload.node_ages_s, reverse=True))
    billed = stage_start = 0.0
    for i, planned in enumerate(plan.stages):
        while len(alive) > planned.nodes_held:
            born = alive.popleft()
            billed += charged_s(cluster, stage_start - born) - max(0.0, -born)
        for task, span in zip(tasks, spans, strict=True):
            if task.stage == i and isinstance(task, InitInstance):
                alive.append(span.start_s)
            if task.stage == i and isinstance(task, Sync):
                stage_start = span.end_s
    return billed + sum(charged_s(cluster, stage_start - born) - max(0.0, -born) for born in alive)


def describe_dag(tasks: Sequence[Task]) -> str:
    """One line per task, for reading."""
    lines = []
    for index, task in enumerate(tasks):
        turn = ""
        if isinstance(task, TrainTask) and task.trial >= task.gangs:
            turn = f", when one of {task.gangs} gangs is free"
        after = f"  after {_ranges(task.after)}" if task.after else ""
        lines.append(f"{index:>4}  stage {task.stage}  {task.label}{after}{turn}")
    return "\n".join(lines)


def dag_to_dot(tasks: Sequence[Task]) -> str:
    """The graph in Graphviz' language, for drawing."""
    lines = ["digraph plan {", "  rankdir=LR;", "  node [shape=box];"]
    for index, task in enumerate(tasks):
        lines.append(f'  t{index} [label="{task.label}"];')
        lines.extend(f"  t{before} -> t{index};" for before in task.after)
    return "\n".join([*lines, "}"])


def _ranges(indices: tuple[int, ...]) -> str:
    if len(indices) > 1 and indices == tuple(range(indices[0], indices[-1] + 1)):
        return f"{indices[0]}-{indices[-1]}"
    return ", ".join(str(index) for index in indices)
