"""What a visit costs beside training, by the size of the model, and short visits beside copies of the data.

Visits sleep. A model stays in its slot (one worker that holds all partitions), moves between two slots of a
node, or hops between two nodes of this machine. Overheads are of the journal: from the order of a visit to
its answer, without training. The last visit of an epoch also writes the checkpoint, and is shown apart.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.hopper.journals import Course, Stay
from benchmarks.hopper.law import RESNET
from benchmarks.hopper.systems import System, Workload, carry_out
from benchmarks.hopper.workloads import sleeping
from benchmarks.reporting import Cell, Report, Table, Track, silently

MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """`unit_s`: how long a visit sleeps beside the sizes; `short_s`: beside copies."""

    sizes_mb: tuple[int, ...] = (1, 100, 400)
    unit_s: float = 0.5
    epochs: int = 4
    partitions: int = 4
    short_s: float = 0.06
    short_workers: int = 4
    short_trials: int = 8
    short_epochs: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    name: str
    nodes: int
    slots_per_node: int
    trials: int


WAYS = (
    Way(name="in its slot", nodes=1, slots_per_node=1, trials=1),
    Way(name="between slots of a node", nodes=1, slots_per_node=2, trials=2),
    Way(name="between nodes", nodes=2, slots_per_node=1, trials=2),
)


def run(track: Track = silently) -> Report:
    return measure(Scope(), track)


def measure(scope: Scope, track: Track = silently) -> Report:
    cases = [(way, size) for size in scope.sizes_mb for way in WAYS]
    with tempfile.TemporaryDirectory(prefix="hopper-visits-") as name:
        folder = Path(name)
        rows = [_row(way, size, _course(folder, scope, way, size)) for way, size in track(cases)]
        short = _short(folder / "short", scope)
        bandwidth = _bandwidth(folder, max(scope.sizes_mb))
    return Report(tables=(_table(rows, scope), bandwidth, short))


def _course(folder: Path, scope: Scope, way: Way, size_mb: int) -> Course:
    workers = way.nodes * way.slots_per_node
    load = sleeping(
        folder / f"{workers}-{scope.partitions}",
        RESNET,
        unit_s=scope.unit_s,
        workers=scope.partitions,
        epochs=scope.epochs,
        trials=way.trials,
    )
    load = replace(
        load,
        trainable="sleepers:HeavySleeper",
        workers=workers,
        space={**load.space, "weights": size_mb * MB},
        cluster={"nodes": way.nodes, "slots_per_node": way.slots_per_node},
    )
    return carry_out(load, System.HOPPING).course


def _row(way: Way, size_mb: int, course: Course) -> tuple[Cell, ...]:
    """Without the first epoch, which reads the data."""
    stays = [stay for stay in course.stays if stay.lease.after_iteration > 0]
    # With more partitions than workers, some visits of a model that moves stay on their worker.
    moved = [stay for stay in stays if stay.ended.hopped] if way.trials > 1 else stays
    inner = [stay for stay in moved if not stay.visit.is_last]
    last = [stay for stay in stays if stay.visit.is_last]
    return (size_mb, way.name, len(inner), *_seconds(inner), *_seconds(last))


def _seconds(stays: Sequence[Stay]) -> tuple[Cell, ...]:
    overheads = [stay.overhead_s for stay in stays]
    return (statistics.median(overheads), max(overheads)) if overheads else (None, None)


def _table(rows: Sequence[tuple[Cell, ...]], scope: Scope) -> Table:
    return Table(
        name="visits",
        title=f"Overhead of a visit beside {scope.unit_s:g} s of training, in seconds",
        header=(
            "model, MB",
            "the model moves",
            "visits",
            "median",
            "largest",
            "last of an epoch, median",
            "last of an epoch, largest",
        ),
        rows=tuple(rows),
        note=(
            f"{os.cpu_count()} cores; {scope.partitions} partitions; {scope.epochs} epochs, the first "
            "not counted. "
            "The last visit of an epoch includes writing the checkpoint to the disk."
        ),
    )


def _bandwidth(folder: Path, size_mb: int) -> Table:
    """What this machine allows: one copy, one checksum, one durable file of the largest model."""
    data, other = np.ones(size_mb * MB, np.uint8), np.zeros(size_mb * MB, np.uint8)
    path = folder / "bandwidth"

    def write() -> None:
        with path.open("wb") as file:
            file.write(data.data)
            file.flush()
            os.fsync(file.fileno())

    steps: dict[str, Callable[[], object]] = {
        "copy in memory": lambda: np.copyto(other, data),
        "copy into new memory": data.copy,
        "checksum (CRC-32)": lambda: zlib.crc32(data.data),
        "write to the disk, durably": write,
    }
    rows: list[tuple[Cell, ...]] = []
    for name, step in steps.items():
        times = []
        for _ in range(3):
            began = time.perf_counter()
            step()
            times.append(time.perf_counter() - began)
        rows.append((name, size_mb, min(times), size_mb / 1000 / min(times)))
    return Table(
        name="visits-bandwidth",
        title="What this machine allows, best of three",
        header=("step", "MB", "seconds", "GB/s"),
        rows=tuple(rows),
    )


def _short(folder: Path, scope: Scope) -> Table:
    load = sleeping(
        folder,
        RESNET,
        unit_s=scope.short_s,
        workers=scope.short_workers,
        epochs=scope.short_epochs,
        trials=scope.short_trials,
    )
    seconds = {system: _epoch_s(load, system) for system in (System.HOPPING, System.TASKS)}
    least = scope.short_s * scope.short_workers * scope.short_trials / scope.short_workers
    rows: list[tuple[Cell, ...]] = [
        (system.value, spent, spent / seconds[System.TASKS], spent / least)
        for system, spent in seconds.items()
    ]
    return Table(
        name="visits-short",
        title=f"Visits of {scope.short_s * 1000:g} ms beside copies of the data, seconds per epoch",
        header=("by", "seconds", "by copies'", "by sleep alone"),
        rows=tuple(rows),
        note=(
            f"{scope.short_trials} trials on {scope.short_workers} workers, models of 1 MB, "
            f"the whole run by its {scope.short_epochs} epochs."
        ),
    )


def _epoch_s(load: Workload, system: System) -> float:
    """Copies train one trial after the other on each worker, so only the whole can be compared."""
    return carry_out(load, system).course.seconds / load.epochs
