"""A RubberBand search of many trials through ten stages, with its journal on: seconds."""

from __future__ import annotations

import statistics

from benchmarks.reporting import Cell, Report, Table, Track, silently
from benchmarks.simulation import ours
from elastune.job.job import Job

TRIALS, STAGES = 1000, 10
REPEATS = 5
CONSTANT: dict[str, object] = {"iteration": 60.0}
NOISY: dict[str, object] = {"iteration": {"mean": 60.0, "sd": 3.0}, "spread": 0.02, "startup": 2.0}
LATENCIES = {"constant": CONSTANT, "noisy": NOISY}
SPEEDUP = {1: 1.0, 2: 1.89, 4: 3.63, 8: 6.67}


def job(trials: int, latencies: dict[str, object]) -> Job:
    """By halves; the last stage takes as much as all before it."""
    return Job.from_dict(
        {
            "trainable": "synthetic:hypersched",
            "search": {
                "algorithm": "sha",
                "trials": trials,
                "min_iterations": 1,
                "max_iterations": 2 ** trials.bit_length() - 1,
                "eta": 2,
            },
            "deadline": "6h",
            "profile": {**latencies, "speedup": SPEEDUP},
            "cluster": {
                "slots_per_node": 4,
                "max_nodes": 64,
                "price_per_hour": 12.24,
                "queue": 15.0,
                "init": 15.0,
            },
        }
    )


def run(track: Track = silently) -> Report:
    return Report(tables=(measure(track),))


def measure(track: Track = silently, *, trials: int = TRIALS, repeats: int = REPEATS) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, latencies in track(list(LATENCIES.items())):
        ours.measure(job(trials, latencies), seed=0)
        runs = [ours.measure(job(trials, latencies), seed) for seed in range(repeats)]
        state = runs[0][1].core.state
        times = [
            statistics.median(values)
            for values in (
                [measured.prepare_s for measured, _ in runs],
                [measured.wall_s for measured, _ in runs],
                [measured.processor_s for measured, _ in runs],
            )
        ]
        counts = (len(state.trials), len(state.ledger.stages), state.iterations, state.events)
        rows.append((name, *counts, *times, times[-1] / counts[0] * 1e6))
    return Table(
        name="stages",
        title=f"RubberBand: {trials} trials by halves, journal on",
        header=(
            "latencies",
            "trials",
            "stages",
            "iterations",
            "events",
            "prepare, s",
            "wall, s",
            "processor, s",
            "µs/trial",
        ),
        rows=tuple(rows),
        note=f"Medians of {repeats} seeds; prepare (the plan) is in processor seconds, no part of the rest.",
    )
