"""What the policy `forecast` expected of its leader, over time, beside what came."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastune.history.forecasts import checked_forecasts
from elastune.runs.reading import RunReport
from elastune.views.figures.figure_style import BLUE, MUTED, VERMILION, drawing, new_figure, time_axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_forecasts(run_report: RunReport) -> Figure | None:
    """None: another policy, or no leader was trained further."""
    history, standing = run_report.history, run_report.status.standing
    if standing.policy != "forecast":
        return None
    checked = checked_forecasts(history, run_report.terms.mode)
    if not checked:
        return None
    time = time_axis(history.end_s, standing.limits.deadline_s)
    with drawing():
        figure = new_figure(3.2)
        axes = figure.add_subplot()
        at = [time(each.at_s) for each in checked]
        steps = [(time(step.at_s), step.value) for step in history.best]
        steps.append((time(history.end_s), steps[-1][1]))
        axes.step(*zip(*steps, strict=True), where="post", color=BLUE, linewidth=1.4, label="best so far")
        for place, each in zip(at, checked, strict=True):
            axes.plot([place, place], [each.forecast, each.came], color=MUTED, linewidth=0.8, zorder=2)
        axes.errorbar(
            at, [each.forecast for each in checked], yerr=[each.spread for each in checked],
            fmt="o", color=VERMILION, markersize=5, elinewidth=1.2, capsize=3, label="forecast of the leader",
        )  # fmt: skip
        axes.plot(
            at, [each.came for each in checked], "D", markerfacecolor="none", markeredgecolor=BLUE,
            markersize=6, label="what it reached",
        )  # fmt: skip
        time.frame(axes)
        axes.set_ylabel(standing.metric)
        axes.set_title("Forecasts against what came")
        axes.legend(loc="best", frameon=False, fontsize=8.5)
    return figure
