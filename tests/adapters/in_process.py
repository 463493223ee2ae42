"""Runs of adapters without Ray: the real core, policy and sampler, on a virtual clock, with metrics from the
user's own training, which runs in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from elastune.api.simulating import simulate_many
from elastune.history.result import RunResult
from elastune.job.job import Job
from elastune.training.groups import Solo
from elastune.training.recipe import open_recipe
from elastune.training.worker import make_worker

# Arguments of `elastune.tune` that are no keys of a job.
_NOT_OF_THE_JOB = ("folder", "progress", "seed", "address", "watch", "policy", "planner")


def carry_out(folder: Path) -> Callable[..., RunResult]:
    """In place of `elastune.tune`."""

    def tune(user: Any, **given: Any) -> RunResult:
        keys = {name: value for name, value in given.items() if name not in _NOT_OF_THE_JOB}
        job = Job(trainable=_curve(user, keys["metric"]), **{"profile": {"iteration": "1s"}, **keys})
        campaign = simulate_many(job, folder=folder, seed=given.get("seed"))
        return campaign.results[0]

    return tune


def _curve(user: Any, metric: str) -> Callable[[Mapping[str, Any]], Iterator[Mapping[str, float]]]:
    recipe = open_recipe(user, name="user", metric=metric)

    def train(config: Mapping[str, Any]) -> Iterator[Mapping[str, float]]:
        worker = make_worker(Solo(), seed=7)
        training = recipe.start(config, worker, None)
        try:
            while True:
                worker.iteration += 1
                row = training.step()
                if row is None:
                    return
                yield row
        finally:
            training.close()

    return train
