"""The layout of a Gantt chart: lanes for nodes, boxes for what gangs did on their slots.

A lane has a row for each slot of a node. Later nodes reuse the lanes of nodes that are gone, so that the
chart is no higher than the largest cluster.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass

from elastune.core.trials import Activity
from elastune.history.gangs import GangLife
from elastune.history.nodes import NodeLife
from elastune.history.recorder import History
from elastune.model.ids import NodeId, TrialId

MOST_ROWS = 160
# Up to this number, visits are drawn however short they are: otherwise busy workers would look idle.
_MOST_VISITS = 60_000
# A shorter share of the run is not visible.
_VISIBLE = 1 / 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """Neighbouring slots of one node, counted from the top of the chart."""

    trial: TrialId
    activity: Activity
    top: int
    slots: int
    from_s: float
    until_s: float
    evaluates: bool = False  # a visit to validation data
    loads_until_s: float | None = None  # when the visit had read its partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    lanes: tuple[tuple[NodeLife, ...], ...]
    boxes: tuple[Box, ...]
    crashes: tuple[tuple[float, float], ...]  # times and rows at which gangs crashed
    slots_per_node: int
    left_out: int  # nodes without room
    hops: bool = False  # boxes are visits of hopping models, mostly

    @property
    def rows(self) -> int:
        return len(self.lanes) * self.slots_per_node


def lay_out(history: History, slots_per_node: int, most_rows: int = MOST_ROWS) -> Layout:
    lanes = _lanes(history.nodes, history.end_s)
    shown = lanes[: max(1, most_rows // slots_per_node)]
    tops = {life.node: lane * slots_per_node for lane, lives in enumerate(shown) for life in lives}
    visits = sum(gang.visit is not None for gang in history.gangs)
    shortest_s = 0.0 if 0 < visits <= _MOST_VISITS else history.end_s * _VISIBLE
    boxes = [box for gang in history.gangs for box in _boxes(gang, tops, shortest_s)]
    crashes = [
        (gang.until_s, tops[gang.gang[0].node] + gang.gang[0].number + 0.5)
        for gang in history.gangs
        if gang.end == "crashed" and gang.gang[0].node in tops
    ]
    return Layout(
        lanes=tuple(map(tuple, shown)),
        boxes=tuple(boxes),
        crashes=tuple(crashes),
        slots_per_node=slots_per_node,
        left_out=sum(len(lives) for lives in lanes[len(shown) :]),
        hops=visits > 0,
    )


def _lanes(nodes: tuple[NodeLife, ...], end_s: float) -> list[list[NodeLife]]:
    """The free lane with the smallest number first."""
    lanes: list[list[NodeLife]] = []
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    for life in sorted(nodes, key=lambda each: each.born_s):
        while busy and busy[0][0] <= life.born_s:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(lanes)
        if lane == len(lanes):
            lanes.append([])
        lanes[lane].append(life)
        heapq.heappush(busy, (life.until_s(end_s), lane))
    return lanes


def _boxes(gang: GangLife, tops: dict[NodeId, int], shortest_s: float) -> list[Box]:
    rows = sorted(tops[slot.node] + slot.number for slot in gang.gang if slot.node in tops)
    runs = [
        [row for _, row in group]
        for _, group in itertools.groupby(enumerate(rows), key=lambda pair: pair[1] - pair[0])
    ]
    visit = gang.visit
    return [
        Box(
            trial=gang.trial,
            activity=span.activity,
            top=run[0],
            slots=len(run),
            from_s=span.from_s,
            until_s=span.until_s,
            evaluates=visit is not None and visit.evaluates,
            loads_until_s=span.from_s + visit.load_s if visit is not None and visit.load_s > 0.0 else None,
        )
        for run in runs
        for span in gang.spans
        if span.until_s - span.from_s >= shortest_s and span.until_s > span.from_s
    ]
