"""Random jobs that a fixed cluster can do in time; the same seed gives the same jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.planning.contestants import CONTESTANTS, fresh_case
from elastune.model.cluster import Billing, ClusterTerms
from elastune.model.distributions import Constant
from elastune.model.limits import Limits, Objective
from elastune.model.profile import Profile, Speedup
from elastune.model.stages import successive_halving
from elastune.planning.problem import Problem


def draw_jobs(count: int, *, seed: int, billing: Billing = Billing.INSTANCE) -> Iterator[Problem]:
    """Jobs of all shapes, constant latencies; the deadline is 1.02 to 4 times what static takes at least."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        job = _draw(rng, billing)
        fastest = CONTESTANTS["static"](fresh_case(job, objective=Objective.TIME))
        factor = _log_uniform(rng, 1.02, 4.0)
        if fastest is None:
            raise AssertionError("without limits there is always a static plan")
        yield replace(job, limits=Limits(deadline_s=factor * fastest.outcome.mean_jct_s))


def _draw(rng: np.random.Generator, billing: Billing) -> Problem:
    eta = int(rng.integers(2, 5))
    min_iterations = int(rng.integers(1, 9))
    spec = successive_halving(
        trials=round(_log_uniform(rng, 4, 256)),
        min_iterations=min_iterations,
        max_iterations=round(min_iterations * _log_uniform(rng, 8, 256)),
        eta=eta,
    )
    serial = rng.uniform(0.005, 0.1)
    slots = (2, 4, 8, 16)[: int(rng.integers(2, 5))]
    profile = Profile(
        iteration=Constant(_log_uniform(rng, 2, 300)),
        speedup=Speedup.of({n: 1 / (serial + (1 - serial) / n) for n in slots}),
        startup=Constant(rng.uniform(0, 10)),
    )
    cluster = ClusterTerms(
        slots_per_node=int(rng.choice([1, 2, 4, 8])),
        max_nodes=64,
        price_per_hour=12.24,
        billing=billing,
        queue=Constant(rng.uniform(0, 60)),
        init=Constant(rng.uniform(0, 120)),
    )
    return Problem(specs=(spec,), profile=profile, cluster=cluster)


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
