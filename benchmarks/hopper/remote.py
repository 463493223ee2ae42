"""Data that are read again and again: Cerebro's Figures 10 (remote storage) and 11 (distributed storage).

The other system is task-parallel: a worker trains a whole epoch of one model by itself, and reads the
partitions that it does not have in every epoch of every model, because all data are too large for its memory.
It reads the next partition while it trains on one, so that reading costs time only where it takes longer than
training. In Figure 10 no worker has any data, and hopping reads each partition once, where it stays. In
Figure 11 the workers begin with copies of each partition, on so many of them, and only others are read.

The store is real: HTTP on this machine, slowed down per connection, and all bytes that it sends are counted.
Training sleeps.
"""

from __future__ import annotations

import io
import os
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hopper.holding import number_of
from benchmarks.hopper.journals import Course
from benchmarks.hopper.law import RESNET
from benchmarks.hopper.serving import FarStore
from benchmarks.hopper.sleepers import Sleeper
from benchmarks.hopper.systems import System, Workload, carry_out
from benchmarks.hopper.workloads import sleeping
from benchmarks.reporting import Cell, Report, Table, Track, silently

MB = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """`row_bytes`: by data set; the time to train on them is in proportion. `mb_per_s`: of one connection."""

    unit_s: float = 0.4
    workers: int = 4
    trials: int = 8
    epochs: int = 3
    scales: tuple[float, ...] = (0.5, 1.0)
    replicas: tuple[int, ...] = (1, 2, 4)
    row_bytes: int = 10_000
    mb_per_s: float = 50.0


_local: dict[str, Any] = {}
"""The partitions that this worker process has, by address."""
_lock = threading.Lock()


class WholeReadingSleeper(Sleeper):
    """Task-parallel. `copies`: of each partition, on the workers from the one of its number on."""

    def step(self) -> dict[str, float]:
        with ThreadPoolExecutor(max_workers=1) as reader:
            for rows in self._partitions(reader):
                self._sleep(self.law.seconds(rows, 1), visits=0)
        return self._sleep(0.0, visits=1)

    def _partitions(self, reader: ThreadPoolExecutor) -> Iterator[int]:
        """The rows of each, the next of which is being read meanwhile."""
        addresses = str(self.config["addresses"]).split()
        reads: list[Future[Any]] = [reader.submit(self._read, addresses, 0)]
        for number in range(len(addresses)):
            data = reads.pop().result()
            if number + 1 < len(addresses):
                reads.append(reader.submit(self._read, addresses, number + 1))
            yield len(data)

    def _read(self, addresses: Sequence[str], number: int) -> Any:
        address, copies = addresses[number], int(self.config["copies"])
        mine = number_of(self.config["notes"]) % len(addresses)
        if (number - mine) % len(addresses) >= copies:
            return _download(address)
        with _lock:  # as if it had been on the disk of this worker since before the run
            if address not in _local:
                _local[address] = _load(
                    Path(self.config["training"], address.rpartition("/")[2]).read_bytes()
                )
            return _local[address]


def _download(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=60.0) as answer:
        return _load(answer.read())


def _load(content: bytes) -> Any:
    return np.load(io.BytesIO(content))["rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    figure: str
    system: System
    data_mb: float
    copies: int
    course: Course
    read_bytes: int


def run(track: Track = silently) -> Report:
    return measure(Scope(), track)


def measure(scope: Scope, track: Track = silently) -> Report:
    cases = [("10", scale, 0) for scale in scope.scales]
    cases += [("11", max(scope.scales), copies) for copies in scope.replicas]
    both = [(case, system) for case in cases for system in (System.HOPPING, System.TASKS)]
    with tempfile.TemporaryDirectory(prefix="hopper-data-") as folder:
        measured = [_measure(Path(folder), scope, *case, system) for case, system in track(both)]
    return Report(tables=(_table(measured, scope),))


def _measure(folder: Path, scope: Scope, figure: str, scale: float, copies: int, system: System) -> Measured:
    load = _load_of(folder / f"{scale}", scope, scale)
    store = FarStore(load.data / "training", scope.mb_per_s * MB)
    with store.serving():
        names = sorted(path.name for path in (load.data / "training").glob("*.npz"))
        addresses = [store.address(name) for name in names]
        known: Mapping[str, object] = {"addresses": " ".join(addresses), "copies": copies}
        load = replace(load, replicas=max(1, copies), space={**load.space, **known})
        if system is System.HOPPING and not copies:
            load = replace(load, served=addresses)
        if system is System.TASKS:
            load = replace(load, trainable="remote:ReadingSleeper")
        course = carry_out(load, system).course
    data_mb = sum(path.stat().st_size for path in (load.data / "training").glob("*.npz")) / MB
    return Measured(
        figure=figure,
        system=system,
        data_mb=data_mb,
        copies=copies,
        course=course,
        read_bytes=store.sent_bytes,
    )


def _load_of(folder: Path, scope: Scope, scale: float) -> Workload:
    return sleeping(
        folder,
        RESNET,
        unit_s=scope.unit_s * scale,
        workers=scope.workers,
        epochs=scope.epochs,
        trials=scope.trials,
        row_bytes=int(scope.row_bytes * scale),
    )


def _table(measured: Sequence[Measured], scope: Scope) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for each in measured:
        hopping = next(
            m
            for m in measured
            if (m.figure, m.data_mb, m.copies) == (each.figure, each.data_mb, each.copies)
            and m.system is System.HOPPING
        )
        copies = each.copies or None
        read, moved = each.read_bytes / MB, each.course.moved_bytes / MB
        by = each.course.seconds / hopping.course.seconds
        rows.append((each.figure, each.data_mb, copies, _name(each), each.course.seconds, by, read, moved))
    return Table(
        name="remote",
        title=f"{scope.trials} configurations, {scope.epochs} epochs on {scope.workers} workers: "
        "data that are read when they are needed",
        header=(
            "figure",
            "data, MB",
            "copies of a partition",
            "by",
            "seconds",
            "by hopping's",
            "data read, MB",
            "models moved, MB",
        ),
        rows=tuple(rows),
        note=f"Figure 10: all data in a remote store, {scope.mb_per_s:g} MB/s for a connection. Figure 11: "
        "on the workers, in so many copies; what a worker has itself is not counted as read. Training "
        f"sleeps, {scope.unit_s:g} s for a partition of the largest data. Models of 1 MB. Load of the "
        f"machine at the end {os.getloadavg()[0]:.1f}.",
    )


def _name(each: Measured) -> str:
    return "hopping" if each.system is System.HOPPING else "task-parallel, remote reads"
