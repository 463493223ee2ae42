"""Workers of unequal speed and configurations of unequal cost, in real runs: hopping, with and without copies
of the partitions, and task-parallel training on copied data.

Cerebro explores such clusters by simulation only (Figure 6(B); here `schedules`). Visits sleep; a worker
process is slow or fast by its number. Each run is compared with what no schedule can beat: the work of all
workers at their speeds, and the partition or the trial that takes longest.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.hopper.holding import number_of
from benchmarks.hopper.journals import Course
from benchmarks.hopper.law import RESNET
from benchmarks.hopper.sleepers import Sleeper, WholeSleeper
from benchmarks.hopper.systems import System, carry_out
from benchmarks.hopper.workloads import sleeping
from benchmarks.reporting import Cell, Report, Table, Track, silently


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """`slowness` of each worker and `cost` of each trial: factors of the time of a visit."""

    unit_s: float = 0.3
    slowness: tuple[float, ...] = (1.0, 1.0, 2.0, 2.0)
    cost: tuple[float, ...] = (0.5, 0.5, 1.0, 1.0, 1.0, 1.0, 1.5, 1.5)
    epochs: int = 4
    replicas: tuple[int, ...] = (1, 2, 4)


class UnequalSleeper(Sleeper):
    def _sleep(self, seconds: float, *, visits: int) -> dict[str, float]:
        return _slowed(self, seconds, visits)


class WholeUnequalSleeper(WholeSleeper):
    def _sleep(self, seconds: float, *, visits: int) -> dict[str, float]:
        return _slowed(self, seconds, visits)


def _slowed(sleeper: Sleeper, seconds: float, visits: int) -> dict[str, float]:
    config = sleeper.config
    slowness = [float(each) for each in str(config["slowness"]).split()]
    number = number_of(config["notes"]) % len(slowness)
    time.sleep(seconds * float(config["cost"]) * slowness[number])
    sleeper.visits += visits
    return {"score": float(config["x"]) * sleeper.visits}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    system: System
    replicas: int


def run(track: Track = silently) -> Report:
    return measure(Scope(), track)


def measure(scope: Scope, track: Track = silently) -> Report:
    cases = [Case(system=System.HOPPING, replicas=copies) for copies in scope.replicas]
    cases.append(Case(system=System.TASKS, replicas=len(scope.slowness)))
    with tempfile.TemporaryDirectory(prefix="hopper-data-") as folder:
        measured = [(case, _course(Path(folder), scope, case)) for case in track(cases)]
    return Report(tables=(_table(measured, scope),))


def _course(folder: Path, scope: Scope, case: Case) -> Course:
    load = sleeping(
        folder,
        RESNET,
        unit_s=scope.unit_s,
        workers=len(scope.slowness),
        epochs=scope.epochs,
        trials=len(scope.cost),
    )
    slowness = " ".join(f"{each:g}" for each in scope.slowness)
    costs = [{"cost": cost} for cost in scope.cost]
    load = replace(
        load,
        trainable="unequal:UnequalSleeper",
        replicas=case.replicas,
        space={**load.space, "slowness": slowness, "cost": {"choice": sorted(set(scope.cost))}},
        configurations=costs,
    )
    return carry_out(load, case.system).course


def bound_s(scope: Scope, copies: int) -> float:
    """Of an epoch of hopping: no schedule is shorter, on whichever workers the partitions are.

    All work shared by all workers at their speeds; a trial that is on the fastest worker for ever; and with
    one copy, the slowest worker with its partition.
    """
    work_s, speeds = scope.unit_s * sum(scope.cost), sum(1.0 / each for each in scope.slowness)
    longest_s = scope.unit_s * max(scope.cost) * len(scope.slowness) * min(scope.slowness)
    slowest_s = work_s * max(scope.slowness) if copies == 1 else 0.0
    return max(work_s * len(scope.slowness) / speeds, longest_s, slowest_s)


def _table(measured: Sequence[tuple[Case, Course]], scope: Scope) -> Table:
    first = measured[0][1].seconds
    rows: list[tuple[Cell, ...]] = []
    for case, course in measured:
        is_hopping = case.system is System.HOPPING
        least_s = bound_s(scope, case.replicas) * scope.epochs
        by_bound = course.seconds / least_s if is_hopping else None
        epochs = course.epochs_s if is_hopping else []
        ends = (epochs[0], epochs[-1]) if epochs else (None, None)
        copies = case.replicas
        rows.append((case.system.value, copies, course.seconds, course.seconds / first, by_bound, *ends))
    return Table(
        name="unequal",
        title=f"{len(scope.cost)} configurations of unequal cost on workers of unequal speed, "
        f"{scope.epochs} epochs",
        header=(
            "by",
            "workers with each partition",
            "seconds",
            "by one copy's",
            "by the bound",
            "first epoch, s",
            "last epoch, s",
        ),
        rows=tuple(rows),
        note=f"A visit sleeps for {scope.unit_s:g} s, times {', '.join(f'{c:g}' for c in scope.cost)} by "
        f"trial and {', '.join(f'{s:g}' for s in scope.slowness)} by worker. The bound is of hopping's "
        "epochs, without any overhead; the run learns the speeds from its visits. Load of the machine at "
        f"the end {os.getloadavg()[0]:.1f}.",
    )
