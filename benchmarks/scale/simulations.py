"""Simulations of each policy with their journals, as trials grow on 16 nodes and as nodes grow."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.scale.growth import Stopwatch, Subject
from benchmarks.simulation import ours
from elastune.job.job import Job
from elastune.setup.run_setup import prepare

_HALVING = {"min_iterations": 1, "max_iterations": 27, "eta": 3}
_PROFILE = {"iteration": {"mean": 60.0, "sd": 3.0}, "startup": 2.0, "save": 1.0}


def job_of(policy: str, trials: int, nodes: int) -> Job:
    """About so many trials: those of SEER follow from its deadline."""
    search: dict[str, Any] = {"algorithm": policy, "trials": trials, **_HALVING}
    hours = trials * 3.2 * 60.0 / (nodes * 4 * 3600.0)  # of a search that stops bad trials early
    job: dict[str, Any] = {"trainable": "synthetic:hypersched", "search": search, "profile": _PROFILE}
    cluster: dict[str, Any] = {"slots_per_node": 4, "price_per_hour": 1.0, "nodes": nodes}
    if policy in {"random", "pbt"}:
        job["search"] = {"algorithm": policy, "trials": trials, "max_iterations": 3}
    if policy == "pbt":
        job["search"] |= {"interval": 1}
    if policy in {"seer", "hypersched"}:
        job["deadline"] = f"{hours * 1.5 + 0.2:.2f}h"
    if policy == "seer":
        del search["trials"], search["min_iterations"]
    if policy == "sha":
        cluster = {"slots_per_node": 4, "price_per_hour": 1.0, "max_nodes": nodes}
        job["deadline"] = f"{hours * 2 + 2.0:.2f}h"
    return Job.from_dict(job | {"cluster": cluster})


def _simulate(value: int, stopwatch: Stopwatch, *, policy: str, grows: str) -> int:
    """The plan of a planned search is not counted: `plans` measures it."""
    trials, nodes = (value, 16) if grows == "trials" else (max(2_000, 8 * value), value)
    setup = prepare(job_of(policy, trials, nodes))
    with tempfile.TemporaryDirectory() as folder, stopwatch.running():
        simulation = ours.simulate(setup, 0, Path(folder))
    return simulation.core.state.events


SUBJECTS = tuple(
    Subject(
        name=f"simulate-{policy}-{grows}",
        grows="trials, 16 nodes" if grows == "trials" else "nodes, 2 trials a slot",
        first=1_000 if grows == "trials" else 10,
        last=1_000_000 if grows == "trials" else 10_000,
        unit="events",
        measure=partial(_simulate, policy=policy, grows=grows),
    )
    for policy in ("asha", "sha", "hypersched", "seer", "random", "pbt")
    for grows in ("trials", "nodes")
)
