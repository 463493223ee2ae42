"""Which trial was on which slots of which node, and what it did there.

Where models hop, every bar is a visit and every colour a trial, as in Cerebro's figure 22.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from elastune.core.trials import Activity
from elastune.history.hopping import RoundFigures
from elastune.history.nodes import NodeLife
from elastune.model.ids import TrialId
from elastune.runs.reading import RunReport
from elastune.views.figures.figure_style import (
    HELD,
    INK,
    LIMIT,
    MUTED,
    PAPER,
    VERMILION,
    TimeAxis,
    drawing,
    mark_deadline,
    new_figure,
    time_axis,
)  # fmt: skip
from elastune.views.figures.gantt_layout import Box, Layout, lay_out
from elastune.wording import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Light enough for letters and beside the best trial; neighbours in number differ in hue.
_TINTS = ("#9CC7E4", "#F2CF8D", "#93D1BC", "#E3BAD2", "#C9CF9A", "#B9B2E0", "#B9D7EF", "#E8B79A")
# More colours where they identify trials; none so pale that it looks like an evaluation.
_TRIALS = (
    "#6BAED6", "#F2B347", "#52BFA0", "#DA86B5", "#A8B84E", "#9C8FD8", "#C49A6C", "#5CC3CF",
    "#E6CF45", "#7A97B5", "#7CC36B", "#C77FD0", "#4B8CC2", "#B98590", "#E29C97", "#7482D6",
)  # fmt: skip
_WINNER = VERMILION
# Opacity of evaluations.
_PALE = 0.42
_HATCHES = {Activity.STARTING: "//////", Activity.SAVING: "xxxxxx", Activity.WAITING: "....."}
_BOOTS, _READS = "\\\\\\\\", "||||||"
_ROW_INCHES, _VISIT_INCHES, _LEAST_INCHES, _MOST_INCHES = 0.17, 0.24, 2.4, 11.0
_MOST_LABELS = 1200
# A round that can be followed has no more visits; a single round needs no second picture.
_MOST_FOLLOWED = 400
_LEAST_ROUNDS = 2
# Narrower boxes would consist of their outline only.
_LEAST_OUTLINED_INCHES = 0.03
_AXES_INCHES = 9.0
_NAMED_POINTS = 9.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """The layout and the period that are drawn."""

    layout: Layout
    time: TimeAxis
    from_s: float
    until_s: float
    best: TrialId | None
    row_inches: float

    @property
    def boxes(self) -> Iterator[Box]:
        return (box for box in self.layout.boxes if box.from_s < self.until_s and box.until_s > self.from_s)

    @property
    def row_points(self) -> float:
        return self.row_inches * 72

    def inches(self, seconds: float) -> float:
        return _AXES_INCHES * seconds / max(1e-9, self.until_s - self.from_s)

    def colour(self, trial: TrialId) -> str:
        if trial == self.best:
            return _WINNER
        palette = _TRIALS if self.layout.hops else _TINTS
        return palette[trial % len(palette)]


def draw_gantt(run_report: RunReport) -> Figure:
    """The whole run."""
    deadline_s = run_report.status.standing.limits.deadline_s
    time = time_axis(run_report.history.end_s, deadline_s)
    view = _view(run_report, time, 0.0, time.until_s)
    with drawing():
        figure, axes = _draw(view, run_report.history.end_s)
        mark_deadline(axes, time, deadline_s)
        time.frame(axes)
        axes.set_title(_title(view.layout))
    return figure


def draw_round(run_report: RunReport) -> Figure | None:
    """One round, large enough to follow every model; None: there are fewer than two."""
    hopping = run_report.status.standing.hopping
    rounds = {} if hopping is None else dict(enumerate(hopping.rounds, 1))
    hopped = {number: each for number, each in rounds.items() if each.manner == "hopping"}
    if len(hopped) < _LEAST_ROUNDS:
        return None
    number = max(hopped, key=lambda each: (_followed(hopped[each]), -each))
    shown = hopped[number]
    time = time_axis(run_report.history.end_s)
    view = _view(run_report, time, shown.began_s, shown.began_s + shown.seconds)
    with drawing():
        figure, axes = _draw(view, run_report.history.end_s)
        axes.set_xlim(time(view.from_s), time(view.until_s))
        time.label(axes)
        axes.set_title(f"Round {number}: every model visits every partition once")
    return figure


def _followed(each: RoundFigures) -> int:
    return each.visits if each.visits <= _MOST_FOLLOWED else -each.visits


def _view(run_report: RunReport, time: TimeAxis, from_s: float, until_s: float) -> _View:
    layout = lay_out(run_report.history, run_report.terms.cluster.slots_per_node)
    best = run_report.status.standing.best
    usual = _VISIT_INCHES if layout.hops else _ROW_INCHES
    rows = max(1, layout.rows)
    height = min(_MOST_INCHES, max(_LEAST_INCHES, 1.1 + usual * rows))
    return _View(
        layout=layout,
        time=time,
        from_s=from_s,
        until_s=until_s,
        best=None if best is None else TrialId(best.trial),
        row_inches=(height - 1.1) / rows,
    )


def _draw(view: _View, end_s: float) -> tuple[Figure, Axes]:
    layout = view.layout
    figure = new_figure(1.1 + view.row_inches * max(1, layout.rows))
    axes = figure.add_subplot()
    _draw_nodes(axes, layout, view.time, end_s)
    _draw_boxes(axes, view)
    _draw_reading(axes, view)
    _write_trials(axes, view)
    _mark_ends(axes, view)
    _name_lanes(axes, layout, view.row_points)
    axes.set_ylim(max(1, layout.rows), 0)
    axes.grid(visible=False)
    _draw_key(figure, axes, view)
    return figure, axes


def _title(layout: Layout) -> str:
    title = f"Trials on nodes of {plural(layout.slots_per_node, 'slot')}"
    if layout.hops:
        title = "Models on workers: a colour is a trial, a bar one visit to a partition"
    if layout.left_out:
        title += f" ({plural(layout.left_out, 'more node')} not shown)"
    return title


def _draw_nodes(axes: Axes, layout: Layout, time: TimeAxis, end_s: float) -> None:
    size = layout.slots_per_node
    for lane, lives in enumerate(layout.lanes):
        for life in lives:
            until_s = life.until_s(end_s)
            ready_s = until_s if life.ready_s is None else life.ready_s
            boot = [(time(life.born_s), time(ready_s - life.born_s))]
            up, rows = [(time(ready_s), time(until_s - ready_s))], (lane * size, size)
            axes.broken_barh(up, rows, facecolor=HELD, linewidth=0)
            axes.broken_barh(boot, rows, facecolor=HELD, edgecolor=MUTED, hatch=_BOOTS, linewidth=0)
        if lane:
            axes.axhline(lane * size, color=PAPER, linewidth=2.2, zorder=3)


def _draw_boxes(axes: Axes, view: _View) -> None:
    """One collection for each look, because thousands of single boxes would be slow."""
    from matplotlib.collections import PolyCollection  # noqa: PLC0415

    looks: dict[tuple[str, Activity, bool], list[Box]] = defaultdict(list)
    for box in view.boxes:
        looks[view.colour(box.trial), box.activity, box.evaluates].append(box)
    count = max(1, sum(map(len, looks.values())))
    total_s = sum(box.until_s - box.from_s for alike in looks.values() for box in alike)
    outlined = view.inches(total_s / count) >= _LEAST_OUTLINED_INCHES or not view.layout.hops
    for (colour, activity, evaluates), alike in looks.items():
        trains = activity is Activity.TRAINING
        boxes = PolyCollection(
            [_corners(box, view.time) for box in alike], facecolor=colour, edgecolor=PAPER if trains else INK,
            linewidth=0.5 if trains and outlined else 0.0, hatch=_HATCHES.get(activity),
            alpha=_PALE if evaluates else None, zorder=2,
        )  # fmt: skip
        axes.add_collection(boxes, autolim=False)


def _draw_reading(axes: Axes, view: _View) -> None:
    """Over the bar of the visit that waited for the data."""
    from matplotlib.collections import PolyCollection  # noqa: PLC0415

    corners = [
        _corners(replace(box, until_s=min(box.until_s, box.loads_until_s)), view.time)
        for box in view.boxes
        if box.loads_until_s is not None
    ]
    if corners:
        look: dict[str, Any] = {
            "facecolor": "none",
            "edgecolor": INK,
            "hatch": _READS,
            "linewidth": 0.0,
            "zorder": 3,
        }
        axes.add_collection(PolyCollection(corners, **look), autolim=False)


def _corners(box: Box, time: TimeAxis) -> list[tuple[float, float]]:
    left, right = time(box.from_s), time(box.until_s)
    top, bottom = box.top + 0.04, box.top + box.slots - 0.04
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def _write_trials(axes: Axes, view: _View) -> None:
    """Numbers of trials where there is room for them."""
    if view.row_points < 6.0:
        return
    size = min(8.0, view.row_points * 0.8)
    letter_s = (view.until_s - view.from_s) * size / 1100
    labelled = [
        box
        for box in view.boxes
        if box.activity is Activity.TRAINING
        and box.until_s - box.from_s > letter_s * (len(f"{box.trial}") + 1)
    ]
    if len(labelled) > _MOST_LABELS:
        return
    for box in labelled:
        is_best = box.trial == view.best and not box.evaluates
        axes.text(
            view.time((box.from_s + box.until_s) / 2), box.top + box.slots / 2, f"{box.trial}",
            ha="center", va="center_baseline", fontsize=size, zorder=4, clip_on=True,
            color="white" if is_best else INK if box.evaluates else "#24292E",
        )  # fmt: skip


def _mark_ends(axes: Axes, view: _View) -> None:
    layout, time = view.layout, view.time
    size = layout.slots_per_node
    lost = [
        (life.ended_s, (lane + 0.5) * size)
        for lane, lives in enumerate(layout.lanes)
        for life in lives
        if life.lost and life.ended_s is not None
    ]
    for marks, marker, width, label in ((lost, "X", 9.0, "node lost"), (layout.crashes, "x", 5.0, "crash")):
        points = [(time(at_s), row) for at_s, row in marks if view.from_s <= at_s <= view.until_s]
        if points:
            axes.plot(
                *zip(*points, strict=True), marker, color=LIMIT, markersize=width, label=label, zorder=6,
                markeredgecolor="white" if marker == "X" else LIMIT, markeredgewidth=0.8, clip_on=False,
            )  # fmt: skip


def _name_lanes(axes: Axes, layout: Layout, row_points: float) -> None:
    """Nodes; workers where models hop and there is room."""
    size = layout.slots_per_node
    axes.tick_params(axis="y", length=0, labelsize=8.5)
    axes.spines["left"].set_visible(False)
    if layout.hops and size > 1 and row_points >= _NAMED_POINTS:
        rows = [
            (lane * size + slot + 0.5, f"{_names(lives)}:{slot}")
            for lane, lives in enumerate(layout.lanes)
            for slot in range(size)
        ]
        axes.set_yticks([at for at, _ in rows], [name for _, name in rows])
        return
    every = max(1, round(_NAMED_POINTS / max(0.1, row_points * size) + 0.49))
    lanes = list(enumerate(layout.lanes))[::every]
    axes.set_yticks([(lane + 0.5) * size for lane, _ in lanes], [_names(lives) for _, lives in lanes])


def _names(lives: Sequence[NodeLife]) -> str:
    names = ", ".join(life.node for life in lives[:2])
    return names if len(lives) <= 2 else f"{names}, +{len(lives) - 2}"


def _draw_key(figure: Figure, axes: Axes, view: _View) -> None:
    """Where models hop, only what occurs."""
    from matplotlib.patches import Patch  # noqa: PLC0415

    hops = view.layout.hops
    tint = _TRIALS[0] if hops else _TINTS[0]
    done = {box.activity for box in view.boxes}
    handles: list[object] = [
        Patch(facecolor=HELD, edgecolor=MUTED, hatch=_BOOTS, linewidth=0, label="node boots"),
        Patch(facecolor=HELD, label="idle"),
    ]
    if not hops or Activity.STARTING in done:
        handles.append(Patch(facecolor=tint, edgecolor=INK, hatch="//////", linewidth=0, label="starts"))
    handles.append(Patch(facecolor=tint, label="trains"))
    if any(box.evaluates for box in view.boxes):
        handles.append(Patch(facecolor=tint, alpha=_PALE, label="is evaluated"))
    if any(box.loads_until_s is not None for box in view.boxes):
        handles.append(Patch(facecolor=tint, edgecolor=INK, hatch=_READS, linewidth=0, label="reads data"))
    if not hops or Activity.SAVING in done:
        handles.append(Patch(facecolor=tint, edgecolor=INK, hatch="xxxxxx", linewidth=0, label="saves"))
    if view.best is not None:
        handles.append(Patch(facecolor=_WINNER, label=f"best trial ({view.best})"))
    handles += axes.get_legend_handles_labels()[0]
    figure.legend(handles=handles, loc="outside lower center", ncols=8, fontsize=8.5, handlelength=1.8)
