"""Whether every policy keeps the workers as busy as `sha` does, in real runs whose visits sleep.

The same trials and epochs under each policy. Utilisation is the share of the workers' time in which they
sleep as training, from the first order to train to the last row. Each run is also compared with its quote,
made with what visits took beside training in the first run.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.hopper.journals import Course
from benchmarks.hopper.law import RESNET
from benchmarks.hopper.prediction import flat
from benchmarks.hopper.systems import System, Workload, carry_out
from benchmarks.hopper.workloads import sleeping
from benchmarks.reporting import Cell, Report, Table, Track, silently
from elastune.api.simulating import simulate


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    unit_s: float = 0.5
    workers: int = 8
    trials: int = 9
    epochs: int = 4

    @property
    def searches(self) -> dict[str, dict[str, object]]:
        trials, epochs = self.trials, self.epochs
        rungs = {"min_iterations": epochs, "max_iterations": epochs}
        return {
            "sha": {"algorithm": "stages", "stages": [{"trials": trials, "iterations": epochs}]},
            "random": {"algorithm": "random", "trials": trials, "max_iterations": epochs},
            "grid": {"algorithm": "grid", "max_iterations": epochs},
            "asha": {"algorithm": "asha", "trials": trials, **rungs},
            "pbt": {"algorithm": "pbt", "trials": trials, "interval": 1, "max_iterations": epochs},
        }


def run(track: Track = silently) -> Report:
    return measure(Scope(), track)


def measure(scope: Scope, track: Track = silently) -> Report:
    courses: dict[str, Course] = {}
    rows: list[tuple[Cell, ...]] = []
    with tempfile.TemporaryDirectory(prefix="hopper-data-") as folder:
        load = _load(Path(folder), scope)
        for name, search in track(list(scope.searches.items())):
            courses[name] = carry_out(replace(load, search=search), System.HOPPING).course
            beside_s = statistics.fmean(courses["sha"].overheads_s())
            simulated_s = _simulated_s(replace(load, search=search), beside_s)
            rows.append(_row(name, courses[name], scope, simulated_s))
    busiest = rows[0][2]
    return Report(
        tables=(
            Table(
                name="policies",
                title=f"{scope.trials} trials of {scope.epochs} epochs on {scope.workers} workers, real runs",
                header=("policy", "seconds", "utilisation", "by sha's", "simulated, s", "real by simulated"),
                rows=tuple((*row[:3], row[2] / busiest, *row[3:]) for row in rows),  # type: ignore[operator]
                note=(
                    f"Visits sleep for {scope.unit_s:g} s. Simulated with the mean overhead of a visit in "
                    f"the run of sha. Load of the machine at the end {os.getloadavg()[0]:.1f}."
                ),
            ),
        )
    )


def _load(folder: Path, scope: Scope) -> Workload:
    load = sleeping(
        folder,
        RESNET,
        unit_s=scope.unit_s,
        workers=scope.workers,
        epochs=scope.epochs,
        trials=scope.trials,
    )
    choices = [number / 10 for number in range(1, scope.trials + 1)]
    return replace(load, space={**load.space, "x": {"choice": choices}})


def _simulated_s(load: Workload, beside_s: float) -> float:
    job = replace(load, profile={"startup": round(beside_s, 4)}).job(System.HOPPING, "")
    return simulate({**job, "trainable": flat}).actual.jct_seconds


def _row(name: str, course: Course, scope: Scope, simulated_s: float) -> tuple[Cell, ...]:
    slept_s = scope.trials * scope.epochs * scope.workers * scope.unit_s
    busy = slept_s / (scope.workers * course.seconds)
    return (name, course.seconds, busy, simulated_s, course.seconds / simulated_s)
