"""Quotes: of noisy Successive Halving as its trials or its nodes grow, and of policies that are simulated."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.scale.growth import Stopwatch, Subject
from elastune.api.planning import quote
from elastune.job.job import Job

_NOISY = {
    "iteration": {"mean": 60.0, "sd": 6.0},
    "spread": 0.05,
    "startup": 2.0,
    "speedup": {1: 1.0, 2: 1.89, 4: 3.63, 8: 6.67},
}


def noisy_job(trials: int, nodes: int, deadline: str) -> Job:
    return Job.from_dict(
        {
            "trainable": "synthetic:hypersched",
            "search": {
                "algorithm": "sha",
                "trials": trials,
                "min_iterations": 1,
                "max_iterations": 256,
                "eta": 4,
            },
            "deadline": deadline,
            "profile": _NOISY,
            "cluster": _cluster(max_nodes=nodes),
        }
    )


def _cluster(**nodes: int) -> dict[str, Any]:
    return {"slots_per_node": 4, "price_per_hour": 12.24, "queue": 15.0, "init": 15.0, **nodes}


def _sha(value: int, stopwatch: Stopwatch, *, grows: str) -> int:
    trials, nodes = (value, 2_000) if grows == "trials" else (10_000, value)
    job = noisy_job(trials, nodes, "20h" if grows == "trials" else "200h")
    with stopwatch.running():
        quote(job)
    return trials


def _policy(trials: int, stopwatch: Stopwatch, *, algorithm: str) -> int:
    search: dict[str, Any] = {"algorithm": algorithm, "trials": trials, "max_iterations": 27}
    if algorithm != "random":
        search |= {"min_iterations": 1, "eta": 3}
    job = Job.from_dict(
        {
            "trainable": "synthetic:hypersched",
            "search": search,
            "deadline": f"{max(1, trials // 50)}h",
            "profile": _NOISY,
            "cluster": _cluster(nodes=16),
        }
    )
    with stopwatch.running():
        quote(job)
    return trials


SUBJECTS = (
    Subject(
        name="plan-sha-trials",
        grows="trials, 2000 nodes",
        first=1_000,
        last=1_000_000,
        unit="trials",
        measure=partial(_sha, grows="trials"),
    ),
    Subject(
        name="plan-sha-nodes",
        grows="nodes, 10000 trials",
        first=10,
        last=10_000,
        unit="trials",
        measure=partial(_sha, grows="nodes"),
    ),
    *(
        Subject(
            name=f"quote-{algorithm}",
            grows="trials, 16 nodes",
            first=100,
            last=100_000,
            unit="trials",
            measure=partial(_policy, algorithm=algorithm),
        )
        for algorithm in ("asha", "hypersched", "random")
    ),
)
