"""Nodes and money over time: actual, planned, what went wrong, and what the money was spent on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from elastune.history.status import StageStatus
from elastune.model.billing import bills_nodes
from elastune.runs.reading import RunReport, node_counts, planned_money, planned_nodes
from elastune.views.figures.figure_style import (
    ACTIVITY_COLOURS,
    BLUE,
    INK,
    LIMIT,
    MUTED,
    SKY,
    TimeAxis,
    drawing,
    halo,
    in_dollars,
    mark_deadline,
    new_figure,
    time_axis,
)  # fmt: skip
from elastune.views.run_tables import stage_name
from elastune.wording import format_usd

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_BARRIERS = 24
_MOST_STAGES = 24
_LEAST_BARS = 4
_NEAR = 2.5


def draw_nodes(run_report: RunReport) -> Figure:
    history, standing = run_report.history, run_report.status.standing
    plan = planned_nodes(run_report.plan)
    deadline_s = standing.limits.deadline_s
    planned_s = plan[-1][0] if plan else 0.0
    # A run that is not over is drawn up to the end of its plan.
    end_s = history.end_s if standing.ending is not None else max(history.end_s, planned_s)
    time = time_axis(end_s, deadline_s, planned_s)
    with drawing():
        figure = new_figure(3.1)
        axes = figure.add_subplot()
        top = _draw_held(axes, run_report, time)
        if plan:
            top = max(top, _draw_plan(axes, plan, time))
        _mark_trouble(axes, run_report, time)
        _mark_barriers(axes, run_report, time)
        mark_deadline(axes, time, deadline_s)
        time.frame(axes)
        axes.set_ylim(0, max(1, top) * 1.22)
        _whole_numbers(axes)
        axes.set_ylabel("nodes")
        axes.grid(visible=False, axis="x")
        axes.set_title("Nodes over time" + (", against the plan" if plan else ""))
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=6, fontsize=8.5, handlelength=1.6)
    return figure


def _draw_held(axes: Axes, run_report: RunReport, time: TimeAxis) -> int:
    counts = node_counts(run_report.history)
    times = [time(each.at_s) for each in counts] + [time(max(run_report.history.end_s, counts[-1].at_s))]
    ready = [each.ready for each in (*counts, counts[-1])]
    held = [each.held for each in (*counts, counts[-1])]
    axes.fill_between(times, ready, step="post", color=SKY, alpha=0.55, linewidth=0, label="up")
    axes.fill_between(
        times, ready, held, step="post", facecolor="none", edgecolor=BLUE, hatch="/////", linewidth=0,
        label="booting",
    )  # fmt: skip
    axes.step(times, held, where="post", color=BLUE, linewidth=1.6)
    return max(held)


def _draw_plan(axes: Axes, plan: Sequence[tuple[float, int]], time: TimeAxis) -> int:
    times = [time(at_s) for at_s, _ in plan]
    nodes = [count for _, count in plan]
    axes.step(
        times, nodes, where="post", color=INK, linewidth=1.5, linestyle=(0, (4, 2)), label="planned", zorder=3
    )
    return max(nodes)


def _mark_trouble(axes: Axes, run_report: RunReport, time: TimeAxis) -> None:
    """Along the foot: the reasons why the steps leave the plan."""
    history = run_report.history
    lost = [life.ended_s for life in history.nodes if life.lost and life.ended_s is not None]
    marks = (
        ("node lost", "X", LIMIT, lost),
        ("nodes refused", "v", "#A15C00", [each.at_s for each in history.refusals]),
        ("Elastune down", "s", "#5B3F8C", [each.at_s for each in history.outages]),
        ("planned again", "^", INK, [each.at_s for each in history.remarks if each.topic == "replan"]),
    )
    for label, marker, colour, times_s in marks:
        if times_s:
            axes.plot(
                [time(at_s) for at_s in times_s], [0.035] * len(times_s), marker, label=label, zorder=5,
                color=colour, markersize=6.5, markeredgecolor="white", markeredgewidth=0.6, clip_on=False,
                transform=axes.get_xaxis_transform(),
            )  # fmt: skip


def _mark_barriers(axes: Axes, run_report: RunReport, time: TimeAxis) -> None:
    """Ends of stages; several brackets have too many to name."""
    pools = {each.pool for each in run_report.history.stages}
    ends = [each for each in run_report.history.stages if each.at_s < run_report.history.end_s]
    if len(pools) != 1 or len(ends) > _MOST_BARRIERS:
        return
    began_s = 0.0
    ends_s = [*(each.at_s for each in ends), run_report.history.end_s]
    for number, ended_s in enumerate(ends_s, 1):
        if number < len(ends_s):
            axes.axvline(time(ended_s), color=MUTED, linewidth=0.8, linestyle=(0, (1, 2)))
        if ended_s - began_s > 0.05 * time.until_s:
            axes.annotate(
                f"stage {number}", (time((began_s + ended_s) / 2), 0.97), xycoords=("data", "axes fraction"),
                ha="center", va="top", fontsize=8.5, color=MUTED, path_effects=halo(),
            )  # fmt: skip
        began_s = ended_s


def _whole_numbers(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))


def draw_cost(run_report: RunReport) -> Figure | None:
    """None: nothing costs anything."""
    standing = run_report.status.standing
    if standing.is_free:
        return None
    plan = planned_money(run_report.plan)
    planned_s = plan[-1][0] if plan else None
    predicted_s = None if standing.predicted is None else standing.predicted.jct_seconds
    end_s = run_report.history.end_s
    if standing.ending is None:
        end_s = max(end_s, planned_s or 0.0)
    time = time_axis(end_s, standing.limits.deadline_s, planned_s, predicted_s)
    stages = [stage for stage in standing.stages if stage.shares is not None]
    with drawing():
        figure = new_figure(max(3.5, 1.6 + 0.25 * min(len(stages), _MOST_STAGES)))
        money, ledger = figure.subplots(1, 2, width_ratios=(1.35, 1))
        _draw_money(money, run_report, plan, time)
        _draw_ledger(ledger, run_report, stages)
        handles, labels = ledger.get_legend_handles_labels()
        look: dict[str, Any] = {"fontsize": 8.5, "handlelength": 1.0, "columnspacing": 1.2}
        figure.legend(handles, labels, loc="outside lower right", ncols=5, **look)
    return figure


def _draw_money(axes: Axes, run_report: RunReport, plan: list[tuple[float, float]], time: TimeAxis) -> None:
    history, standing = run_report.history, run_report.status.standing
    predicted = standing.predicted
    points = [(time(min(at_s, history.end_s)), usd) for at_s, usd in history.money] or [(0.0, 0.0)]
    times, paid = zip(*points, strict=True)
    axes.plot(times, paid, color=BLUE, linewidth=1.8, zorder=3, label=f"paid {format_usd(paid[-1])}")
    axes.fill_between(times, paid, color=BLUE, alpha=0.10, linewidth=0)
    if plan:
        planned = [(time(at_s), usd) for at_s, usd in plan]
        label = f"planned {format_usd(planned[-1][1])}"
        axes.plot(*zip(*planned, strict=True), color=INK, linewidth=1.4, linestyle=(0, (4, 2)), label=label)
    elif predicted is not None:
        label = f"predicted {format_usd(predicted.cost)}"
        point = ([time(predicted.jct_seconds)], [predicted.cost])
        axes.plot(*point, "D", color=INK, markersize=5, zorder=5, label=label)
    top = max([paid[-1], *(usd for _, usd in plan), 0.0 if predicted is None else predicted.cost])
    top = _draw_budget(axes, standing.limits.budget_usd, top)
    mark_deadline(axes, time, standing.limits.deadline_s)
    time.frame(axes)
    axes.set_ylim(0, top * 1.14 or 1.0)
    in_dollars(axes.yaxis)
    # Below the curve: spent money only grows, so that corner is free.
    axes.legend(loc="lower right", labelcolor="linecolor", fontsize=9)
    axes.set_title("Money over time")


def _draw_budget(axes: Axes, budget: float | None, top: float) -> float:
    """Returns the height of the figure. A budget far above is named, not drawn."""
    if budget is None:
        return top
    near = budget <= _NEAR * top
    if near:
        axes.axhline(budget, color=LIMIT, linewidth=1.2, linestyle=(0, (1, 1.5)))
    axes.annotate(
        f"budget {format_usd(budget)}" + ("" if near else " ↑"), (0.01, budget if near else 0.98),
        xycoords=("axes fraction", "data" if near else "axes fraction"), xytext=(0, 3 if near else 0),
        textcoords="offset points", ha="left", va="bottom" if near else "top", fontsize=8.5, color=LIMIT,
    )  # fmt: skip
    return max(top, budget) if near else top


def _draw_ledger(axes: Axes, run_report: RunReport, stages: list[StageStatus]) -> None:
    """Dollars by activity of slots, where whole nodes are billed; otherwise shares of the slot time."""
    standing = run_report.status.standing
    billed = bills_nodes(run_report.terms.cluster) and standing.actual.cost > 0
    shown = stages[:_MOST_STAGES]
    wholes = [stage.actual.cost if billed else 100.0 for stage in shown]
    lefts = [0.0] * len(shown)
    rows = range(len(shown))
    for activity, colour in ACTIVITY_COLOURS.items():
        shares = [getattr(stage.shares, activity) for stage in shown]
        widths = [share * whole for share, whole in zip(shares, wholes, strict=True)]
        axes.barh(rows, widths, left=lefts, height=0.72, color=colour, label=activity, linewidth=0)
        lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
    several = len(standing.brackets) > 1
    names = [stage_name(stage, standing.brackets, long=not several) for stage in shown]
    axes.set_yticks(rows, names if len(stages) > 1 or standing.brackets else ["whole run"] * len(shown))
    axes.set_ylim(max(len(shown), _LEAST_BARS) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    if billed:
        in_dollars(axes.xaxis)
    else:
        axes.set_xlabel("% of the slot time")
    title = "What it was spent on" if billed else "Use of the slot time"
    title += ", by bracket and stage" if several else ""
    axes.set_title(title if len(shown) == len(stages) else f"{title}: {len(shown)} of {len(stages)}")
