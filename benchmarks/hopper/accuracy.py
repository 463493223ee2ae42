"""Whether models that hop learn as well as those that have all data to themselves.

The same network, configurations and seeds by both. They differ in the order of the rows alone: over all rows,
or one partition after the other in the order in which the scheduler let the model visit them.
"""

from __future__ import annotations

import itertools
import math
import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.hopper.journals import Course
from benchmarks.hopper.systems import System, carry_out
from benchmarks.hopper.workloads import network
from benchmarks.plotting import Look, draw_series, entitle, grid_of_axes, legend_below
from benchmarks.reporting import Cell, Report, Table, Track, silently

CONFIGS = tuple(itertools.product((0.01, 0.1), (0.0, 0.9), (32, 256)))
"""Rates, momenta, widths: from slow learners to some that nearly diverge."""
LOOKS = {
    System.HOPPING: Look("hopping", "#009E73", "o"),
    System.TASKS: Look("task-parallel", "#0072B2", "^"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    copies: int = 12
    partitions: int = 4
    workers: int = 2
    epochs: int = 6
    seeds: int = 4
    configs: Sequence[tuple[float, float, int]] = CONFIGS


Curves = Mapping[tuple[int, int], Sequence[float]]
"""Accuracy by epoch, of every configuration and seed."""


def run(track: Track = silently) -> Report:
    return measure(Scope(), track)


def measure(scope: Scope, track: Track = silently) -> Report:
    with tempfile.TemporaryDirectory(prefix="hopper-data-") as folder:
        load = network(
            Path(folder),
            copies=scope.copies,
            workers=scope.workers,
            partitions=scope.partitions,
            epochs=scope.epochs,
        )
        load = replace(
            load,
            trials=len(scope.configs) * scope.seeds,
            space={**load.space, **_space(scope)},
            configurations=_listed(scope),
        )
        curves = {
            system: _curves(carry_out(load, system).course, scope)
            for system in track([System.HOPPING, System.TASKS])
        }
    return Report(tables=(_table(curves, scope),), figures={"accuracy": _draw(curves, scope)})


def _space(scope: Scope) -> dict[str, object]:
    values = zip(*scope.configs, strict=True)
    names = ("lr", "momentum", "width")
    return {name: {"choice": sorted(set(each))} for name, each in zip(names, values, strict=True)}


def _listed(scope: Scope) -> list[dict[str, object]]:
    """Every configuration once per seed: a trial's number is its seed, and the same for both systems."""
    return [
        {"lr": rate, "momentum": momentum, "width": width}
        for _ in range(scope.seeds)
        for rate, momentum, width in scope.configs
    ]


def _curves(course: Course, scope: Scope) -> Curves:
    found: dict[tuple[int, int], list[float]] = {}
    for (trial, _), row in sorted(course.rows.items()):
        seed, config = divmod(trial, len(scope.configs))
        found.setdefault((config, seed), []).append(row.metrics["accuracy"])
    return found


def _table(curves: Mapping[System, Curves], scope: Scope) -> Table:
    rows: list[tuple[Cell, ...]] = []
    every: list[float] = []
    for number, (rate, momentum, width) in enumerate(scope.configs):
        hopping, tasks = (
            [100.0 * curves[system][number, seed][-1] for seed in range(scope.seeds)]
            for system in (System.HOPPING, System.TASKS)
        )
        differences = [ours - theirs for ours, theirs in zip(hopping, tasks, strict=True)]
        every += differences
        rows.append((f"{rate:g}", f"{momentum:g}", str(width), *_summary(hopping, tasks, differences)))
    rows.append(("all", "", "", None, None, None, None, statistics.fmean(every), _error(every)))
    return Table(
        name="accuracy",
        title=f"Accuracy after {scope.epochs} epochs in percent, by hopping over "
        f"{scope.partitions} partitions and by task-parallel training",
        header=(
            "lr",
            "momentum",
            "width",
            "hopping",
            "sd",
            "task-parallel",
            "sd",
            "hopping better by",
            "standard error",
        ),
        rows=tuple(rows),
        note=f"{scope.seeds} seeds, the same for both; pictures that were not trained on. Differences are of "
        f"the same configuration and seed. Load of the machine at the end {os.getloadavg()[0]:.1f}.",
    )


def _summary(hopping: list[float], tasks: list[float], differences: list[float]) -> tuple[Cell, ...]:
    return (
        statistics.fmean(hopping),
        _deviation(hopping),
        statistics.fmean(tasks),
        _deviation(tasks),
        round(statistics.fmean(differences), 4),
        _error(differences),
    )


def _deviation(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None


def _error(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def _draw(curves: Mapping[System, Curves], scope: Scope) -> Figure:
    """One panel per configuration: means over the seeds."""
    columns = min(4, len(scope.configs))
    rows = -(-len(scope.configs) // columns)
    figure, axes = grid_of_axes(rows, columns, width=12.5, height=2.9 * rows + 0.5)
    epochs = list(range(1, scope.epochs + 1))
    for number, (rate, momentum, width) in enumerate(scope.configs):
        panel = axes[divmod(number, columns)]
        for system, look in LOOKS.items():
            runs = [curves[system][number, seed] for seed in range(scope.seeds)]
            means = [100.0 * statistics.fmean(values) for values in zip(*runs, strict=True)]
            draw_series(panel, (epochs, means), look=look, dashed=system is System.HOPPING)
        entitle(panel, f"lr {rate:g}, momentum {momentum:g}, width {width}")
        panel.set_xticks(epochs)
    for panel in axes[:, 0]:
        panel.set_ylabel("accuracy, %")
    for panel in axes[-1, :]:
        panel.set_xlabel("epoch")
    legend_below(figure, axes[0, 0], columns=2)
    return figure
