"""Which trial was on which slots of which node, and what it did there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from elastune.core.trials import Activity
from elastune.place import TrialId
from elastune.reports.gantt_layout import Box, Layout, lay_out
from elastune.reports.look import (
    HELD,
    INK,
    LIMIT,
    MUTED,
    PAPER,
    VERMILION,
    drawing,
    mark_deadline,
    new_figure,
    time_axis,
)  # fmt: skip
from elastune.runs.history.nodes import NodeLife
from elastune.runs.history.reading import Memoir
from elastune.units import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from elastune.reports.look import TimeAxis

# Light enough for letters and beside the one trial that matters; neighbours in number differ in hue.
_TINTS = ("#9CC7E4", "#F2CF8D", "#93D1BC", "#E3BAD2", "#C9CF9A", "#B9B2E0", "#B9D7EF", "#E8B79A")
_WINNER = VERMILION
_HATCHES = {Activity.STARTING: "//////", Activity.SAVING: "xxxxxx", Activity.WAITING: "....."}
_ROW_INCHES, _LEAST_INCHES, _MOST_INCHES = 0.17, 2.4, 11.0
_MOST_LABELS = 1200


def draw_gantt(memoir: Memoir) -> Figure:
    history, standing = memoir.history, memoir.status.standing
    layout = lay_out(history, memoir.terms.cluster.slots_per_node)
    time = time_axis(history.end_s, standing.limits.deadline_s)
    best = None if standing.best is None else TrialId(standing.best.trial)
    height = min(_MOST_INCHES, max(_LEAST_INCHES, 1.1 + _ROW_INCHES * layout.rows))
    with drawing():
        figure = new_figure(height)
        axes = figure.add_subplot()
        _draw_nodes(axes, layout, time, history.end_s)
        _draw_boxes(axes, layout.boxes, time, best)
        row_points = (height - 1.1) * 72 / max(1, layout.rows)
        _write_trials(axes, layout.boxes, time, best, row_points)
        _mark_ends(axes, layout, time)
        _name_lanes(axes, layout, row_points)
        mark_deadline(axes, time, standing.limits.deadline_s)
        time.frame(axes)
        axes.set_ylim(max(1, layout.rows), 0)
        axes.grid(visible=False)
        axes.set_title(_title(layout))
        _draw_key(figure, axes, best)
    return figure


def _title(layout: Layout) -> str:
    title = f"Trials on nodes of {plural(layout.slots_per_node, 'slot')}"
    if layout.left_out:
        title += f" ({plural(layout.left_out, 'more node')} not shown)"
    return title


def _draw_nodes(axes: Axes, layout: Layout, time: TimeAxis, end_s: float) -> None:
    size = layout.slots_per_node
    for lane, lives in enumerate(layout.lanes):
        for life in lives:
            until_s = life.until_s(end_s)
            ready_s = until_s if life.ready_s is None else life.ready_s
            axes.broken_barh(
                [(time(ready_s), time(until_s - ready_s))], (lane * size, size), facecolor=HELD, linewidth=0
            )
            axes.broken_barh(
                [(time(life.born_s), time(ready_s - life.born_s))], (lane * size, size),
                facecolor=HELD, edgecolor=MUTED, hatch="\\\\\\\\", linewidth=0,
            )  # fmt: skip
        if lane:
            axes.axhline(lane * size, color=PAPER, linewidth=2.2, zorder=3)


def _draw_boxes(axes: Axes, boxes: Sequence[Box], time: TimeAxis, best: TrialId | None) -> None:
    """One collection for each look: thousands of boxes are drawn as fast as one."""
    from matplotlib.collections import PolyCollection  # noqa: PLC0415

    looks: dict[tuple[str, Activity], list[Box]] = defaultdict(list)
    for box in boxes:
        colour = _WINNER if box.trial == best else _TINTS[box.trial % len(_TINTS)]
        looks[colour, box.activity].append(box)
    for (colour, activity), alike in looks.items():
        corners = [_corners(box, time) for box in alike]
        trains = activity is Activity.TRAINING
        axes.add_collection(
            PolyCollection(
                corners,
                facecolor=colour,
                edgecolor=PAPER if trains else INK,
                linewidth=0.5 if trains else 0.0,
                hatch=_HATCHES.get(activity),
                zorder=2,
            ),
            autolim=False,
        )


def _corners(box: Box, time: TimeAxis) -> list[tuple[float, float]]:
    left, right = time(box.from_s), time(box.until_s)
    top, bottom = box.top + 0.04, box.top + box.slots - 0.04
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def _write_trials(
    axes: Axes, boxes: Sequence[Box], time: TimeAxis, best: TrialId | None, row_points: float
) -> None:
    """Numbers of trials where there is room for them."""
    if row_points < 6.0:
        return
    size = min(8.0, row_points * 0.8)
    letter_s = time.until_s * size / 1100
    labelled = [
        box
        for box in boxes
        if box.activity is Activity.TRAINING
        and box.until_s - box.from_s > letter_s * (len(f"{box.trial}") + 1)
    ]
    if len(labelled) > _MOST_LABELS:
        return
    for box in labelled:
        axes.text(
            time((box.from_s + box.until_s) / 2), box.top + box.slots / 2, f"{box.trial}",
            ha="center", va="center_baseline", fontsize=size, zorder=4, clip_on=True,
            color="white" if box.trial == best else "#24292E",
        )  # fmt: skip


def _mark_ends(axes: Axes, layout: Layout, time: TimeAxis) -> None:
    size = layout.slots_per_node
    lost = [
        (time(life.ended_s), (lane + 0.5) * size)
        for lane, lives in enumerate(layout.lanes)
        for life in lives
        if life.lost and life.ended_s is not None
    ]
    for points, marker, width, label in (
        (lost, "X", 9.0, "node lost"),
        ([(time(at_s), row) for at_s, row in layout.crashes], "x", 5.0, "crash"),
    ):
        if points:
            axes.plot(
                *zip(*points, strict=True), marker, color=LIMIT, markersize=width, label=label, zorder=6,
                markeredgecolor="white" if marker == "X" else LIMIT, markeredgewidth=0.8, clip_on=False,
            )  # fmt: skip


def _name_lanes(axes: Axes, layout: Layout, row_points: float) -> None:
    size = layout.slots_per_node
    every = max(1, round(9.0 / max(0.1, row_points * size) + 0.49))
    lanes = list(enumerate(layout.lanes))[::every]
    axes.set_yticks([(lane + 0.5) * size for lane, _ in lanes], [_names(lives) for _, lives in lanes])
    axes.tick_params(axis="y", length=0, labelsize=8.5)
    axes.spines["left"].set_visible(False)


def _names(lives: Sequence[NodeLife]) -> str:
    names = ", ".join(life.node for life in lives[:2])
    return names if len(lives) <= 2 else f"{names}, +{len(lives) - 2}"


def _draw_key(figure: Figure, axes: Axes, best: TrialId | None) -> None:
    from matplotlib.patches import Patch  # noqa: PLC0415

    tint = _TINTS[0]
    handles: list[object] = [
        Patch(facecolor=HELD, edgecolor=MUTED, hatch="\\\\\\\\", linewidth=0, label="node boots"),
        Patch(facecolor=HELD, label="idle"),
        Patch(facecolor=tint, edgecolor=INK, hatch="//////", linewidth=0, label="starts"),
        Patch(facecolor=tint, label="trains"),
        Patch(facecolor=tint, edgecolor=INK, hatch="xxxxxx", linewidth=0, label="saves"),
    ]
    if best is not None:
        handles.append(Patch(facecolor=_WINNER, label=f"best trial ({best})"))
    handles += axes.get_legend_handles_labels()[0]
    figure.legend(handles=handles, loc="outside lower center", ncols=8, fontsize=8.5, handlelength=1.8)
