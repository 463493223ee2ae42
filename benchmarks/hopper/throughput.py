"""Hopping beside task-parallel training on copied data, data-parallel training and model averaging.

The four train the same configurations for as many epochs, with the same batches, each in a run of its own on
nodes of this machine: a small network on two workers (there are two cores), and iterations that sleep on
eight. Times are from the first order to train to the last row, so without boots.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.hopper.costs import Sizes
from benchmarks.hopper.law import RESNET
from benchmarks.hopper.systems import Outcome, System, Workload, carry_out
from benchmarks.hopper.workloads import BATCH, network, sleeping
from benchmarks.reporting import Cell, Report, Table, Track, silently
from elastune.data.registering import register

MB = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """`copies`: noisy versions of each picture. `unit_s`: how long a visit sleeps."""

    copies: int = 100
    partitions: tuple[int, ...] = (2, 4)
    training_workers: int = 2
    training_epochs: int = 1
    unit_s: float = 0.7
    sleeping_workers: int = 8
    sleeping_epochs: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    system: System
    workload: Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    case: Case
    outcome: Outcome
    sizes: Sizes


def run(track: Track = silently) -> Report:
    return measure(Scope(), track)


def measure(scope: Scope, track: Track = silently) -> Report:
    with tempfile.TemporaryDirectory(prefix="hopper-data-") as folder:
        # Workers load torch once this process has it, so those that need none come first.
        cases = [*_sleeping(Path(folder), scope), *_training(Path(folder), scope)]
        measured = [_measure(case) for case in track(cases)]
    return Report(tables=(_times(measured, scope), _bytes(measured)))


def _training(folder: Path, scope: Scope) -> list[Case]:
    name = f"training, {scope.training_workers} workers"
    loads = {
        p: network(
            folder / f"{p}",
            copies=scope.copies,
            workers=scope.training_workers,
            partitions=p,
            epochs=scope.training_epochs,
        )
        for p in scope.partitions
    }
    first = loads[scope.partitions[0]]
    return [
        *(Case(name=name, system=System.HOPPING, workload=load) for load in loads.values()),
        *(
            Case(name=name, system=system, workload=first)
            for system in System
            if system is not System.HOPPING
        ),
    ]


def _sleeping(folder: Path, scope: Scope) -> list[Case]:
    load = sleeping(
        folder / "sleeping",
        RESNET,
        unit_s=scope.unit_s,
        workers=scope.sleeping_workers,
        epochs=scope.sleeping_epochs,
    )
    name = f"sleeping, {scope.sleeping_workers} workers"
    return [Case(name=name, system=system, workload=load) for system in System]


def _measure(case: Case) -> Measured:
    """The size of a model is known from hopping alone; others have it from there, see `_bytes`."""
    outcome, load = carry_out(case.workload, case.system), case.workload
    parts = register(load.training).training
    return Measured(
        case=case,
        outcome=outcome,
        sizes=Sizes(
            epochs=load.epochs,
            model_bytes=outcome.course.model_bytes,
            workers=load.partitions,
            trials=load.trials,
            data_bytes=float(sum(part.bytes for part in parts)),
            rows=sum(part.rows or 0 for part in parts),
            batch=BATCH,
        ),
    )


def _times(measured: Sequence[Measured], scope: Scope) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for each in measured:
        case, outcome = each.case, each.outcome
        hopping = _hopping(measured, case)
        rows.append(
            (
                case.name,
                case.system.value,
                case.workload.partitions if case.system is not System.TASKS else None,
                outcome.course.seconds,
                outcome.course.seconds / hopping.outcome.course.seconds,
                outcome.memory.mean_held / MB,
                outcome.memory.mean_held / hopping.outcome.memory.mean_held,
                outcome.memory.mean_rss / MB,
            )
        )
    alone = scope.unit_s * scope.sleeping_workers
    return Table(
        name="throughput",
        title="The same 16 configurations, epochs and batches, by system: real runs side by side",
        header=(
            "workload",
            "by",
            "partitions",
            "seconds",
            "by hopping's",
            "data per worker, MB",
            "by hopping's",
            "memory per worker, MB",
        ),
        rows=tuple(rows),
        note=(
            "Seconds from the first order to train to the last row, without boots; "
            f"{scope.training_epochs} and {scope.sleeping_epochs} epochs. Data: arrays that a worker process "
            "holds; memory: its RSS, at most; means over workers. Ratios to hopping with fewest partitions. "
            f"Sleeping: a visit takes {scope.unit_s} s, an epoch on one worker {alone:.1f} s; "
            "data-parallel sleeps by a law: a batch of 64 is shared, then a ring adds up the gradients, in "
            "the proportion that a ResNet-50 (100 MB, 200 pictures/s) has at 10 Gbit/s, a speed-up of "
            f"{RESNET.speedup(scope.sleeping_workers):.2f} on {scope.sleeping_workers} workers. "
            f"Load of the machine at the end {os.getloadavg()[0]:.1f}."
        ),
    )


def _bytes(measured: Sequence[Measured]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for each in measured:
        case, course = each.case, each.outcome.course
        sizes = _sizes(measured, each)
        match case.system:
            case System.HOPPING:
                seen: float | None = course.moved_bytes
                formula = sizes.hopping()
            case System.TASKS:
                seen = sum(each.outcome.memory.held)
                formula = sizes.full_replication()
            case System.TOGETHER:
                seen, formula = None, sizes.data_parallel()
            case System.AVERAGING:
                seen, formula = None, sizes.model_averaging()
        rows.append(
            (
                case.name,
                case.system.value,
                case.workload.partitions if case.system is not System.TASKS else None,
                sizes.model_bytes / MB,
                course.hops or None,
                None if seen is None else seen / MB,
                formula / MB,
                formula / _sizes(measured, _hopping(measured, case)).hopping(),
            )
        )
    return Table(
        name="throughput-bytes",
        title="Bytes over the network: what was measured, and Cerebro's Table 2",
        header=(
            "workload",
            "by",
            "partitions",
            "model, MB",
            "hops",
            "moved, MB",
            "by Table 2, MB",
            "Table 2, by hopping's",
        ),
        rows=tuple(rows),
        note="Moved: models that came from another worker (hopping), data that all workers hold "
        "(task-parallel); of gradients and means nothing is measured. A hop within a worker that holds "
        "several partitions moves nothing, nor does the first visit of a trial; models that are evaluated "
        "hop, too, which the formula leaves out. A batch is 64 rows over all workers, so data-parallel adds "
        "up once per 64 rows.",
    )


def _hopping(measured: Sequence[Measured], case: Case) -> Measured:
    """The run to compare with: of the same workload, the one with fewest partitions."""
    same = [m for m in measured if m.case.name == case.name and m.case.system is System.HOPPING]
    return min(same, key=lambda each: each.case.workload.partitions)


def _sizes(measured: Sequence[Measured], each: Measured) -> Sizes:
    workers = each.case.workload.workers if each.case.system is not System.HOPPING else each.sizes.workers
    return replace(each.sizes, workers=workers, model_bytes=_hopping(measured, each.case).sizes.model_bytes)
