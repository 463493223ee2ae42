"""Four ways to train many configurations on partitioned data.

Hopping is our own execution; in the others the trainable does by itself what such a system does, as gangs of
our own: so all have the same processes, nodes and reports, and differ in what moves.
"""

from __future__ import annotations

import enum
import json
import os
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.hopper.journals import Course
from benchmarks.runtime.journals import Timeline
from elastune.api.running import carry_out_run
from elastune.api.tuning import prepare_to_run
from elastune.runs.real import Watch

_ROOT = Path(__file__).parents[2]
_PACKAGE = "benchmarks.hopper"


class System(enum.Enum):
    HOPPING = "hopping"
    """The data stay, each worker has its partitions; the models hop."""
    TASKS = "task-parallel, data copied"
    """Each worker has all data and trains one model after the other by itself."""
    TOGETHER = "data-parallel, one model at a time"
    """Each worker has its partitions; all train one model, batch by batch."""
    AVERAGING = "model averaging, one model at a time"
    """Each worker trains a copy of the model on its partitions; after each epoch all take the mean (BSP)."""

    @property
    def takes_all(self) -> bool:
        """Whether a model has all workers to itself."""
        return self in (System.TOGETHER, System.AVERAGING)

    @property
    def prefix(self) -> str:
        """Of the name of the trainable that trains so."""
        return _PREFIXES.get(self, "")


_PREFIXES = {System.TASKS: "Whole", System.TOGETHER: "Sharing", System.AVERAGING: "Averaging"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Data in a folder and what is trained on them, as `module:class`.

    `believed_s`: what an iteration takes on one worker, as the job's profile has it.
    """

    data: Path
    validated: bool
    trainable: str
    space: Mapping[str, object]
    metric: str
    trials: int
    epochs: int
    workers: int
    partitions: int
    believed_s: float
    replicas: int = 1
    configurations: Sequence[Mapping[str, object]] = ()
    """What the trials get, one by one; without it they are drawn."""
    search: Mapping[str, object] = field(default_factory=dict)
    """Instead of one stage of all trials and epochs."""
    profile: Mapping[str, object] = field(default_factory=dict)
    cluster: Mapping[str, object] = field(default_factory=dict)
    served: Sequence[str] = ()
    """Addresses of the training data, if hopping does not read them from the folder."""

    @property
    def training(self) -> str:
        return str(self.data / "training")

    @property
    def validation(self) -> str:
        return str(self.data / "validation")

    def job(self, system: System, notes: str) -> dict[str, object]:
        """The same configurations, epochs and batches for all systems."""
        known = {"notes": notes, "training": self.training, "validation": self.validation}
        module, name = self.trainable.split(":")
        job: dict[str, object] = {
            "trainable": f"{_PACKAGE}.{module}:{system.prefix}{name}",
            "space": {**self.space, **known},
            "metric": self.metric,
            "mode": "max",
            "search": self._search(self.workers if system.takes_all else 1),
            "profile": {"iteration": self.believed_s, **self.profile},
            "slot": {"cpus": 1},
            "cluster": {
                "provider": "local",
                "slots_per_node": 1,
                "nodes": self.workers,
                "price_per_hour": 1.0,
                "minimum_charge": 0,
                **self.cluster,
            },
        }
        if self.configurations:
            job["start_configurations"] = [dict(each) for each in self.configurations]
        if system is not System.HOPPING:
            return job
        data = {"path": list(self.served) or self.training, "partitions": self.partitions}
        validation = {"validation": self.validation} if self.validated else {}
        return {**job, "execution": "hopper", "data": {**data, "replicas": self.replicas, **validation}}

    def _search(self, slots: int) -> dict[str, object]:
        """One stage, in which all trials train for all epochs; it begins when all nodes are up."""
        if self.search:
            return dict(self.search)
        return {
            "algorithm": "sha",
            "trials": self.trials,
            "min_iterations": self.epochs,
            "max_iterations": self.epochs,
            "min_slots_per_trial": slots,
            "max_slots_per_trial": slots,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Of the worker processes, in bytes: arrays of data that are held, and all memory (RSS), at most."""

    held: tuple[int, ...]
    rss: tuple[int, ...]

    @classmethod
    def read(cls, notes: Path) -> Memory:
        told = [json.loads(path.read_text()) for path in sorted(notes.glob("*.json"))]
        return cls(held=tuple(each["held"] for each in told), rss=tuple(each["rss"] for each in told))

    @property
    def mean_held(self) -> float:
        return statistics.fmean(self.held)

    @property
    def mean_rss(self) -> float:
        return statistics.fmean(self.rss)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    course: Course
    memory: Memory


def carry_out(workload: Workload, system: System, *, watch: Watch | None = None, seed: int = 0) -> Outcome:
    """A real run on nodes of this machine."""
    with tempfile.TemporaryDirectory(prefix="hopper-") as name, importable():
        folder, notes = Path(name) / "runs", Path(name) / "notes"
        notes.mkdir()
        carry_out_run(prepare_to_run(workload.job(system, str(notes)), seed=seed), folder=folder, watch=watch)
        return Outcome(course=Course.of(Timeline.read(folder)), memory=Memory.read(notes))


@contextmanager
def importable() -> Iterator[None]:
    """The workers import the trainables as a module, from where this one came."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(_ROOT), str(_ROOT / "src"), before or ""])
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
