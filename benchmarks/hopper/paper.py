"""Cerebro's Table 2 with all six rows, and its Figure 8(A) and the replicas of Figure 11, simulated.

Table 2 is computed for the example of the paper; what our runs moved is measured by `throughput`.
Figure 8(A): 8 configurations, 5 epochs, by the number of workers, one partition each. Figure 11: the same on
8 workers, by the number of copies of each partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.hopper.costs import Sizes
from benchmarks.reporting import Cell, Report, Table, Track, silently
from elastune.api.simulating import simulate

GB = 1e9
EPOCH_S = 800.0
MODEL_GB = 0.293  # the paper's ResNet50
CONFIGS = 8
EPOCHS = 5
EXAMPLE = Sizes(
    epochs=20,
    model_bytes=GB,
    workers=10,
    trials=20,
    data_bytes=1000 * GB,
    rows=32 * 100_000,
    batch=32 * 10,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    workers: tuple[int, ...] = (1, 2, 4, 8)
    replicas: tuple[int, ...] = (1, 2, 4, 8)


def run(track: Track = silently) -> Report:
    return measure(Scope(), track)


def measure(scope: Scope, track: Track = silently) -> Report:
    alone_s = _simulated_s(1, 1)
    scaling = [(count, _simulated_s(count, 1)) for count in track(list(scope.workers))]
    copies = [(count, _simulated_s(8, count)) for count in track(list(scope.replicas))]
    return Report(tables=(_bytes(), _scaling(scaling, alone_s), _replicas(copies)))


def _bytes() -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in (
        "hopping",
        "full_replication",
        "remote_reads",
        "model_averaging",
        "parameter_server",
        "data_parallel",
    ):
        example, least = getattr(EXAMPLE, name)(), EXAMPLE.hopping()
        rows.append((name.replace("_", " "), example / 1000 / GB, example / least))
    return Table(
        name="paper-bytes",
        title="Cerebro's Table 2: bytes over the network, computed",
        header=("by", "TB", "by hopping's"),
        rows=tuple(rows),
        note="20 epochs of 20 configurations on 10 workers, models of 1 GB, data of 1 TB; 320 rows per step.",
    )


def flat(config: Mapping[str, float], iteration: int) -> float:
    return config["x"] * iteration


def _simulated_s(workers: int, replicas: int) -> float:
    job: dict[str, object] = {
        "trainable": flat,
        "metric": "score",
        "mode": "max",
        "space": {"x": {"float": [0.1, 1.0]}},
        "execution": "hopper",
        "data": {"partitions": workers, "replicas": replicas},
        "search": {"algorithm": "stages", "stages": [{"trials": CONFIGS, "iterations": EPOCHS}]},
        "profile": {"iteration": EPOCH_S, "checkpoint": MODEL_GB, "startup": 0.05},
        "cluster": {"slots_per_node": 1, "nodes": workers, "price_per_hour": 3.0},
    }
    return simulate(job).actual.jct_seconds


def _scaling(measured: list[tuple[int, float]], alone_s: float) -> Table:
    rows = tuple((workers, took_s, alone_s / took_s) for workers, took_s in measured)
    return Table(
        name="paper-scaling",
        title="Figure 8(A): 8 configurations, 5 epochs, by workers",
        header=("workers", "simulated, s", "speed-up"),
        rows=rows,
        note=f"Simulated: {EPOCH_S:g} s per epoch on one worker, models of {MODEL_GB * 1000:g} MB.",
    )


def _replicas(measured: list[tuple[int, float]]) -> Table:
    rows = tuple((replicas, took_s) for replicas, took_s in measured)
    return Table(
        name="paper-replicas",
        title="Figure 11: the same on 8 workers, by copies of each partition",
        header=("copies", "simulated, s"),
        rows=rows,
        note="Simulated. Visits are assigned to holders by load: copies do not save hops here.",
    )
