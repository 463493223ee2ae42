"""Partitions larger than what a worker may hold: memory of every process while models hop over mapped files.

    python -m benchmarks.hopper memory
    python -m benchmarks.hopper.memory [GB] [MB per worker]

Makes random data in a temporary folder, splits them block by block, trains on them in a real run, and samples
the memory of all processes of the run: what is their own (anonymous), shared memory, and files that are
mapped, which the system takes back when it needs memory. Nothing is left behind.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.hopper.systems import importable
from benchmarks.reporting import Cell, Report, Table, Track, silently
from elastune.api.running import carry_out_run
from elastune.api.tuning import prepare_to_run
from elastune.data.splitting import split_files
from elastune.training.trainable import Trainable
from elastune.training.worker import Worker

MB = 1_000_000
_FEATURES = 1000
_BATCH = 256
_PARTITIONS = 4
_FILE_ROWS = 50_000
_KINDS = ("RssAnon", "RssShmem", "RssFile")
_PERIOD_S = 0.2


class Slope(Trainable):
    """Least squares by SGD: reads every row of the partition once."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        self.worker, self.rate = worker, config["lr"]
        self.weights = np.zeros(_FEATURES, np.float32)

    def step(self) -> dict[str, float]:
        total = 0.0
        for batch in self.worker.batches(self.worker.data, _BATCH):
            error = batch["x"] @ self.weights - batch["y"]
            self.weights -= self.rate / len(error) * (error @ batch["x"])
            total += float(error @ error)
        return {"loss": total / (self.worker.rows or 1)}

    def save(self) -> dict[str, Any]:
        return {"weights": self.weights}

    def load(self, state: dict[str, Any]) -> None:
        self.weights = state["weights"]


@dataclass
class MemoryWatch:
    """The most that each process below this one had, by kind, in bytes."""

    most: dict[int, dict[str, int]] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    @contextmanager
    def watching(self) -> Iterator[None]:
        over = threading.Event()

        def watch() -> None:
            while not over.wait(_PERIOD_S):
                for pid in _descendants(os.getpid()):
                    self._sample(pid)

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _sample(self, pid: int) -> None:
        try:
            lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
            name = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").replace("\0", " ")
        except OSError:
            return  # it has ended
        fields = dict(line.split(":", 1) for line in lines)
        now = {kind: int(fields.get(kind, "0 kB").split()[0]) * 1024 for kind in _KINDS}
        before = self.most.setdefault(pid, dict.fromkeys(_KINDS, 0))
        self.most[pid] = {kind: max(before[kind], now[kind]) for kind in _KINDS}
        self.names[pid] = _kind_of(name)


def _kind_of(command: str) -> str:
    for word, name in (
        ("fork_server", "slot"),
        ("warm_process", "slot"),
        ("ElastuneAgent", "agent"),
        ("raylet/raylet", "raylet"),
        ("gcs_server", "control store"),
        ("supervisor", "supervisor"),
        ("benchmarks.hopper", "driver"),
    ):
        if word in command:
            return name
    return "other"


def _descendants(root: int) -> set[int]:
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = path.read_text(encoding="utf-8").rsplit(") ", 1)[1]
            parents[int(path.parent.name)] = int(after_name.split()[1])
        except OSError:
            continue
    found, before = {root}, 0
    while len(found) > before:
        before = len(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return found


def make_data(folder: Path, size_gb: float) -> int:
    """In files of about 200 MB; returns the rows."""
    folder.mkdir()
    rows = max(_PARTITIONS, int(size_gb * 1e9 / (4 * (_FEATURES + 1))))
    draw = np.random.default_rng(0)
    slope = draw.standard_normal(_FEATURES, np.float32)
    some = draw.standard_normal((_FILE_ROWS // 50, _FEATURES), np.float32)
    for number, start in enumerate(range(0, rows, _FILE_ROWS)):  # the same rows again and again: it is quick
        x = np.tile(some, (50, 1))[: min(_FILE_ROWS, rows - start)]
        np.savez(folder / f"{number:05d}.npz", x=x, y=x @ slope)
    return rows


def run(track: Track = silently) -> Report:
    """4 GB in partitions of 1 GB, with 500 MB per worker."""
    return Report(tables=tuple(measure(4.0, 500.0) for _ in track([0])))


def measure(size_gb: float, memory_mb: float) -> Table:
    watch = MemoryWatch()
    with tempfile.TemporaryDirectory(prefix="hopper-memory-") as name, importable():
        folder = Path(name)
        rows = make_data(folder / "made", size_gb)
        began = time.monotonic()
        with watch.watching():
            split_files(folder / "made", folder / "data", partitions=_PARTITIONS)
        split_s, splitting = time.monotonic() - began, watch.most.pop(os.getpid())
        for path in (folder / "made").iterdir():
            path.unlink()
        job = _job(str(folder / "data"), memory_mb)
        began = time.monotonic()
        with watch.watching():
            carry_out_run(prepare_to_run(job, seed=0), folder=folder / "runs")
        run_s = time.monotonic() - began
    cells: list[tuple[Cell, ...]] = [("split", 1, *(splitting[kind] / MB for kind in _KINDS))]
    for kind in sorted(set(watch.names.values())):
        pids = [pid for pid, each in watch.names.items() if each == kind and pid in watch.most]
        if pids:
            largest = [max(watch.most[pid][each] for pid in pids) / MB for each in _KINDS]
            cells.append((kind, len(pids), *largest))
    return Table(
        name="memory",
        title=f"{size_gb:g} GB in {_PARTITIONS} partitions, at most {memory_mb:g} MB of data per worker",
        header=("processes", "count", "own, MB", "shared memory, MB", "mapped files, MB"),
        rows=tuple(cells),
        note=(
            f"The most of any process of its kind. {rows:,} rows; {split_s:.0f} s to split, {run_s:.0f} s "
            "for 2 trials of 2 epochs on 2 workers."
        ),
    )


def _job(data: str, memory_mb: float) -> dict[str, object]:
    return {
        "trainable": "benchmarks.hopper.memory:Slope",
        "space": {"lr": {"choice": [0.1, 0.01]}},
        "metric": "loss",
        "mode": "min",
        "execution": "hopper",
        "data": {"path": data, "memory": memory_mb / 1000, "load": "mapped"},
        "search": {"algorithm": "sha", "trials": 2, "min_iterations": 2, "max_iterations": 2},
        "profile": {"iteration": 10.0},
        "slot": {"cpus": 1},
        "cluster": {"provider": "local", "slots_per_node": 2, "nodes": 1, "price_per_hour": 1.0},
    }


if __name__ == "__main__":
    size_gb = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    memory_mb = float(sys.argv[2]) if len(sys.argv) > 2 else 500.0
    Console(width=150).print(measure(size_gb, memory_mb).to_rich())
