"""Learning curves: the metric against time and iterations; the best trial is coloured."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from elastune.history.recorder import History
from elastune.model.ids import TrialId
from elastune.model.metric import Mode
from elastune.runs.reading import RunReport
from elastune.views.figures.figure_style import (
    BLUE,
    MUTED,
    VERMILION,
    TimeAxis,
    drawing,
    halo,
    mark_deadline,
    new_figure,
    time_axis,
)  # fmt: skip
from elastune.wording import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_POINTS = 120
"""Of one curve; more could not be distinguished."""
_GREY = "#8B949E"
Line = list[tuple[float, float]]


def draw_curves(run_report: RunReport) -> Figure:
    history, standing = run_report.history, run_report.status.standing
    deadline_s = standing.limits.deadline_s
    time = time_axis(history.end_s, deadline_s)
    best = None if standing.best is None else TrialId(standing.best.trial)
    with drawing():
        figure = new_figure(3.9)
        by_time, by_iteration = figure.subplots(1, 2, sharey=True, width_ratios=(1.35, 1))
        shown = _draw_by_time(by_time, history, time, best)
        _draw_by_iteration(by_iteration, history, best)
        mark_deadline(by_time, time, deadline_s)
        time.frame(by_time)
        by_time.set_ylabel(standing.metric)
        by_iteration.set_xlabel("iterations")
        by_time.set_title(f"Learning curves of {plural(shown, 'trial')}")
        by_iteration.set_title("against iterations", fontweight="normal")
        _frame_values(by_time, run_report, best)
    return figure


def _draw_by_time(axes: Axes, history: History, time: TimeAxis, best: TrialId | None) -> int:
    """Level pieces are pauses without a gang. Returns the number of trials with a curve."""
    pieces: list[Line] = []
    shown = 0
    for number, trial in history.trials.items():
        shown += bool(trial.points)
        points = [(time(point.at_s), point.value) for point in trial.points]
        if number == best and points:
            axes.plot(*zip(*points, strict=True), color=VERMILION, linewidth=1.8, zorder=4)
        elif points:
            pieces.append(_thinned(points))
    _draw_grey(axes, pieces)
    if history.best:
        steps = [(time(step.at_s), step.value) for step in history.best]
        steps.append((time(history.end_s), steps[-1][1]))
        axes.step(*zip(*steps, strict=True), where="post", color=BLUE, linewidth=1.6, zorder=5)
        _name_line(axes, "best model so far", steps, BLUE)
    return shown


def _name_line(axes: Axes, text: str, line: Line, colour: str) -> None:
    """At its end, on the side to which the line goes: that side is free."""
    side = "bottom" if line[-1][1] >= line[0][1] else "top"
    axes.annotate(
        text, line[-1], xytext=(0, 5 if side == "bottom" else -5), textcoords="offset points",
        ha="right", va=side, fontsize=8.5, color=colour, path_effects=halo(),
    )  # fmt: skip


def _draw_by_iteration(axes: Axes, history: History, best: TrialId | None) -> None:
    pieces: list[Line] = []
    longest = 1
    for number, trial in history.trials.items():
        values = trial.kept or tuple(_last_values(history, number))
        points = [(float(iteration), value) for iteration, value in enumerate(values, 1)]
        longest = max(longest, len(points))
        if number == best and points:
            axes.plot(*zip(*points, strict=True), color=VERMILION, linewidth=1.8, zorder=4)
            _name_line(axes, f"trial {best}", points, VERMILION)
        elif points[trial.inherited :]:  # a fork shares the rest with its parent
            pieces.append(_thinned(points[trial.inherited :]))
    _draw_grey(axes, pieces)
    axes.set_xlim(0, longest * 1.03)


def _last_values(history: History, number: TrialId) -> list[float]:
    """The values of a trial that has lost all of its work."""
    values = {point.iteration: point.value for point in history.trials[number].points}
    return [value for _, value in sorted(values.items())]


def _draw_grey(axes: Axes, lines: Sequence[Line]) -> None:
    from matplotlib.collections import LineCollection  # noqa: PLC0415

    faint = max(0.22, min(0.75, 12.0 / max(1, len(lines)) ** 0.75))
    drawn = [line for line in lines if len(line) > 1]
    axes.add_collection(LineCollection(drawn, colors=_GREY, linewidths=0.8, alpha=faint))
    if lines:
        ends, alpha = zip(*(line[-1] for line in lines), strict=True), min(1.0, faint * 1.6)
        axes.plot(*ends, "o", color=_GREY, markersize=2.2, alpha=alpha, mew=0)


def _thinned(points: Line) -> Line:
    if len(points) <= _MOST_POINTS:
        return points
    step = -(-len(points) // _MOST_POINTS)
    return [*itertools.islice(points, 0, None, step), points[-1]]


def _frame_values(axes: Axes, run_report: RunReport, best: TrialId | None) -> None:
    """Diverged values may lie outside of the frame, so that the others are not flattened.

    The better nine tenths and all values of the best trial are always inside.
    """
    trials = run_report.history.trials
    values = [point.value for trial in trials.values() for point in trial.points]
    if not values:
        text = "no trial has reported a value"
        axes.text(0.5, 0.5, text, ha="center", color=MUTED, transform=axes.transAxes)
        axes.set_ylim(0, 1)
        return
    sign = 1.0 if run_report.terms.mode is Mode.MAX else -1.0
    ranked = sorted(sign * value for value in values)
    own = [] if best is None else [sign * point.value for point in trials[best].points]
    top, worst = ranked[-1], min([ranked[len(ranked) // 10], *own])
    least = ranked[0] if worst - ranked[0] <= top - worst else worst - 0.1 * (top - worst)
    margin = 0.08 * (top - least) or abs(top) * 0.05 or 0.5
    axes.set_ylim(*sorted((sign * (least - margin), sign * (top + margin))))
    outside = sum(value < least - margin for value in ranked)
    if outside:
        axes.annotate(
            f"{plural(outside, 'worse value')} outside of the frame", (0.99, 0.02 if sign > 0 else 0.98),
            xycoords="axes fraction", ha="right", va="bottom" if sign > 0 else "top", fontsize=8, color=MUTED,
        )  # fmt: skip
