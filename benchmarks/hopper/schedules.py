"""Cerebro's Figure 6 anew: makespans and scheduling times of `randomized`, `list` and CP-SAT."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from benchmarks.hopper.measuring import Measured, Run, Scope, measure
from benchmarks.hopper.settings import paper_settings
from benchmarks.plotting import Look, entitle, grid_of_axes, legend_below
from benchmarks.reporting import Cell, Report, Table, Track, silently

LOOKS = {
    "randomized": Look("randomized (Cerebro)", "#0072B2", "^"),
    "list": Look("list (ours)", "#009E73", "o"),
    "CP-SAT": Look("CP-SAT with a time limit", "#E69F00", "s"),
}


def run(track: Track = silently, *, scope: Scope | None = None) -> Report:
    scope = scope or Scope()
    measured = [measure(setting, scope) for setting in track(list(paper_settings()))]
    return Report(tables=(_table(measured, scope),), figures={"schedules": _draw(measured)})


def _table(measured: Sequence[Measured], scope: Scope) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for each in measured:
        setting = each.setting
        rows.append(
            (
                setting.name,
                setting.configs,
                setting.workers,
                len(each.listed),
                *_percent_above(each.listed),
                *_percent_above(each.all_randomized),
                each.beaten,
                *(_percent_above(each.solved) if each.solved else (None, None)),
                _milliseconds(each.listed),
                _milliseconds(each.all_randomized),
            )
        )
    return Table(
        name="schedules",
        title="Makespan above the lower bound in percent, and milliseconds to schedule one epoch",
        header=(
            "setting",
            "configs",
            "workers",
            "epochs",
            "list mean",
            "worst",
            "randomized mean",
            "worst",
            "epochs where list is beaten",
            "CP-SAT mean",
            "worst",
            "list ms",
            "randomized ms",
        ),
        rows=tuple(rows),
        note=(
            f"Randomized: {scope.seeds} seeds per epoch; list is beaten where the best of them is shorter. "
            f"CP-SAT: the first {scope.solved} epochs, 2 threads, {scope.limit_s:g} s each, from scratch; "
            "–: nothing found in time. Milliseconds of the processor, median."
        ),
    )


def _percent_above(runs: Sequence[Run]) -> tuple[float, float]:
    above = [max(0.0, round(100 * (run.ratio - 1), 6)) for run in runs]
    return statistics.mean(above), max(above)


def _milliseconds(runs: Sequence[Run]) -> float:
    return 1000 * statistics.median(run.seconds for run in runs)


def _draw(measured: Sequence[Measured]) -> Figure:
    figure, axes = grid_of_axes(2, 2, width=10.0, height=6.4)
    for row, mixed in enumerate((False, True)):
        part = [each for each in measured if each.setting.mixed == mixed]
        _points(axes[row, 0], part, seconds=True)
        _points(axes[row, 1], part, seconds=False)
        letter = "AB"[row]
        entitle(axes[row, 0], f"({letter}) {part[0].setting.name}: time to schedule")
        entitle(axes[row, 1], f"({letter}) {part[0].setting.name}: makespan by that of randomized")
    legend_below(figure, axes[0, 1], columns=3)
    return figure


def _points(axes: Axes, measured: Sequence[Measured], *, seconds: bool) -> None:
    """Means, with least and most as whiskers."""
    for offset, (name, look) in enumerate(LOOKS.items()):
        drawn = [(place, _values(each, name, seconds=seconds)) for place, each in enumerate(measured)]
        drawn = [(place, values) for place, values in drawn if values]
        means = [statistics.mean(values) for _, values in drawn]
        below = [mean - min(values) for mean, (_, values) in zip(means, drawn, strict=True)]
        above = [max(values) - mean for mean, (_, values) in zip(means, drawn, strict=True)]
        axes.errorbar(
            [place + 0.2 * (offset - 1) for place, _ in drawn],
            means,
            yerr=[below, above],
            color=look.colour,
            marker=look.marker,
            linestyle="none",
            markersize=6,
            elinewidth=1.2,
            capsize=3,
            label=look.label,
        )
    labels = [f"{each.setting.configs} configs\n{each.setting.workers} workers" for each in measured]
    axes.set_xticks(range(len(labels)), labels)
    if seconds:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} s"))


def _values(each: Measured, name: str, *, seconds: bool) -> list[float]:
    runs = {"randomized": each.all_randomized, "list": each.listed, "CP-SAT": each.solved}[name]
    if seconds:
        return [run.seconds for run in runs]
    usual = [statistics.mean(run.ratio for run in runs) for runs in each.randomized]
    if name == "randomized":
        pairs = zip(each.randomized, usual, strict=True)
        return [run.ratio / mean for runs, mean in pairs for run in runs]
    return [run.ratio / mean for run, mean in zip(runs, usual, strict=False)]
