"""A run in full, from its folder: how it stands, how it came there, and what was planned.

What is drawn against time: nodes as they were and as they were planned, money as it was planned.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from elastune.core.events import RunStarted
from elastune.history.hopping import hopping_of
from elastune.history.recorder import History, history_of
from elastune.history.trials import HistoryTerms
from elastune.job.job import Job
from elastune.journal.codec import event_of
from elastune.journal.run_folders import FoundRun, RunFolder
from elastune.journal.store import Journal
from elastune.runs.reopening import ReopenedRun, reopen


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStage:
    """A stage of the plan with which the run began. Seconds and dollars are means."""

    bracket: str
    nodes: int
    seconds: float
    usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """One run in full: how it stands, how it came there, and what was planned."""

    found: FoundRun
    status: ReopenedRun
    terms: HistoryTerms
    history: History
    job: Mapping[str, object]  # from the journal
    plan: tuple[PlannedStage, ...]  # empty: the policy has no plan, or its file is missing


def remember(found: FoundRun) -> RunReport:
    """Replay a run for where it stands, and read its journal once more for how it came there."""
    status = reopen(found)
    terms = terms_of(status.job)
    history = recall(found, terms)
    hopping = hopping_of(history, terms.cluster.slots_per_node)
    return RunReport(
        found=found,
        status=replace(status, standing=replace(status.standing, hopping=hopping)),
        terms=terms,
        history=history,
        job=_job_of(found),
        plan=_read_plan(found.folder) if status.standing.promised is not None else (),
    )


def with_hopping(status: ReopenedRun) -> ReopenedRun:
    """A status that tells how the models hopped, too. The journal is read once more for that."""
    journal = status.folder.journal
    if status.job.execution != "hopper" or not journal.exists():
        return status
    terms = terms_of(status.job)
    history = history_of(Journal.open(journal, read_only=True).read(status.record.run), terms)
    hopping = hopping_of(history, terms.cluster.slots_per_node)
    return replace(status, standing=replace(status.standing, hopping=hopping))


def recall(found: FoundRun, terms: HistoryTerms) -> History:
    """The history alone: much faster, since nothing is planned or decided again."""
    return history_of(Journal.open(found.journal, read_only=True).read(found.record.run), terms)


def terms_of(job: Job) -> HistoryTerms:
    """Of a job as `reopen` gives it back: one whose trainable need not be there."""
    tuning = job.tuning()
    return HistoryTerms(metric=tuning.metric, mode=tuning.mode, cluster=job.cluster.to_terms())


def _job_of(found: FoundRun) -> Mapping[str, object]:
    journal = Journal.open(found.journal, read_only=True)
    started = event_of(next(journal.read(found.record.run)))
    return started.job if isinstance(started, RunStarted) else {}


def _read_plan(folder: RunFolder) -> tuple[PlannedStage, ...]:
    """Empty if there is no such file, or if it is not what was written."""
    try:
        data = json.loads(folder.plan.read_text(encoding="utf-8"))
        return tuple(
            PlannedStage(
                bracket=str(stage.get("bracket", "")),
                nodes=int(stage["nodes_held"]),
                seconds=float(stage["seconds"]),
                usd=float(stage["cost"]),
            )
            for stage in data["stages"]
        )
    except (OSError, AttributeError, KeyError, TypeError, ValueError):
        return ()


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
