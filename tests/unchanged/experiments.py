"""The experiments by name: jobs and plans for the command line, and seeds of `tests.fire`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fire.experiments import HOPPING, MAY_STOP_EARLY, PRICED

ROOT = Path(__file__).parents[2]
LEARN = f"{ROOT / 'tests' / 'fire' / 'curves.py'}:learn"
JOBS = 132
PLANS = 40
ALGORITHMS = (
    "sha",
    "hyperband",
    "asha",
    "bohb",
    "pbt",
    "random",
    "grid",
    "seer",
    "hypersched",
    "e-hyperband",
    "e-grid",
)
NEEDS_DEADLINE = ("seer", "hypersched", "e-hyperband", "e-grid")
FAULTS = (
    "none",
    "mild",
    "harsh",
    "none",
    "harsh,killed=0.1",
    "lost_per_hour=4,notice_s=30,crash=0.1",
    "mild,refused=0.4,capacity=2",
    "noticed_per_hour=6,driver_per_hour=5,driver_down_s=40",
    "boot_failure=0.2,straggler=0.4,dearer=0.5",
)
PLANNERS = ("exact", "greedy", "static", "naive-elastic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A job with the arguments of `simulate` or `plan`, or the seed of an experiment of `tests.fire`."""

    name: str
    job: dict[str, Any] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    reported: bool = False
    fire_seed: int | None = None
    measuring: bool = False

    @property
    def command(self) -> str:
        return self.name.partition("/")[0]


def all_experiments() -> list[Experiment]:
    return [*_jobs(), *_campaigns(), *_plans(), *_fires()]


def _jobs() -> Iterator[Experiment]:
    for number in range(JOBS):
        luck = random.Random(f"unchanged {number}")
        algorithm = ALGORITHMS[number % len(ALGORITHMS)]
        faults = FAULTS[number % len(FAULTS)]
        job = make_job(luck, algorithm, hopping=(number + 2 * (number // 11)) % 7 == 5)
        yield Experiment(
            name=f"simulate/{algorithm}/{job['execution']}/{faults.partition(',')[0]}/{number:03}",
            job=job,
            arguments=("--seed", f"{number}", "--faults", faults),
            reported=number % 16 == 5,
        )


def _campaigns() -> Iterator[Experiment]:
    for number, algorithm in enumerate(("sha", "asha", "sha")):
        job = make_job(random.Random(f"campaign {number}"), algorithm, hopping=number == 2)
        job |= {"deadline": 20_000, "budget": 500}
        policies = "rubberband,asha,hypersched" if algorithm != "asha" else "asha,random,seer"
        arguments = ("--seeds", "3", "--policy", policies, "--faults", "mild")
        yield Experiment(name=f"campaign/{algorithm}/{number}", job=job, arguments=arguments)


def _plans() -> Iterator[Experiment]:
    for number in range(PLANS):
        luck = random.Random(f"plan {number}")
        algorithm = ("sha", "sha", "sha", "hyperband", *ALGORITHMS[2:])[number % 13]
        job = make_job(luck, algorithm, hopping=number % 8 == 7)
        planned = algorithm in {"sha", "hyperband"}
        options: tuple[str, ...] = ("--planner", PLANNERS[number % len(PLANNERS)]) if planned else ()
        options += ("--frontier",) if planned and number % 5 == 0 else ()
        options += ("--compare",) if planned and number % 5 == 1 else ()
        yield Experiment(
            name=f"plan/{algorithm}/{job['execution']}/{number:02}",
            job=job,
            arguments=(*options, "--samples", "512"),
        )


def _fires() -> Iterator[Experiment]:
    for kind, first, count in (
        ("first", 0, 20),
        ("gang", MAY_STOP_EARLY, 80),
        ("hopper", HOPPING, 60),
        ("priced", PRICED, 80),
    ):
        for seed in range(first, first + count):
            yield Experiment(name=f"fire/{kind}/{seed}", fire_seed=seed)
    for seed in (*range(MAY_STOP_EARLY, MAY_STOP_EARLY + 6), *range(HOPPING, HOPPING + 6)):
        yield Experiment(name=f"measure/{seed}", fire_seed=seed, measuring=True)


def make_job(luck: random.Random, algorithm: str, *, hopping: bool) -> dict[str, Any]:
    slots = luck.choice([1, 2, 4, 4, 8])
    job: dict[str, Any] = {
        "name": "unchanged",
        **_training(luck, algorithm),
        "search": _search(luck, algorithm, slots),
        "profile": _profile(luck),
        "cluster": _cluster(luck, slots),
        "retries": luck.choice([0, 1, 3]),
        "execution": "hopper" if hopping else "gang",
        **_limits(luck, algorithm),
    }
    if luck.random() < 0.4:
        job["checkpoint_every"] = luck.choice([5.0, 45.0, 300.0])
    return job | _hopping(luck, job, algorithm) if hopping else job


def _hopping(luck: random.Random, job: dict[str, Any], algorithm: str) -> dict[str, Any]:
    """Small: before the run, its policy is simulated sixteen times for the quote."""
    sizes = {"trials": 4, "max_iterations": luck.choice([3, 5]), "min_iterations": 1}
    known = {key: value for key, value in sizes.items() if key in job["search"]}
    search = job["search"] | known | ({"max_iterations": 10} if algorithm in NEEDS_DEADLINE else {})
    data = {
        "partitions": luck.randint(1, 3),
        "replicas": luck.choice([1, 1, 2]),
        "scheduler": luck.choice(["list", "randomized"] if algorithm == "sha" else ["list"]),
    }
    limits = {"deadline": 1200} if algorithm in NEEDS_DEADLINE else {}
    return {"search": search, "data": data, **limits}


def _training(luck: random.Random, algorithm: str) -> dict[str, Any]:
    if algorithm != "grid" and luck.random() < 0.4:
        return {"trainable": "synthetic:hypersched"}
    pace: dict[str, Any] = {"float": [1.0, 20.0], "log": True}
    limit: dict[str, Any] = {"float": [0.1, 1.0]}
    if algorithm == "grid":
        pace, limit = {"choice": [2, 5, 11]}, {"choice": [0.3, 0.6, 0.9]}
    breaks = luck.choice([[1000], [1000], [1000, 1001, 1002, 4]])
    training: dict[str, Any] = {
        "trainable": LEARN,
        "metric": "score",
        "mode": luck.choice(["max", "max", "min"]),
        "space": {"limit": limit, "pace": pace, "breaks_at": {"choice": breaks}, "how": {"choice": [0, 3]}},
    }
    if training["mode"] == "max" and luck.random() < 0.25:
        training["stop_when"] = f"score >= {luck.choice([0.7, 0.85])}"
    return training


def _search(luck: random.Random, algorithm: str, slots: int) -> dict[str, Any]:
    low = luck.choice([1, 1, 2, 3])
    high = low * luck.choice([9, 20])
    search: dict[str, Any] = {"algorithm": algorithm}
    if slots > 1:
        search["min_slots_per_trial"] = luck.choice([1, 1, 1, 2])
    if luck.random() < 0.3:
        search["max_slots_per_trial"] = luck.choice([2, 4])
    match algorithm:
        case "sha":
            search |= {"trials": luck.choice([8, 16, 27]), "min_iterations": low, "max_iterations": high}
            search["eta"] = luck.choice([2, 3, 4])
        case "hyperband" | "bohb":
            search |= {"min_iterations": low, "max_iterations": high, "eta": luck.choice([3, 4])}
        case "asha" | "hypersched":
            search |= {"min_iterations": low, "max_iterations": high, "trials": luck.choice([12, 24])}
        case "pbt" | "random" | "grid":
            search |= {"trials": luck.choice([4, 8, 9]), "max_iterations": high}
        case _:
            search |= luck.choice([{}, {"max_iterations": 200}])
    if algorithm in {"sha", "asha", "random"}:
        search["sampler"] = luck.choice(["random", "random", "tpe", "qmc"])
    return search


def _profile(luck: random.Random) -> dict[str, Any]:
    mean = luck.choice([5.0, 20.0, 60.0])
    return {
        "iteration": luck.choice([mean, {"mean": mean, "sd": mean / 5}]),
        "spread": luck.choice([0.0, 0.1, 0.3]),
        "speedup": luck.choice([{1: 1.0, 2: 1.8, 4: 3.0}, {1: 1.0, 4: 3.9, 8: 7.0}]),
        "startup": luck.choice([0.0, 4.0, {"mean": 8.0, "sd": 3.0}]),
        "save": luck.choice([0.0, 1.0, {"mean": 5.0, "sd": 2.0}]),
        "sync": luck.choice([0.0, 2.0]),
    }


def _cluster(luck: random.Random, slots: int) -> dict[str, Any]:
    price = luck.choice([1.0, 3.06, 12.24])
    nodes = luck.choice([3, 4, 6, 8])
    cluster: dict[str, Any] = {
        "slots_per_node": slots,
        luck.choice(["nodes", "max_nodes", "max_nodes", "max_nodes"]): nodes,
        "price_per_hour": price,
        "billing": luck.choice(["instance", "instance", "function"]),
        "minimum_charge": luck.choice([0.0, 60.0, 600.0]),
        "queue": luck.choice([0.0, 15.0, {"mean": 20.0, "sd": 10.0}]),
        "init": luck.choice([0.0, 15.0, {"distribution": "lognormal", "mean": 30.0, "sd": 20.0}]),
        "data_gb": luck.choice([0.0, 10.0]),
        "data_price_per_gb": 0.01,
    }
    chance = luck.random()
    if chance < 0.25:
        cluster["most_price_per_hour"] = price * 2
    elif chance < 0.4:
        cluster |= {"most_price_per_hour": price * 1.5, "most_spend_per_hour": price * 1.5 * nodes}
    elif chance < 0.6:
        cluster["kinds"] = [
            {"name": "small", "slots_per_node": slots, "price_per_hour": price},
            {"name": "large", "slots_per_node": 2 * slots, "price_per_hour": price * 1.7, "init": 40.0},
        ]
    elif chance < 0.7:
        cluster["interruptions_per_hour"] = 0.5
    return cluster


def _limits(luck: random.Random, algorithm: str) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if algorithm in NEEDS_DEADLINE or luck.random() < 0.6:
        limits["deadline"] = luck.choice([1200, 3000, 6000, 20_000])
    if luck.random() < 0.6 or algorithm == "seer":
        limits["budget"] = luck.choice([3.0, 10.0, 40.0, 200.0])
    return limits
