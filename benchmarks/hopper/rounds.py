"""Full rounds and quotes that hold, all simulated: Hyperband as in Cerebro's appendix E.1, the utilisation of
every policy on the same epochs, and random jobs against their quotes.

The bound of Hyperband is `max(work of the heaviest worker, longest trial)`. Barriers make it unreachable:
while the last trials of the brackets train alone, workers wait for models. So a second bound is stated: each
bracket ends with its last stage, so for as long as the shortest of these takes, only trials of last stages
train, however brackets are interleaved.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.reporting import Cell, Report, Table, Track, silently
from elastune.api.planning import plan
from elastune.api.simulating import simulate
from elastune.errors import InfeasibleError, JobError
from elastune.model.stages import Spec, hyperband

WORKERS = 8
EPOCH_S = 80.0
UNIT_S = EPOCH_S / WORKERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    jobs: int = 200
    max_iterations: int = 25


def rising(config: Mapping[str, float], iteration: int) -> float:
    return config["x"] * iteration


def _job(search: dict[str, object], **changes: object) -> dict[str, object]:
    return {
        "trainable": rising,
        "metric": "score",
        "mode": "max",
        "space": {"x": {"float": [0.1, 1.0]}},
        "execution": "hopper",
        "data": {"partitions": WORKERS, "partitions_per_worker": 1},
        "search": search,
        "profile": {"iteration": EPOCH_S},
        "cluster": {"slots_per_node": 1, "nodes": WORKERS, "price_per_hour": 3.0},
        **changes,
    }


def run(track: Track = silently) -> Report:
    return measure(Scope(), track)


def measure(scope: Scope, track: Track = silently) -> Report:
    return Report(tables=(_brackets(scope), _policies(), _quotes(scope, track)))


def _brackets(scope: Scope) -> Table:
    search: dict[str, object] = {"algorithm": "hyperband", "max_iterations": scope.max_iterations, "eta": 3}
    job = _job(search, deadline="10h")
    specs = hyperband(max_iterations=scope.max_iterations, eta=3)
    epochs = sum(stage.trials * stage.iterations for spec in specs for stage in spec.stages)
    plain_s = max(epochs * UNIT_S, scope.max_iterations * EPOCH_S)
    bound_s = max(plain_s, _with_barriers_s(specs))
    planned_s, simulated_s = plan(job).jct_seconds, simulate(job).actual.jct_seconds
    row = (epochs, planned_s, simulated_s, plain_s, simulated_s / plain_s, bound_s, simulated_s / bound_s)
    return Table(
        name="rounds-hyperband",
        title=f"Hyperband, R={scope.max_iterations}, eta=3, on {WORKERS} workers with one partition each",
        header=(
            "epochs",
            "planned, s",
            "simulated, s",
            "bound, s",
            "by it",
            "bound with barriers, s",
            "by it",
        ),
        rows=(row,),
        note="Simulated; the bound without barriers is that of the heaviest worker and the longest trial.",
    )


def _with_barriers_s(specs: tuple[Spec, ...]) -> float:
    alone_s = min(spec.stages[-1].iterations for spec in specs) * EPOCH_S
    at_once = min(WORKERS, sum(spec.stages[-1].trials for spec in specs))
    work_s = sum(stage.trials * stage.iterations for spec in specs for stage in spec.stages) * EPOCH_S
    return alone_s + (work_s - at_once * alone_s) / WORKERS


def _policies() -> Table:
    """Nine trials of four epochs each."""
    nine: dict[str, object] = {"x": {"choice": [number / 10 for number in range(1, 10)]}}
    searches: dict[str, dict[str, object]] = {
        "sha": {"algorithm": "stages", "stages": [{"trials": 9, "iterations": 4}]},
        "random": {"algorithm": "random", "trials": 9, "max_iterations": 4},
        "grid": {"algorithm": "grid", "max_iterations": 4},
        "asha": {"algorithm": "asha", "trials": 9, "min_iterations": 4, "max_iterations": 4},
        "pbt": {"algorithm": "pbt", "trials": 9, "interval": 1, "max_iterations": 4},
    }
    rows: list[tuple[Cell, ...]] = []
    for name, search in searches.items():
        took_s = simulate(_job(search, space=nine)).actual.jct_seconds
        rows.append((name, took_s, 9 * 4 * UNIT_S / took_s))
    return Table(
        name="rounds-policies",
        title=f"Nine trials of four epochs on {WORKERS} workers, by policy",
        header=("policy", "simulated, s", "utilisation"),
        rows=tuple(rows),
        note="The share of the workers' time in which they train. `sha`: one declared stage.",
    )


def random_job(seed: int) -> dict[str, object]:
    """Replicas, fixed and elastic clusters, held nodes, validation data, hops and measured speed-ups."""
    draw = random.Random(seed)
    partitions, slots = draw.choice([2, 3, 4, 6, 8, 8, 12, 16]), draw.choice([1, 1, 2, 4])
    few, many = max(1, partitions // 2), partitions + draw.randint(1, partitions)
    nodes = -(-draw.choice([partitions, partitions, few, many, draw.randint(1, 2 * partitions)]) // slots)
    data: dict[str, object] = {"partitions": partitions, "replicas": draw.choice([1, 1, 1, 2, 3])}
    if draw.random() < 0.3:
        data["validation"] = 0.2
    if draw.random() < 0.2 and data["replicas"] == 1:
        data["partitions_per_worker"] = -(-partitions // (nodes * slots)) + draw.randint(0, 1)
    profile: dict[str, object] = {
        "iteration": draw.choice([20.0, 80.0, 400.0]),
        "startup": draw.choice([0.0, 0.0, 0.2, 1.0]),
        "save": draw.choice([0.0, 0.5, 2.0]),
    }
    if draw.random() < 0.4:
        profile["speedup"] = {"1": 1.0, "2": 1.8, "4": 3.2, "8": 5.0, "16": 7.0}
    if draw.random() < 0.3:
        profile["checkpoint"] = 0.5
    cluster = {
        "slots_per_node": slots,
        draw.choice(["nodes", "nodes", "max_nodes"]): nodes,
        "price_per_hour": 3.0,
        "init": draw.choice([0.0, 30.0]),
        "queue": draw.choice([0.0, 10.0]),
        "minimum_charge": draw.choice([0.0, 60.0, 3600.0]),
        "billing": draw.choice(["instance", "instance", "function"]),
    }
    return _job(_random_search(draw), data=data, profile=profile, cluster=cluster)


def _random_search(draw: random.Random) -> dict[str, object]:
    match draw.choice(["sha", "sha", "hyperband", "stages"]):
        case "sha":
            return {
                "algorithm": "sha",
                "trials": draw.choice([3, 5, 9, 16, 24]),
                "min_iterations": draw.choice([1, 2]),
                "max_iterations": draw.choice([4, 9, 12]),
                "eta": draw.choice([2, 3, 4]),
            }
        case "hyperband":
            most, eta = draw.choice([4, 9]), draw.choice([2, 3])
            return {"algorithm": "hyperband", "max_iterations": most, "eta": eta}
    trials, stages = draw.choice([4, 8, 12, 20]), []
    for _ in range(draw.randint(1, 3)):
        stages.append({"trials": trials, "iterations": draw.randint(1, 3)})
        trials = max(1, trials // draw.choice([1, 2, 3]))
    return {"algorithm": "stages", "stages": stages}


def _quotes(scope: Scope, track: Track) -> Table:
    errors: list[float] = []
    for seed in track(list(range(scope.jobs))):
        job = random_job(seed)
        try:
            planned_s = plan(job).jct_seconds
        except (InfeasibleError, JobError):
            continue
        errors.append(abs(simulate(job).actual.jct_seconds / planned_s - 1.0))
    errors.sort()
    shares = [errors[int(part * (len(errors) - 1))] for part in (0.5, 0.9, 1.0)]
    row = (len(errors), *(100 * share for share in shares), sum(error > 0.02 for error in errors))
    return Table(
        name="rounds-quotes",
        title="Simulated time of random jobs against their quotes",
        header=("jobs", "median, %", "90 %, %", "worst, %", "off by more than 2 %"),
        rows=(row,),
        note="Constant latencies; replicas, fixed clusters of any size, held nodes, hops; no losses.",
    )
