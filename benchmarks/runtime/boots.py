"""Until the workers of nodes of one machine are ready, without Ray: each imports, or one process for all."""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.reporting import Cell, Report, Table, Track, silently
from elastune.checkpoints.store import Store
from elastune.model.checkpoint_rule import CheckpointRule
from elastune.model.metric import Mode
from elastune.runtime.ray.messages import CodeReference, News, SlotReady, WarmAddress, WorkerSpec
from elastune.runtime.ray.slot_processes import SlotProcesses
from elastune.runtime.ray.warm_process import WarmProcess

NODES = (1, 2, 4, 8)
SLOTS = 2
_HERE = Path(__file__).parent
_PATHS = (str(_HERE.parents[1]),)
_PRELOAD = ("torch",)


def run(track: Track = silently, *, repeats: int = 3) -> Report:
    return Report(tables=(measure(track, repeats=repeats),))


def measure(track: Track = silently, *, repeats: int = 3, counts: Sequence[int] = NODES) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for nodes in track(list(counts)):
        alone: list[float] = []
        shared: list[float] = []
        for _ in range(repeats):  # in turns
            alone.append(boot_s(nodes, is_shared=False))
            shared.append(boot_s(nodes, is_shared=True))
        row = statistics.median(alone), statistics.median(shared)
        rows.append((nodes, *row, row[0] / row[1]))
    return Table(
        name="boots",
        title=f"Nodes of {SLOTS} slots on one machine: until all slots have torch",
        header=("nodes", "each imports, s", "one process imports for all, s", "faster"),
        rows=tuple(rows),
        note=f"Medians of {repeats} boots in turns; load of the machine {os.getloadavg()[0]:.1f}. "
        "Ray's own processes are not included.",
    )


def boot_s(nodes: int, *, is_shared: bool) -> float:
    """From nothing."""
    began = time.perf_counter()
    warm = WarmProcess(_PATHS, _PRELOAD, threads=1) if is_shared else None
    booted: list[SlotProcesses] = []
    left = threading.Semaphore(0)

    def count(news: News) -> None:
        if isinstance(news, SlotReady):
            left.release()

    with tempfile.TemporaryDirectory() as folder:
        spec = _spec(Path(folder), None if warm is None else warm.address).seal()
        try:
            booted += (SlotProcesses(spec, SLOTS, count) for _ in range(nodes))
            for _ in range(nodes * SLOTS):
                left.acquire()
            return time.perf_counter() - began
        finally:
            for each in booted:
                each.close()
            if warm is not None:
                warm.close()


def _spec(folder: Path, warm: WarmAddress | None) -> WorkerSpec:
    reference = f"{_HERE / 'trainables.py'}:tick"
    return WorkerSpec(
        script=CodeReference(name="tick", metric="score", reference=reference),
        store=Store.open(folder),
        checkpoints=CheckpointRule(mode=Mode.MAX),
        pickles=False,
        threads=1,
        logs=None,
        host="127.0.0.1",
        preload=_PRELOAD,
        paths=_PATHS,
        warm=warm,
    )
