"""Slot processes alone, without Ray, and the news they report."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from elastune.checkpoints.store import Store
from elastune.data.dataset import Dataset
from elastune.model.checkpoint_rule import CheckpointRule
from elastune.model.metric import Mode
from elastune.runtime.ray.messages import (
    CodeReference,
    Form,
    GangId,
    GangTerms,
    News,
    SlotReady,
    WarmAddress,
    WorkerSpec,
)
from elastune.runtime.ray.slot_processes import SlotProcesses
from tests.waiting import PATIENCE_S

TRAINABLES = Path(__file__).parent / "trainables.py"
PATHS = (str(TRAINABLES.parents[3]),)

T = TypeVar("T")


class Watched:
    """The slot processes, and their news one by one."""

    def __init__(self, worker_spec: WorkerSpec, slots: int) -> None:
        self.news: queue.Queue[News] = queue.Queue()
        self.processes = SlotProcesses(worker_spec.seal(), slots, self.news.put)

    def wait_for(self, kind: type[T], is_it: Callable[[T], bool] = lambda _: True) -> T:
        """The next news of a kind; others before it are dropped."""
        until = time.monotonic() + PATIENCE_S
        seen: list[News] = []
        while time.monotonic() < until:
            try:
                news = self.news.get(timeout=0.5)
            except queue.Empty:
                continue
            seen.append(news)
            if isinstance(news, kind) and is_it(news):
                return news
        raise AssertionError(f"no {kind.__name__} came, but {seen}")


@contextmanager
def crew_of(
    name: str,
    folder: Path,
    *,
    slots: int = 1,
    preload: tuple[str, ...] = (),
    logs: bool = False,
    gpus: int = 0,
    fit: bool = True,
    fidelity: str | None = None,
    shared: tuple[str, ...] = (),
    dataset: Dataset | None = None,
    home: Path = TRAINABLES,
    warm: WarmAddress | None = None,
) -> Iterator[Watched]:
    reference = f"{home}:{name}"
    worker_spec = WorkerSpec(
        script=CodeReference(name=name, metric="score", fidelity=fidelity, reference=reference),
        store=Store.open(folder),
        checkpoints=CheckpointRule(mode=Mode.MAX),
        pickles=False,
        threads=1,
        logs=str(folder) if logs else None,
        host="127.0.0.1",
        gpus_per_slot=gpus,
        preload=preload,
        paths=PATHS,
        shared=shared,
        dataset=dataset,
        warm=warm,
    )
    watched = Watched(worker_spec, slots)
    try:
        for _ in range(slots if fit else 0):
            watched.wait_for(SlotReady)
        yield watched
    finally:
        watched.processes.close()


def form(
    trial: int = 0,
    *,
    generation: int = 1,
    rank: int = 0,
    size: int = 1,
    after: int = 0,
    until: int = 5,
    until_s: float | None = None,
    **config: float | str,
) -> Form:
    return Form(
        gang=GangId(trial, generation),
        rank=rank,
        size=size,
        config={"x": 0.5, **config},
        seed=7,
        after_iteration=after,
        origin=trial,
        expected_s=0.1,
        terms=GangTerms(until_iteration=until, until=until_s, keep_above=None),
    )
