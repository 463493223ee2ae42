"""Whether hopping keeps to its quote: what `elastune plan` and `elastune simulate` say, and what it took.

Iterations sleep by a law, on eight workers. Quoted twice: with nothing but the law, and with what a visit
took beside training in the first epoch of the run.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.hopper.journals import Course
from benchmarks.hopper.law import RESNET
from benchmarks.hopper.systems import System, Workload, carry_out
from benchmarks.hopper.workloads import sleeping
from benchmarks.reporting import Cell, Report, Table, Track, silently
from elastune.api.planning import plan
from elastune.api.simulating import simulate


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    unit_s: tuple[float, ...] = (0.5, 1.0)
    workers: int = 8
    epochs: int = 3
    trials: int = 16


def flat(config: object, iteration: int) -> float:  # noqa: ARG001
    """A curve for simulations, in which nobody learns."""
    return float(iteration)


def run(track: Track = silently) -> Report:
    return measure(Scope(), track)


def measure(scope: Scope, track: Track = silently) -> Report:
    rows: list[tuple[Cell, ...]] = []
    with tempfile.TemporaryDirectory(prefix="hopper-data-") as folder:
        for unit_s in track(list(scope.unit_s)):
            load = sleeping(
                Path(folder) / f"{unit_s}",
                RESNET,
                unit_s=unit_s,
                workers=scope.workers,
                epochs=scope.epochs,
                trials=scope.trials,
            )
            rows += _rows(load, carry_out(load, System.HOPPING).course, unit_s)
    return Report(
        tables=(
            Table(
                name="prediction",
                title=f"Hopping of {scope.trials} configurations on {scope.workers} workers by its quote",
                header=(
                    "a visit sleeps, s",
                    "known of a visit",
                    "beside it, ms",
                    "planned, s",
                    "simulated, s",
                    "took, s",
                    "took by planned",
                    "took by simulated",
                ),
                rows=tuple(rows),
                note=f"{scope.epochs} epochs, seconds of training without boots. "
                f"Load of the machine at the end {os.getloadavg()[0]:.1f}.",
            ),
        )
    )


def _rows(load: Workload, course: Course, unit_s: float) -> list[tuple[Cell, ...]]:
    beside = {"the law alone": 0.0, "the first epoch": statistics.fmean(course.overheads_s(iteration=1))}
    rows: list[tuple[Cell, ...]] = []
    for known, beside_s in beside.items():
        job = replace(load, profile={"startup": round(beside_s, 4)}).job(System.HOPPING, "")
        planned_s = plan(job).jct_seconds
        simulated_s = simulate({**job, "trainable": flat}).actual.jct_seconds
        rows.append(
            (
                unit_s,
                known,
                1e3 * beside_s,
                planned_s,
                simulated_s,
                course.seconds,
                course.seconds / planned_s,
                course.seconds / simulated_s,
            )
        )
    return rows
