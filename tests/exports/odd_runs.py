"""Runs with everything that is hard to write down: NaN, infinity, missing metrics, odd names and values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import elastune
from elastune.api.results import LoadedRun


def learn(config: Mapping[str, object], iteration: int) -> dict[str, float]:
    """The seventh trial diverges; `größe (%)` is there every other time, `inf` is infinite."""
    metrics = {"score": float(str(config["x"])) + iteration, "inf": math.inf, "trial": 7.0}
    if iteration % 2:
        metrics["größe (%)"] = math.nan if iteration == 3 else 0.5 * iteration
    if config["name"] == "schlecht" and iteration == 2:
        metrics["score"] = math.nan
    return metrics


SPACE = {
    "x": {"float": [0.0, 1.0], "grid": 2},
    "name": ["gut", "schlecht"],
    "flag": [True, False],
    "mixed": [1, "eins"],
    "depth": {"int": [1, 2], "when": {"name": "gut"}},
    "constant": "käse",
    "nothing": {"choice": [None]},
}
JOB: dict[str, object] = {
    "name": "odd",
    "trainable": learn,
    "space": SPACE,
    "metric": "score",
    "mode": "max",
    "search": {"algorithm": "grid", "max_iterations": 4},
    "profile": {"iteration": 1},
    "cluster": {"slots_per_node": 2, "nodes": 2, "price_per_hour": 3.6},
}


def odd_run(folder: Path, **changes: object) -> LoadedRun:
    elastune.simulate_many(JOB | changes, folder=folder)
    return elastune.load_run("last", folder=folder)
