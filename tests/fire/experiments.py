"""Random experiments: a seed names a job, a policy and the faults that befall it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from elastune.core.policy import Policy
from elastune.errors import InfeasibleError
from elastune.job.job import Job
from elastune.job.search import SEARCHES
from elastune.model.quantities import PlannerName
from elastune.providers.simulated_faults import NodeFaults
from elastune.runtime.simulated.cloud import NO_FAULTS, Faults
from elastune.setup.run_setup import RunSetup, prepare
from tests.fire.requests import EXTENDED
from tests.fire.restless import Restless

LEARN = f"{Path(__file__).with_name('curves.py')}:learn"
SAMPLES = 64
# Seeds below are the experiments of the first two policies; those that once broke keep their numbers.
ALL_POLICIES = 300_000
# From here on some experiments may stop early and some workers are killed; streams of their own leave the
# rest to the same luck.
MAY_STOP_EARLY = 600_000
# And from here on the data are partitioned and the models hop.
HOPPING = 10_000_000
# And from here on their epochs overlap.
OVERLAPPING = 19_900_000
# And from here on nodes may come at another price, and there is a limit to what they cost per hour.
PRICED = 20_000_000
# And from here on the stages are declared one by one or eta is no whole number, and any planner is run.
DECLARED = 30_000_000
# And from here on it is the policy `forecast`, some of them with models that hop, some with several prices.
FORECAST = 40_000_000
FIRST_ALGORITHMS = ("sha", "sha", "sha", "hyperband", "asha", "asha")
NEEDS_DEADLINE = ("seer", "e-hyperband", "e-grid")


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
        limits = f"deadline {job.deadline}, budget {job.budget}, may exceed {job.may_exceed}"
        limits += "" if job.stop_when is None else f", stop when {job.stop_when}"
        policy = "restless" if self.setup.restless else self.setup.policy
        data = "" if job.data is None else f", {self.setup.terms.data}"
        return f"experiment {self.seed}: {policy}, {limits}, {self.faults}{data}"


def make_experiment(seed: int) -> Experiment:
    if seed >= EXTENDED:
        return replace(make_experiment(seed - EXTENDED), seed=seed)
    luck = random.Random(seed)
    job = _job(luck, _make_search(seed))
    job |= _stop_when(seed, str(job["mode"])) if seed >= MAY_STOP_EARLY else {}
    forecast = seed - FORECAST if seed >= FORECAST else None
    hops = HOPPING <= seed < PRICED or (forecast is not None and forecast % 4 == 1)
    job |= _data(random.Random(f"data {seed}"), overlaps=OVERLAPPING <= seed < PRICED) if hops else {}
    job |= _planner(random.Random(f"planner {seed}"), job) if DECLARED <= seed < FORECAST else {}
    setup = _prepare(job, luck)
    faults = _faults(luck)
    if PRICED <= seed < DECLARED or (forecast is not None and forecast % 4 == 2):
        setup, faults = _priced(setup, faults, random.Random(f"prices {seed}"))
    if seed >= MAY_STOP_EARLY:
        faults = replace(faults, killed=random.Random(f"killed {seed}").choice([0.0, 0.0, 0.05, 0.3]))
    return Experiment(seed=seed, setup=setup, faults=faults)


def _make_search(seed: int) -> Callable[[random.Random, int], dict[str, object]]:
    if seed >= FORECAST:
        return _forecast
    return _declared if seed >= DECLARED else _search if seed >= ALL_POLICIES else _first_search


def _job(
    luck: random.Random, make_search: Callable[[random.Random, int], dict[str, object]]
) -> dict[str, object]:
    slots = luck.choice([1, 2, 3, 4, 4, 8])
    search = make_search(luck, slots)
    algorithm = search["algorithm"]
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


def _first_search(luck: random.Random, slots: int) -> dict[str, object]:
    algorithm = luck.choice(FIRST_ALGORITHMS)
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
    return search


def _search(luck: random.Random, slots: int) -> dict[str, object]:
    algorithm = luck.choice([name for name in SEARCHES if name not in {"stages", "forecast"}])
    low = luck.choice([1, 1, 2, 3])
    options: dict[str, object] = {
        "min_iterations": low,
        "max_iterations": low * luck.choice([1, 3, 9, 20]),
        "eta": luck.choice([2, 3, 4]),
        "trials": luck.choice([1, 2, 5, 8, 12, 20]),
        "max_slots_per_trial": luck.choice([None, None, 2, 4, 8]),
        "nu": luck.choice([2, 2, 3]),
        "min_round": luck.choice([1.0, 30.0, 60.0, 300.0]),
        "spend_leftover": luck.random() < 0.7,
        "elimination": luck.choice(["global", "global", "bracket"]),
        "speculative": luck.random() < 0.8,
        "entrance": luck.choice(["deadline", "deadline", "always", 0.4]),
        "reallocate": luck.random() < 0.8,
        "profiled": luck.random() < 0.8,
        "cooldown": luck.choice([0, 2, 5]),
        "repeat": luck.random() < 0.2,
        "interval": luck.choice([1, 2, 5]),
        "quantile": luck.choice([0.1, 0.25, 0.5]),
    }
    fields = SEARCHES[algorithm].model_fields
    return {
        "algorithm": algorithm,
        "min_slots_per_trial": luck.choice([1, 1, 1, 2]) if slots > 1 else 1,
        **{key: value for key, value in options.items() if key in fields and value is not None},
        **({"sampler": "random"} if algorithm in {"grid", "bohb"} else {}),
    }


def _declared(luck: random.Random, slots: int) -> dict[str, object]:
    """Stages one by one, or those of an eta that is no whole number."""
    search: dict[str, object] = {"min_slots_per_trial": luck.choice([1, 1, 2]) if slots > 1 else 1}
    algorithm = luck.choice(["stages", "stages", "sha", "asha"])
    if algorithm == "stages":
        trials = sorted((luck.randint(1, 20) for _ in range(luck.randint(1, 6))), reverse=True)
        stages = [{"trials": each, "iterations": luck.choice([1, 1, 2, 5, 9])} for each in trials]
        return {"algorithm": algorithm, "stages": stages, **search}
    options = {
        "trials": luck.choice([1, 2, 5, 8, 12, 20]),
        "max_iterations": luck.choice([1, 3, 9, 20]),
        "eta": luck.choice([1.3, 1.5, 2.5, 3.7]),
    }
    return {"algorithm": algorithm, **options, **search}


def _forecast(luck: random.Random, slots: int) -> dict[str, object]:
    low = luck.choice([1, 1, 2, 3])
    options = {
        "min_iterations": luck.choice([None, low]),
        "max_iterations": luck.choice([None, low * luck.choice([1, 3, 9, 20]), 1000]),
        "trials": luck.choice([1, 2, 5, 8, 12, 20, 20, 40]),
        "max_slots_per_trial": luck.choice([None, None, 2, 4, 8]),
        "min_slots_per_trial": luck.choice([1, 1, 1, 2, 3]) if slots > 1 else 1,
    }
    if options["max_slots_per_trial"] == 2:
        options["min_slots_per_trial"] = min(2, options["min_slots_per_trial"] or 1)
    return {"algorithm": "forecast", **{key: value for key, value in options.items() if value is not None}}


def _priced(setup: FireSetup, faults: Faults, luck: random.Random) -> tuple[FireSetup, Faults]:
    """The plan is made for one price; what comes may cost more, or less."""
    cluster = setup.terms.cluster
    price, nodes = cluster.price_per_hour, cluster.max_nodes
    dearest = price * luck.choice([0.5, 1.5, 4.0])
    most = luck.choice([None, None, max(price, dearest) * luck.randint(1, nodes)])
    cluster = replace(cluster, most_price_per_hour=dearest, most_usd_per_hour=most)
    setup = replace(setup, terms=replace(setup.terms, cluster=cluster))
    return setup, replace(faults, nodes=replace(faults.nodes, dearer=luck.choice([0.2, 0.5, 1.0])))


def _stop_when(seed: int, mode: str) -> dict[str, object]:
    luck = random.Random(f"stop_when {seed}")
    if luck.random() < 0.3:
        return {}
    easy = luck.choice([0.1, 0.3, 0.6, 0.8, 2.0])
    target = f"score {luck.choice(['>=', '>'])} {easy}"
    return {"stop_when": target if mode == "max" else f"score {luck.choice(['<=', '<'])} {1 - easy}"}


def _data(luck: random.Random, *, overlaps: bool) -> dict[str, object]:
    """The exact scheduler may search for seconds, so its epochs are small."""
    partitions = luck.randint(1, 8)
    data: dict[str, object] = {
        "partitions": partitions,
        "replicas": luck.choice([1, 1, 1, 2, 3]),
        "scheduler": luck.choice(["list", "list", "randomized", "exact" if partitions == 1 else "list"]),
    }
    if luck.random() < 0.4:
        data |= {"make": LEARN, "validation": luck.choice([0.1, 0.3])}
        data |= luck.choice([{}, {"validation_partitions": luck.randint(1, 5)}])
    if overlaps:
        data |= {"overlap": True, "scheduler": luck.choice(["list", "list", "randomized"])}
    return {"execution": "hopper", "data": data}


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
    search = data["search"]
    assert isinstance(search, dict)
    if search["algorithm"] not in {*FIRST_ALGORITHMS, "stages"}:
        return _fire_setup(_prepare_online(data, str(search["algorithm"]), luck), luck)
    free = _without_limits(data)
    quote = free.quote
    seconds, usd = (quote.jct_quantile_seconds, quote.cost_quantile) if quote else (2000.0, 5.0)
    limits: dict[str, object] = {}
    if luck.random() < 0.6:
        limits["deadline"] = max(1.0, seconds * luck.choice([0.5, 1.0, 1.05, 1.5, 4.0]))
    if luck.random() < 0.5:
        limits["budget"] = max(0.01, usd * luck.choice([1.0, 1.05, 1.3, 4.0]))
    if limits and luck.random() < 0.4:
        limits["may_exceed"] = luck.choice(sorted(limits))
    planner = {"planner": free.job.planner} if "planner" in data else {}
    bounded = Job.from_dict({**data, **limits, **planner})
    try:
        chosen = prepare(bounded, samples=SAMPLES)
    except InfeasibleError:
        chosen = free
    return _fire_setup(chosen, luck)


def _without_limits(data: dict[str, object]) -> RunSetup:
    """If the planner has no plan at all for so few nodes, with the one that always has."""
    try:
        return prepare(Job.from_dict(data), samples=SAMPLES)
    except InfeasibleError:
        return prepare(Job.from_dict({**data, "planner": "exact"}), samples=SAMPLES)


def _planner(luck: random.Random, job: dict[str, object]) -> dict[str, object]:
    search = job["search"]
    assert isinstance(search, dict)
    return {} if search["algorithm"] == "asha" else {"planner": luck.choice(list(PlannerName))}


def _prepare_online(data: dict[str, object], algorithm: str, luck: random.Random) -> RunSetup:
    """Limits by chance, and wider ones where the policy cannot keep those."""
    deadline = luck.choice([200.0, 1000.0, 3000.0, 10_000.0])
    budget = luck.choice([0.2, 1.0, 5.0, 20.0])
    chance, limits = luck.random(), {}
    if chance < 0.8 or algorithm in NEEDS_DEADLINE:
        limits["deadline"] = deadline
    if chance > 0.2:
        limits["budget"] = budget
    search = data["search"]
    assert isinstance(search, dict)
    endless = search.get("repeat") or (algorithm == "forecast" and "max_iterations" not in search)
    may_exceed = {"may_exceed": luck.choice(sorted(limits))} if luck.random() < 0.3 and not endless else {}
    for factor in (1.0, 4.0, 16.0, 64.0, 256.0):
        wider = {key: value * factor for key, value in limits.items()}
        try:
            return prepare(Job.from_dict({**data, **wider, **may_exceed}), samples=SAMPLES)
        except InfeasibleError:
            continue
    raise AssertionError(f"{algorithm} finds no limits wide enough")


def _fire_setup(chosen: RunSetup, luck: random.Random) -> FireSetup:
    restless = luck.randint(20, 120) if luck.random() < 0.25 else 0
    names = ("job", "policy", "choice", "terms", "tuning", "quote", "search")
    fields = {name: getattr(chosen, name) for name in names}
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
