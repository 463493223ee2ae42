"""What is drawn against time: nodes as they were and as they were planned, money as it was planned."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from elastune.runs.history.book import History
from elastune.runs.history.reading import PlannedStage


class NodeCount(NamedTuple):
    """Nodes from this time on."""

    at_s: float
    ready: int
    booting: int

    @property
    def held(self) -> int:
        return self.ready + self.booting


def node_counts(history: History) -> list[NodeCount]:
    """Steps from time 0 on; what happens at the same time is one step."""
    changes: list[tuple[float, int, int]] = []
    for life in history.nodes:
        born_s = max(0.0, life.born_s)
        changes.append((born_s, 0, 1))
        if life.ready_s is not None:
            changes.append((life.ready_s, 1, -1))
        if life.ended_s is not None:
            changes.append((life.ended_s, -1, 0) if life.ready_s is not None else (life.ended_s, 0, -1))
    counts = [NodeCount(0.0, 0, 0)]
    for at_s, together in itertools.groupby(sorted(changes), key=lambda change: change[0]):
        _, ready, booting = counts[-1]
        for _, more_ready, more_booting in together:
            ready += more_ready
            booting += more_booting
        counts.append(NodeCount(at_s, ready, booting))
    return counts


def planned_nodes(plan: Sequence[PlannedStage]) -> list[tuple[float, int]]:
    """Nodes that the plan holds from each time on. Brackets begin together; the last step is the end."""
    changes: list[tuple[float, int]] = []
    for stages in _brackets(plan):
        at_s = 0.0
        for stage in stages:
            changes.append((at_s, stage.nodes))
            at_s += stage.seconds
            changes.append((at_s, -stage.nodes))
    nodes, steps = 0, []
    for at_s, together in itertools.groupby(sorted(changes), key=lambda change: change[0]):
        nodes += sum(change for _, change in together)
        steps.append((at_s, nodes))
    return steps


def planned_money(plan: Sequence[PlannedStage]) -> list[tuple[float, float]]:
    """What the plan will have cost at each time: within a stage, evenly."""
    courses = []
    for stages in _brackets(plan):
        course = [(0.0, 0.0)]
        for stage in stages:
            course.append((course[-1][0] + stage.seconds, course[-1][1] + stage.usd))
        courses.append(course)
    times = sorted({at_s for course in courses for at_s, _ in course})
    return [(at_s, sum(_between(course, at_s) for course in courses)) for at_s in times]


def _brackets(plan: Sequence[PlannedStage]) -> list[list[PlannedStage]]:
    return [list(stages) for _, stages in itertools.groupby(plan, key=lambda stage: stage.bracket)]


def _between(course: Sequence[tuple[float, float]], at_s: float) -> float:
    for (from_s, before), (until_s, after) in itertools.pairwise(course):
        if at_s <= until_s:
            return (
                before + (after - before) * (at_s - from_s) / (until_s - from_s)
                if until_s > from_s
                else after
            )
    return course[-1][1]
