"""Full rounds and quotes that hold, all simulated: Hyperband as in Cerebro's appendix E.1, the utilisation of
every policy on the same epochs, and random jobs against their quotes.

The bound of Hyperband is `max(work of the heaviest worker, longest trial)`. Barriers make it unreachable:
while the last trials of the brackets train alone, workers wait for models. So a second bound is stated: each
bracket ends with its last stage, so for as long as the shortest of these takes, only trials of last stages
train, however brackets are interleaved.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
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
    bound_s = max(plain_s, barrier_bound(specs, WORKERS, EPOCH_S))
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


def barrier_bound(specs: Sequence[Spec], workers: int, epoch: float) -> float:
    """What no schedule can undercut, if the trial that is measured last may be the best of its stage.

    Who trains in the last stage of a bracket is known when all others of the bracket have ended. From the
    last of these decisions on, only trials of last stages train, each on one worker at a time, for at least
    as long as the shortest last stage; the other workers have nothing to do for so long.
    """
    last = [spec.stages[-1] for spec in specs]
    alone = min(stage.iterations for stage in last) * epoch
    idle = max(0, workers - sum(stage.trials for stage in last))
    work = sum(stage.trials * stage.iterations for spec in specs for stage in spec.stages) * epoch
    return (work + idle * alone) / workers


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    seed: int
    planned_s: float
    simulated_s: float

    @property
    def error(self) -> float:
        return abs(self.simulated_s / self.planned_s - 1.0)


def quotes() -> Iterator[Quoted]:
    """Of random jobs without end; those that no cluster can hold, or that are refused, are left out."""
    for seed in itertools.count():
        job = random_job(seed)
        try:
            planned_s = plan(job).jct_seconds
        except (InfeasibleError, JobError):
            continue
        yield Quoted(seed=seed, planned_s=planned_s, simulated_s=simulate(job).actual.jct_seconds)


def _quotes(scope: Scope, track: Track) -> Table:
    quoted = quotes()
    errors = sorted(next(quoted).error for _ in track(list(range(scope.jobs))))
    shares = [errors[int(part * (len(errors) - 1))] for part in (0.5, 0.9, 1.0)]
    row = (len(errors), *(100 * share for share in shares), sum(error > 0.02 for error in errors))
    return Table(
        name="rounds-quotes",
        title="Simulated time of random jobs against their quotes",
        header=("jobs", "median, %", "90 %, %", "worst, %", "off by more than 2 %"),
        rows=(row,),
        note="Constant latencies; replicas, fixed clusters of any size, held nodes, hops; no losses.",
    )
