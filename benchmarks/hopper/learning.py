"""Hopping, copies of the data, data-parallel training and model averaging on a real network, by batch size.

Cerebro's Figure 7 (time, and the best accuracy by epoch) and Figure 9 (time and error by batch size), in
small. All systems train the same configurations. Data-parallel training is shown with the batch shared by
the workers, which learns as one process does, and with a batch on each worker, as the paper runs Horovod:
then a step takes the mean over as many times more rows.

    python -m benchmarks.hopper learning     # times: two workers, on a machine with two cores
    python -m benchmarks.hopper converging   # accuracy alone: eight workers
"""

from __future__ import annotations

import itertools
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
from benchmarks.plotting import Look, draw_series, entitle, grid_of_axes, legend_below, plain_ticks
from benchmarks.reporting import Cell, Report, Table, Track, silently


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A system, and whether each worker takes a whole batch."""

    label: str
    system: System
    look: Look
    batch_each: bool = False


ARMS = (
    Arm(label="hopping", system=System.HOPPING, look=Look("hopping", "#009E73", "o")),
    Arm(label="copies of the data", system=System.TASKS, look=Look("copies of the data", "#0072B2", "^")),
    Arm(
        label="data-parallel, batch shared",
        system=System.TOGETHER,
        look=Look("data-parallel, batch shared", "#E69F00", "v"),
    ),
    Arm(
        label="data-parallel, batch on each",
        system=System.TOGETHER,
        look=Look("data-parallel, batch on each", "#D55E00", "s"),
        batch_each=True,
    ),
    Arm(label="model averaging", system=System.AVERAGING, look=Look("model averaging", "#CC79A7", "D")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Every rate with every seed is a trial. `is_timed`: whether there is a core for each worker."""

    copies: int = 12
    workers: int = 2
    epochs: int = 4
    batches: tuple[int, ...] = (16, 64, 256)
    rates: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1)
    seeds: int = 1
    is_timed: bool = True
    arms: tuple[Arm, ...] = ARMS


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    arm: Arm
    batch: int
    course: Course
    rates: int

    @property
    def best(self) -> list[float]:
        """The accuracy of the best configuration by epoch, in percent, in the mean over the seeds."""
        epochs = max(iteration for _, iteration in self.course.rows)
        return [statistics.fmean(self._best(iteration)) for iteration in range(1, 1 + epochs)]

    def _best(self, iteration: int) -> list[float]:
        found: dict[int, float] = {}
        for (trial, at), row in self.course.rows.items():
            if at == iteration:
                seed = trial // self.rates
                found[seed] = max(found.get(seed, 0.0), 100.0 * row.metrics["accuracy"])
        return list(found.values())


def run(track: Track = silently) -> Report:
    return measure(Scope(), track)


def run_without_times(track: Track = silently) -> Report:
    """As many workers as in the paper, and two seeds."""
    arms = tuple(arm for arm in ARMS if arm.label != "data-parallel, batch shared")
    scope = Scope(copies=8, workers=8, epochs=8, batches=(32, 256), seeds=2, is_timed=False, arms=arms)
    return measure(scope, track)


def measure(scope: Scope, track: Track = silently) -> Report:
    with tempfile.TemporaryDirectory(prefix="hopper-data-") as folder:
        cases = list(itertools.product(scope.batches, scope.arms))
        measured = [_measure(Path(folder), scope, batch, arm) for batch, arm in track(cases)]
    name = "learning" if scope.is_timed else "converging"
    return Report(tables=(_table(name, measured, scope),), figures={name: _draw(measured, scope)})


def _measure(folder: Path, scope: Scope, batch: int, arm: Arm) -> Measured:
    taken = batch * scope.workers if arm.batch_each else batch
    load = network(
        folder / f"{scope.workers}",
        copies=scope.copies,
        workers=scope.workers,
        partitions=scope.workers,
        epochs=scope.epochs,
        batch=taken,
    )
    fixed: Mapping[str, object] = {"momentum": 0.9, "width": 128}
    load = replace(
        load,
        trials=len(scope.rates) * scope.seeds,
        space={**load.space, **fixed, "lr": {"choice": list(scope.rates)}},
        configurations=[{"lr": rate} for _ in range(scope.seeds) for rate in scope.rates],
    )
    return Measured(arm=arm, batch=batch, course=carry_out(load, arm.system).course, rates=len(scope.rates))


def _table(name: str, measured: Sequence[Measured], scope: Scope) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for each in measured:
        hopping = next(m for m in measured if m.batch == each.batch and m.arm.system is System.HOPPING)
        by = each.course.seconds / hopping.course.seconds
        times: tuple[Cell, ...] = (each.course.seconds, by) if scope.is_timed else ()
        rows.append((each.batch, each.arm.label, *times, *_first_and_last(each.best)))
    return Table(
        name=name,
        title=f"{len(scope.rates)} configurations, {scope.epochs} epochs on {scope.workers} workers, by "
        "batch size and system",
        header=(
            "batch",
            "by",
            *(("seconds", "by hopping's") if scope.is_timed else ()),
            "best accuracy after epoch 1, %",
            f"after {(scope.epochs + 1) // 2}",
            f"after {scope.epochs}",
        ),
        rows=tuple(rows),
        note=(
            f"A network of 64-128-10 on digits, rates {', '.join(f'{rate:g}' for rate in scope.rates)}, "
            f"momentum 0.9, {scope.seeds} seed(s); pictures that were not trained on. "
            f"Seconds from the first order to train to the last row. Load of the machine at the end "
            f"{os.getloadavg()[0]:.1f}."
        ),
    )


def _first_and_last(best: Sequence[float]) -> tuple[Cell, ...]:
    return tuple(best[number - 1] for number in (1, (len(best) + 1) // 2, len(best)))


def _draw(measured: Sequence[Measured], scope: Scope) -> Figure:
    """The best accuracy by epoch, a panel for each batch size, and where it means something the time."""
    count = len(scope.batches)
    figure, axes = grid_of_axes(1, count + scope.is_timed, width=3.4 * (count + scope.is_timed), height=3.6)
    for panel, batch in zip(axes[0], scope.batches, strict=False):
        for each in (m for m in measured if m.batch == batch):
            draw_series(panel, (range(1, 1 + len(each.best)), each.best), look=each.arm.look)
        entitle(panel, f"batch {batch}")
        panel.set_xlabel("epoch")
    axes[0, 0].set_ylabel("best accuracy, %")
    if scope.is_timed:
        for arm in scope.arms:
            seconds = [each.course.seconds for each in measured if each.arm is arm]
            draw_series(axes[0, -1], (scope.batches, seconds), look=arm.look)
        axes[0, -1].set_xscale("log")
        axes[0, -1].set_yscale("log")
        plain_ticks(axes[0, -1], scope.batches)
        axes[0, -1].set_xlabel("batch")
        axes[0, -1].set_ylabel("seconds")
        entitle(axes[0, -1], "time")
    legend_below(figure, axes[0, 0], columns=len(scope.arms))
    return figure
