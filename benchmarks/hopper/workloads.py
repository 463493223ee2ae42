"""The two workloads of the benchmarks on real processes: a small network, and iterations that sleep."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.hopper.law import Law
from benchmarks.hopper.pictures import digits
from benchmarks.hopper.systems import Workload
from elastune.data.splitting import split

TRIALS = 16
BATCH = 64
ROW_BYTES = 1_000
WEIGHTS = 1_000_000
"""Bytes of a model that sleeps."""


def network(
    folder: Path, *, copies: int, workers: int, partitions: int, epochs: int, batch: int = BATCH
) -> Workload:
    """Digits of scikit-learn, each picture in so many noisy versions; evaluated on pictures never seen."""
    training, validation = digits(copies)
    split(training, folder / "training", partitions=partitions, seed=0)
    split(validation, folder / "validation", partitions=workers, seed=0)
    return Workload(
        data=folder,
        validated=True,
        trainable="networks:Network",
        space={
            "lr": {"float": [0.003, 0.3], "log": True},
            "momentum": {"choice": [0.0, 0.9]},
            "width": {"choice": [128, 256, 512]},
            "batch": batch,
        },
        metric="accuracy",
        trials=TRIALS,
        epochs=epochs,
        workers=workers,
        partitions=partitions,
        believed_s=len(training["labels"]) / 60_000,
    )


def sleeping(
    folder: Path,
    law: Law,
    *,
    unit_s: float,
    workers: int,
    epochs: int,
    trials: int = TRIALS,
    row_bytes: int = ROW_BYTES,
) -> Workload:
    """One partition per worker; a visit sleeps for `unit_s` on the clock of the law, made faster."""
    rows = int(20 * law.batch) * workers
    quick = law.shrunk(law.seconds(rows // workers, 1) / unit_s)
    split({"rows": np.zeros((rows, row_bytes), np.uint8)}, folder / "training", partitions=workers, seed=0)
    return Workload(
        data=folder,
        validated=False,
        trainable="sleepers:Sleeper",
        space={
            "x": {"float": [0.1, 1.0]},
            "row_s": quick.row_s,
            "reduce_s": quick.reduce_s,
            "batch": quick.batch,
            "weights": WEIGHTS,
        },
        metric="score",
        trials=trials,
        epochs=epochs,
        workers=workers,
        partitions=workers,
        believed_s=unit_s * workers,
    )
