"""Policies in real processes: a network for handwritten digits, two minutes, a budget.

The network of `examples/digits.py` trains without `pace`, as fast as this machine can, on local Ray nodes of
one slot each, as many as there are cores. Time is real; the price of a node is made up. The job is measured
once, for all runs. All policies have the same seeds, and runs of one seed are next to each other, so that
other work on the machine meets all of them alike. Results are appended to a file; runs that are in it are not
repeated.

`python -m benchmarks.policies real --seeds 1` is the short version. Figures to cite need an idle machine.
With `--contestants forecast` and so on, several policies run at the same time in processes of their own, each
with a profile that it has measured under that load.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from benchmarks.reporting import Cell, Report, Table, Track, silently
from benchmarks.runtime.promises import DIGITS
from elastune.api.profiling import profile, with_measurements
from elastune.api.running import carry_out_run
from elastune.api.tuning import prepare_to_run
from elastune.job.job import Job, load_job

DEADLINE_S = 120.0
NODE_USD_PER_HOUR = 3.0
# Of all nodes from the first second to the deadline.
PAID_SHARE = 0.75
POLICIES = ("forecast", "hypersched", "asha", "seer")
# For the profile, on a busy machine.
_MEASURING_S = 900.0
_LONGEST = 100  # epochs: the network has long learned the digits then


@dataclass(frozen=True, slots=True, kw_only=True)
class RealResult:
    policy: str
    seed: int
    accuracy: float
    usd: float
    seconds: float
    trials: int
    iterations: int
    load: float
    """Of the machine at the end, with the run itself."""


def real_job(nodes: int) -> Job:
    """Not measured yet."""
    digits = load_job(DIGITS).to_dict()
    space = digits["space"]
    assert isinstance(space, dict), "examples/digits.yaml has a space"
    budget = PAID_SHARE * nodes * NODE_USD_PER_HOUR * DEADLINE_S / 3600.0
    return Job.from_dict(
        {
            "trainable": digits["trainable"],
            "space": {name: domain for name, domain in space.items() if name != "pace"},
            "metric": "accuracy",
            "deadline": DEADLINE_S,
            "budget": round(budget, 3),
            "search": {"algorithm": "forecast", "max_iterations": _LONGEST},
            "cluster": {
                "slots_per_node": 1,
                "max_nodes": nodes,
                "price_per_hour": NODE_USD_PER_HOUR,
                "minimum_charge": "10s",
            },
        }
    )


def job_of(policy: str, measured: Job, seed: int) -> Job:
    return Job.from_dict(
        {**measured.to_dict(), "search": {"algorithm": policy, "max_iterations": _LONGEST}, "seed": seed}
    )


def measure(
    track: Track, *, seeds: int, policies: Sequence[str], results: Path, adds: bool = True
) -> list[RealResult]:
    """Every run that is not in the file yet, if it may add some; returns all that are."""
    file = results / "real.jsonl"
    found = read(file)
    known = {(each.policy, each.seed) for each in found}
    missing = [(seed, name) for seed in range(seeds) for name in policies if (name, seed) not in known]
    if missing and adds:
        with tempfile.TemporaryDirectory() as folder:
            job = real_job(os.cpu_count() or 1)
            patient = job.model_copy(update={"deadline": _MEASURING_S})
            measured = with_measurements(job, profile(patient, folder=folder).path)
            for seed, name in track(missing):
                found.append(_run(job_of(name, measured, seed), name, seed, Path(folder)))
                file.parent.mkdir(parents=True, exist_ok=True)
                with file.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(dataclasses.asdict(found[-1])) + "\n")
    return [each for each in found if each.seed < seeds and each.policy in policies]


def read(file: Path) -> list[RealResult]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else ()
    return [RealResult(**json.loads(line)) for line in lines]


def _run(job: Job, policy: str, seed: int, folder: Path) -> RealResult:
    result = carry_out_run(prepare_to_run(job), folder=folder / f"{policy}-{seed}").result
    return RealResult(
        policy=policy,
        seed=seed,
        accuracy=0.0 if result.best is None else result.best.metric,
        usd=result.actual.cost,
        seconds=result.actual.jct_seconds,
        trials=result.trials,
        iterations=result.iterations,
        load=os.getloadavg()[0],
    )


def run(
    track: Track = silently,
    *,
    seeds: int,
    results: Path,
    policies: Sequence[str] = POLICIES,
    measures: bool = True,
) -> Report:
    measured = measure(track, seeds=seeds, policies=policies, results=results, adds=measures)
    return Report(tables=(summary_table(measured), _runs(measured)))


def summary_table(results: Sequence[RealResult]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for policy in dict.fromkeys(each.policy for each in results):
        ran = [each for each in results if each.policy == policy]
        rows.append(
            (
                policy,
                len(ran),
                _mean([100 * each.accuracy for each in ran], 2),
                _mean([each.usd for each in ran], 4),
                _mean([each.seconds for each in ran], 1),
                _mean([each.trials for each in ran], 0),
                _mean([each.iterations for each in ran], 0),
            )
        )
    loads = [each.load for each in results]
    load = f" Load of the machine {min(loads):.1f} to {max(loads):.1f}." if loads else ""
    return Table(
        name="real",
        title=f"Real runs: digits, {DEADLINE_S:.0f} s, {PAID_SHARE:.0%} of what all nodes would cost",
        header=("policy", "runs", "accuracy %", "cost $", "time s", "trials", "iterations"),
        rows=tuple(rows),
        note=f"Mean ± standard deviation of runs in real processes.{load}",
    )


def _mean(values: Sequence[float], digits: int) -> str:
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{fmean(values):.{digits}f}{spread}"


def _runs(results: Sequence[RealResult]) -> Table:
    return Table(
        name="real-runs",
        title="Real runs: every run",
        header=("seed", "policy", "accuracy", "cost $", "time s", "trials", "iterations", "load"),
        rows=tuple(
            (
                each.seed,
                each.policy,
                each.accuracy,
                each.usd,
                each.seconds,
                each.trials,
                each.iterations,
                each.load,
            )
            for each in sorted(results, key=lambda each: (each.seed, each.policy))
        ),
    )
