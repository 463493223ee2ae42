"""Real runs with models that hop: data in files, trainables that remember every visit, and a replay of the
journal in the test process that tells what their states have to be."""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from elastune.core import events as ev
from elastune.core.commands import AnyCommand
from elastune.core.events import AnyEvent
from elastune.job.job import Job
from elastune.journal.codec import decode as decode_line
from elastune.journal.codec import event_of
from elastune.journal.store import Journal
from elastune.runs.real import FinishedRun
from elastune.training.trainable import Trainable
from elastune.training.worker import Worker
from tests.core.visits import Watch
from tests.runtime.real.runs import job_of
from tests.waiting import SLOW_BOOT_S

HERE = Path(__file__)
LEARNER = f"{HERE.with_name('learner.py')}:Learner"
ROWS = (5, 9, 3, 7)
VALIDATION_ROWS = (4, 6)
SMALL = {
    "algorithm": "sha",
    "trials": 4,
    "min_iterations": 1,
    "max_iterations": 4,
    "eta": 2,
    "max_slots_per_trial": 1,
}


def write_data(folder: Path, rows: tuple[int, ...] = ROWS, first: int = 0) -> Path:
    """One file per partition; no two rows are alike."""
    folder.mkdir(parents=True, exist_ok=True)
    start = first
    for number, count in enumerate(rows):
        np.savez(folder / f"part-{number}.npz", x=np.arange(start, start + count, dtype=np.float64))
        start += count
    return folder


def read(path: str) -> dict[str, Any]:
    """A reader of one's own."""
    return {"x": np.load(path)["x"] + 1000.0}


def advance(digest: str, iteration: int, partition: int, x: np.ndarray) -> str:
    """What a visit leaves: it depends on all visits before, in their order, and on the data."""
    return hashlib.sha256(f"{digest} {iteration} {partition} {x.tolist()}".encode()).hexdigest()


class Walker(Trainable):
    """Its state is a digest of its way; `ballast` makes it as heavy as a model."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        self.config, self.worker, self.digest = config, worker, f"{config['x']}"

    def step(self) -> Mapping[str, float]:
        worker, x = self.worker, self.worker.data["x"]
        assert worker.partition is not None
        assert worker.rows == len(x)
        self.misbehave()
        self._wait_at_gate()
        time.sleep(self.config.get("sleep", 0.0))
        self.digest = advance(self.digest, worker.iteration, worker.partition, x)
        if worker.partition == self.config.get("silent_on"):
            return {"mean": float(x.mean())}
        return {"score": self.config["x"] + 0.001 * worker.iteration, "mean": float(x.mean())}

    def evaluate(self) -> Mapping[str, float]:
        return {"validated": float(self.worker.data["x"].mean())}

    def misbehave(self) -> None: ...

    def _wait_at_gate(self) -> None:
        """From iteration `held_at` on, for the file `gate`."""
        held_at = self.config.get("held_at", math.inf)
        while self.worker.iteration >= held_at and not Path(self.config["gate"]).exists():
            time.sleep(0.02)

    def save(self) -> dict[str, Any]:
        weight = float(int(self.digest[:8], 16)) if len(self.digest) == 64 else 0.0
        return {"digest": self.digest, "ballast": np.full(int(self.config.get("ballast", 1)), weight)}

    def load(self, state: dict[str, Any]) -> None:
        self.digest = state["digest"]
        weight = float(int(self.digest[:8], 16))
        assert (state["ballast"] == weight).all(), "the bytes are not those of the digest"


class Odd(Walker):
    """On partition 2 of iteration 2 it does what `how` says."""

    def misbehave(self) -> None:
        if (self.worker.iteration, self.worker.partition) != (2, 2):
            return
        match self.config["how"]:
            case "raise":
                raise ValueError("partition 2 is a lie")
            case "hang":
                time.sleep(3600)
            case "hard-exit":
                os._exit(7)

    def step(self) -> Any:
        row = dict(super().step())
        if (self.worker.iteration, self.worker.partition) == (2, 2):
            if self.config["how"] == "nan":
                row["score"] = float("nan")
            if self.config["how"] == "none":
                return None
        return row


def walk(
    config: Mapping[str, Any], worker: Worker, state: dict[str, Any] | None
) -> Iterator[tuple[dict[str, float], Callable[[], dict[str, Any]]]]:
    """The same as a function."""
    digest = state["digest"] if state else f"{config['x']}"
    while True:
        assert worker.partition is not None
        time.sleep(config.get("sleep", 0.0))
        x = worker.data["x"]
        digest = advance(digest, worker.iteration, worker.partition, x)
        row = {"score": config["x"] + 0.001 * worker.iteration, "mean": float(x.mean())}
        yield row, lambda: {"digest": digest}  # noqa: B023  called only while it waits here


def sections(folder: Path, name: str = "Walker", **changes: Any) -> dict[str, Any]:
    """Of a job: the partitions of that folder on two nodes with one worker each."""
    return {
        "trainable": f"{HERE}:{name}",
        "execution": "hopper",
        "data": {"path": str(folder), **changes.pop("data", {})},
        "space": {"x": {"float": [0.0, 1.0]}, **changes.pop("space", {})},
        "search": SMALL,
        "profile": {"iteration": 1.0, "startup": 0.01, "save": 0.01},
        "cluster": {
            "slots_per_node": 1,
            "nodes": 2,
            "price_per_hour": 3.6,
            "minimum_charge": 0,
            "init": SLOW_BOOT_S,
        },
        **changes,
    }


def hopping_job(folder: Path, name: str = "Walker", **changes: Any) -> Job:
    return job_of(**sections(folder, name, **changes))


def journalled(folder: Path) -> Iterator[tuple[AnyEvent, list[AnyCommand]]]:
    """Every event of the one run there, with the commands that it caused."""
    journal = Journal.open(folder / "journal.sqlite", read_only=True)
    (record,) = journal.runs()
    for entry in journal.read(record.run):
        commands: list[Any] = [decode_line(line) for line in entry.command_lines]
        yield event_of(entry), commands


def watch_journal(folder: Path, partitions: int = len(ROWS), validation: int = 0) -> Watch:
    """With every invariant checked."""
    watch = Watch(partitions, validation)
    for event, commands in journalled(folder):
        watch.take(event, commands)
    return watch


def rows_of(folder: Path) -> dict[int, list[ev.Row]]:
    found: dict[int, list[ev.Row]] = {}
    for event, _ in journalled(folder):
        if isinstance(event, ev.Progressed):
            found.setdefault(event.trial, []).extend(event.rows)
    return found


def digest_of(
    watch: Watch, trial: int, x: float, data: list[np.ndarray], iterations: int | None = None
) -> str:
    """The state that the journalled visits must have led to."""
    digest = f"{x}"
    for iteration, order in enumerate(watch.orders[trial][:iterations], start=1):
        for partition in order:
            if partition < watch.partitions:
                digest = advance(digest, iteration, partition, data[partition])
    return digest


def data_of(folder: Path) -> list[np.ndarray]:
    return [np.load(path)["x"] for path in sorted(folder.glob("*.npz"))]


def leftovers(finished: FinishedRun) -> list[str]:
    """Durable states amid an epoch, which nobody needs after a good end."""
    return [path.name for path in (finished.folder.path / "checkpoints").rglob("underway-*")]
