"""Nodes over time: what was held, what was planned, and what went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from elastune.reports.look import (
    BLUE,
    INK,
    LIMIT,
    MUTED,
    SKY,
    drawing,
    halo,
    mark_deadline,
    new_figure,
    time_axis,
)
from elastune.runs.history.reading import Memoir
from elastune.runs.history.series import node_counts, planned_nodes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from elastune.reports.look import TimeAxis

_MOST_BARRIERS = 24


def draw_nodes(memoir: Memoir) -> Figure:
    history, standing = memoir.history, memoir.status.standing
    plan = planned_nodes(memoir.plan)
    deadline_s = standing.limits.deadline_s
    planned_s = plan[-1][0] if plan else 0.0
    # Of a run that goes on, what is still planned belongs into the picture.
    end_s = history.end_s if standing.ending is not None else max(history.end_s, planned_s)
    time = time_axis(end_s, deadline_s, planned_s)
    with drawing():
        figure = new_figure(3.1)
        axes = figure.add_subplot()
        top = _draw_held(axes, memoir, time)
        if plan:
            top = max(top, _draw_plan(axes, plan, time))
        _mark_trouble(axes, memoir, time)
        _mark_barriers(axes, memoir, time)
        mark_deadline(axes, time, deadline_s)
        time.frame(axes)
        axes.set_ylim(0, max(1, top) * 1.22)
        _whole_numbers(axes)
        axes.set_ylabel("nodes")
        axes.grid(visible=False, axis="x")
        axes.set_title("Nodes over time" + (", against the plan" if plan else ""))
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=6, fontsize=8.5, handlelength=1.6)
    return figure


def _draw_held(axes: Axes, memoir: Memoir, time: TimeAxis) -> int:
    counts = node_counts(memoir.history)
    times = [time(each.at_s) for each in counts] + [time(max(memoir.history.end_s, counts[-1].at_s))]
    ready = [each.ready for each in counts]
    held = [each.held for each in counts]
    ready.append(ready[-1])
    held.append(held[-1])
    axes.fill_between(times, ready, step="post", color=SKY, alpha=0.55, linewidth=0, label="up")
    axes.fill_between(
        times,
        ready,
        held,
        step="post",
        facecolor="none",
        edgecolor=BLUE,
        hatch="/////",
        linewidth=0,
        label="booting",
    )
    axes.step(times, held, where="post", color=BLUE, linewidth=1.6)
    return max(held)


def _draw_plan(axes: Axes, plan: Sequence[tuple[float, int]], time: TimeAxis) -> int:
    times = [time(at_s) for at_s, _ in plan]
    nodes = [count for _, count in plan]
    axes.step(
        times, nodes, where="post", color=INK, linewidth=1.5, linestyle=(0, (4, 2)), label="planned", zorder=3
    )
    return max(nodes)


def _mark_trouble(axes: Axes, memoir: Memoir, time: TimeAxis) -> None:
    """Along the foot: what a reader looks for where the steps leave the plan."""
    history = memoir.history
    marks = (
        (
            "node lost",
            "X",
            LIMIT,
            [life.ended_s for life in history.nodes if life.lost and life.ended_s is not None],
        ),
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


def _mark_barriers(axes: Axes, memoir: Memoir, time: TimeAxis) -> None:
    """Ends of stages; of several brackets there are too many to be named."""
    pools = {each.pool for each in memoir.history.stages}
    ends = [each for each in memoir.history.stages if each.at_s < memoir.history.end_s]
    if len(pools) != 1 or len(ends) > _MOST_BARRIERS:
        return
    began_s = 0.0
    ends_s = [*(each.at_s for each in ends), memoir.history.end_s]
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
