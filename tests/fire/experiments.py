"""Random experiments: a seed names a job, a policy and the faults that befall it."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

from elastune.bodies.simulated import NO_FAULTS, Faults
from elastune.core import Policy
from elastune.errors import InfeasibleError
from elastune.job import Job
from elastune.providers import NodeFaults
from elastune.runs import RunSetup, prepare
from tests.fire.restless import Restless

LEARN = f"{Path(__file__).with_name('curves.py')}:learn"
SAMPLES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class FireSetup(RunSetup):
    """Any policy, and one without sense."""

    restless: int = 0

    def make_policy(self, seed: int) -> Policy:
        return Restless(seed, self.restless) if self.restless else RunSetup.make_policy(self, seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    seed: int
    setup: FireSetup
    faults: Faults

    def __str__(self) -> str:
        job = self.setup.job
        limits = f"deadline {job.deadline}, budget {job.budget}, yields {job.yields}"
        policy = "restless" if self.setup.restless else self.setup.policy
        return f"experiment {self.seed}: {policy}, {limits}, {self.faults}"


def make_experiment(seed: int) -> Experiment:
    luck = random.Random(seed)
    job = _job(luck)
    setup = _prepare(job, luck)
    return Experiment(seed=seed, setup=setup, faults=_faults(luck))


def _job(luck: random.Random) -> dict[str, object]:
    slots = luck.choice([1, 2, 3, 4, 4, 8])
    algorithm = luck.choice(["sha", "sha", "sha", "hyperband", "asha", "asha"])
    low = luck.choice([1, 1, 2, 3])
    search: dict[str, object] = {
        "algorithm": algorithm,
        "min_iterations": low,
        "max_iterations": low * luck.choice([1, 3, 9, 20]),
        "eta": luck.choice([2, 3, 4]),
        "min_slots_per_trial": luck.choice([1, 1, 1, 2]) if slots > 1 else 1,
    }
    if algorithm != "hyperband":
        search["trials"] = luck.choice([1, 2, 5, 8, 12, 20])
    nodes = luck.choice(["nodes", "max_nodes", "max_nodes", "max_nodes"])
    return {
        "trainable": LEARN,
        "metric": "score",
        "mode": luck.choice(["max", "min"]),
        "space": {
            "limit": {"float": [0.1, 1.0]},
            "pace": {"float": [1.0, 20.0], "log": True},
            "breaks_at": {"choice": [2, 5, 1000, 1001, 1002, 1003]},
            "how": {"int": [0, 4]},
        },
        "search": search,
        "profile": _profile(luck),
        "retries": luck.choice([0, 0, 1, 3]),
        "checkpoint_every": luck.choice([None, None, 1.0, 45.0, 600.0]),
        "cluster": {
            "slots_per_node": slots,
            nodes: luck.choice([2, 3, 4, 8]) + (6 if algorithm == "hyperband" else 0),
            "price_per_hour": luck.choice([1.0, 12.24]),
            "billing": luck.choice(["instance", "instance", "instance", "function"]),
            "minimum_charge": luck.choice([0.0, 60.0, 60.0, 600.0]),
            "queue": luck.choice([0.0, 0.0, 15.0, {"mean": 20.0, "sd": 10.0}]),
            "init": luck.choice([0.0, 15.0, {"distribution": "lognormal", "mean": 30.0, "sd": 20.0}]),
            "data_gb": luck.choice([0.0, 0.0, 10.0]),
            "data_price_per_gb": 0.01,
        },
    }


def _profile(luck: random.Random) -> dict[str, object]:
    mean = luck.choice([1.0, 20.0, 60.0, 300.0])
    return {
        "iteration": luck.choice(
            [
                mean,
                mean,
                {"mean": mean, "sd": mean / 4},
                {"distribution": "lognormal", "mean": mean, "sd": mean},
            ]
        ),
        "spread": luck.choice([0.0, 0.0, 0.2]),
        "speedup": luck.choice([{"1": 1.0}, {"1": 1.0, "2": 1.8, "4": 3.0}, {"1": 1.0, "4": 3.9, "8": 7.0}]),
        "startup": luck.choice([0.0, 5.0, {"mean": 10.0, "sd": 5.0}]),
        "save": luck.choice([0.0, 1.0, 3.0, {"mean": 10.0, "sd": 5.0}]),
        "sync": luck.choice([0.0, 2.0]),
        "checkpoint": luck.choice([None, None, 2.0]),
    }


def _prepare(data: dict[str, object], luck: random.Random) -> FireSetup:
    """Limits are set around what the job needs, some too tight for the faults to come."""
    data = {key: value for key, value in data.items() if value is not None}
    profile = data["profile"]
    assert isinstance(profile, dict)
    data["profile"] = {key: value for key, value in profile.items() if value is not None}
    job = Job.from_dict(data)
    free = prepare(job, samples=SAMPLES)
    quote = free.quote
    seconds, usd = (quote.jct_quantile_seconds, quote.cost_quantile) if quote else (2000.0, 5.0)
    limits: dict[str, object] = {}
    if luck.random() < 0.6:
        limits["deadline"] = max(1.0, seconds * luck.choice([0.5, 1.0, 1.05, 1.5, 4.0]))
    if luck.random() < 0.5:
        limits["budget"] = max(0.01, usd * luck.choice([1.0, 1.05, 1.3, 4.0]))
    if limits and luck.random() < 0.4:
        limits["yields"] = luck.choice(sorted(limits))
    bounded = Job.from_dict({**data, **limits})
    try:
        chosen = prepare(bounded, samples=SAMPLES)
    except InfeasibleError:
        chosen = free
    restless = luck.randint(20, 120) if luck.random() < 0.25 else 0
    fields = {name: getattr(chosen, name) for name in ("job", "policy", "terms", "tuning", "quote", "search")}
    if restless:
        fields["terms"] = replace(fields["terms"], retries=2)
    return FireSetup(**fields, samples=SAMPLES, restless=restless)


def _faults(luck: random.Random) -> Faults:
    if luck.random() < 0.15:
        return NO_FAULTS

    def maybe(*values: float) -> float:
        return luck.choice([0.0, *values])

    return Faults(
        nodes=NodeFaults(
            lost_per_hour=maybe(0.5, 3.0),
            noticed_per_hour=maybe(0.5, 3.0),
            notice_s=luck.choice([1.0, 120.0]),
            refused=maybe(0.1, 0.5),
            boot_failure=maybe(0.1),
            straggler=maybe(0.2),
            straggler_factor=luck.choice([1.5, 5.0]),
            capacity=luck.choice([None, None, None, 1, 2]),
        ),
        crash=maybe(0.05, 0.3),
        driver_per_hour=maybe(0.0, 1.0, 6.0),
        driver_down_s=luck.choice([1.0, 300.0]),
    )
