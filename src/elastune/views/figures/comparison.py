"""Runs side by side: the best model over time, and its cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from elastune.runs.comparison import ComparedRun, Party, RunComparison, mean_of
from elastune.views.figures.figure_style import (
    LIMIT,
    PALETTE,
    TimeAxis,
    drawing,
    halo,
    in_dollars,
    mark_deadline,
    new_figure,
    time_axis,
)  # fmt: skip
from elastune.wording import format_duration, format_usd

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = "osD^vP*X"
_GRID = 240


class Moment(NamedTuple):
    """Mean and standard error over the runs that have a model by then."""

    at_s: float
    mean: float
    error: float


def draw_best_over_time(comparison: RunComparison) -> Figure:
    """Means over seeds, with a band of one standard error."""
    end_s = max(run.history.end_s for party in comparison.parties for run in party.runs)
    time = time_axis(end_s, comparison.deadline_s)
    with drawing():
        figure = new_figure(4.2)
        axes = figure.add_subplot()
        ends = []
        for index, party in enumerate(comparison.parties):
            colour = PALETTE[index % len(PALETTE)]
            moments = best_over_time(party)
            if moments:
                ends.append((moments[-1].mean, party.label, colour))
                _draw_party(axes, moments, time, colour)
        mark_deadline(axes, time, comparison.deadline_s)
        time.frame(axes)
        axes.set_ylabel(comparison.metric)
        _write_labels(axes, ends)
        axes.set_title("Best model so far" + _mean_of_seeds(comparison.parties))
    return figure


def best_over_time(party: Party) -> list[Moment]:
    """From when all runs that find a model have one."""
    runs = [run for run in party.runs if run.history.best]
    if not runs:
        return []
    first_s = max(run.history.best[0].at_s for run in runs)
    last_s = max(run.history.end_s for run in runs)
    times = np.unique([first_s, *np.linspace(first_s, max(first_s, last_s), _GRID)])
    values = np.array([_best_at(run, times) for run in runs])
    errors = np.zeros(len(times))
    if len(runs) > 1:
        errors = values.std(axis=0, ddof=1) / np.sqrt(len(runs))
    return [Moment(*map(float, each)) for each in zip(times, values.mean(axis=0), errors, strict=True)]


def _best_at(run: ComparedRun, times: np.ndarray) -> np.ndarray:
    steps = run.history.best
    found = np.searchsorted([step.at_s for step in steps], times, side="right") - 1
    return np.array([step.value for step in steps])[found]


def _draw_party(axes: Axes, moments: Sequence[Moment], time: TimeAxis, colour: str) -> None:
    times = [time(each.at_s) for each in moments]
    means = [each.mean for each in moments]
    low = [each.mean - each.error for each in moments]
    high = [each.mean + each.error for each in moments]
    axes.fill_between(times, low, high, step="post", color=colour, alpha=0.18, linewidth=0)
    axes.step(times, means, where="post", color=colour, linewidth=2.0)


def _write_labels(axes: Axes, ends: Sequence[tuple[float, str, str]]) -> None:
    """At the right edge, each where its line ends, moved apart where they would collide."""
    low, high = axes.get_ylim()
    gap = (high - low) * 0.055
    at = -np.inf
    for value, label, colour in sorted(ends):
        at = max(value, at + gap)
        axes.annotate(
            label, (1.0, at), xycoords=("axes fraction", "data"), xytext=(6, 0), textcoords="offset points",
            ha="left", va="center", fontsize=9, color=colour, annotation_clip=False,
        )  # fmt: skip


def _mean_of_seeds(parties: Sequence[Party]) -> str:
    seeds = max(len(party.runs) for party in parties)
    return f": mean of {seeds} runs each, and its standard error" if seeds > 1 else ""


def draw_outcomes(comparison: RunComparison) -> Figure:
    """Best model against cost (time, where nothing costs anything), and the spread of a policy's runs."""
    parties = comparison.parties
    by_cost = any(run.history.usd for party in parties for run in party.runs)
    with drawing():
        figure = new_figure(max(3.6, 2.2 + 0.42 * len(parties)))
        scatter, spread = figure.subplots(1, 2, width_ratios=(1.15, 1))
        for index, party in enumerate(parties):
            look = PALETTE[index % len(PALETTE)], _MARKERS[index % len(_MARKERS)]
            _draw_scatter(scatter, party, *look, by_cost=by_cost)
        if comparison.budget_usd is not None:
            scatter.axvline(comparison.budget_usd, color=LIMIT, linewidth=1.2, linestyle=(0, (1, 1.5)))
            scatter.annotate(
                f"budget {format_usd(comparison.budget_usd)}", (comparison.budget_usd, 1),
                xycoords=("data", "axes fraction"), xytext=(2, 3), textcoords="offset points",
                ha="right", va="bottom", fontsize=8.5, color=LIMIT,
            )  # fmt: skip
        scatter.set_xlim(left=0)
        if by_cost:
            in_dollars(scatter.xaxis)
        scatter.set_xlabel("cost" if by_cost else "time (s)")
        scatter.set_ylabel(f"best {comparison.metric}")
        scatter.set_title(f"Best model against {'cost' if by_cost else 'time'}")
        _draw_spread(spread, comparison)
    return figure


def _draw_scatter(axes: Axes, party: Party, colour: str, marker: str, *, by_cost: bool) -> None:
    points = [
        (run.history.usd if by_cost else run.history.end_s, run.best)
        for run in party.runs
        if run.best is not None
    ]
    if not points:
        return
    edge: dict[str, Any] = {"markeredgecolor": "white", "mew": 0.5}
    axes.plot(*zip(*points, strict=True), marker, color=colour, markersize=6, alpha=0.65, **edge)
    middle = (mean_of([usd for usd, _ in points]).value, mean_of([best for _, best in points]).value)
    axes.annotate(
        party.label, middle, xytext=(0, 11), textcoords="offset points", ha="center", va="bottom", fontsize=9,
        color=colour, fontweight="bold", path_effects=halo(),
    )  # fmt: skip


def _draw_spread(axes: Axes, comparison: RunComparison) -> None:
    """Every run as a point, with the mean and its standard error."""
    parties = comparison.parties
    for row, party in enumerate(parties):
        colour = PALETTE[row % len(PALETTE)]
        values = sorted(run.best for run in party.runs if run.best is not None)
        heights, marker = [row + 0.26] * len(values), _MARKERS[row % len(_MARKERS)]
        axes.plot(values, heights, marker, color=colour, markersize=5, alpha=0.5, mew=0)
        best = party.best
        if best is not None:
            axes.errorbar(
                best.value, row, xerr=best.error, fmt="|", color=colour, markersize=16, mew=2.2,
                capsize=5, linewidth=2,
            )  # fmt: skip
    axes.set_yticks(range(len(parties)), [_label(party) for party in parties])
    axes.set_ylim(len(parties) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0, labelsize=8.5)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(f"best {comparison.metric}")
    axes.set_title("Every run, with mean and standard error")


def _label(party: Party) -> str:
    money = f", {format_usd(party.usd.value)}" if party.usd.value else ""
    return f"{party.label}\n{format_duration(party.seconds.value)}{money}"
