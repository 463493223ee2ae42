"""Reads a run for a report: its status, history and plan, and the nodes and money over time for figures."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import NamedTuple

from elastune.history.hopping import hopping_of
from elastune.history.recorder import History, history_of
from elastune.history.trials import HistoryTerms
from elastune.job.job import Job
from elastune.journal.run_folders import FoundRun, RunFolder
from elastune.journal.store import Journal
from elastune.runs.reopening import ReopenedRun, reopen, started_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStage:
    """A stage of the run's first plan. Seconds and dollars are means."""

    bracket: str
    nodes: int
    seconds: float
    usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    found: FoundRun
    status: ReopenedRun
    terms: HistoryTerms
    history: History
    job: Mapping[str, object]  # from the journal
    plan: tuple[PlannedStage, ...]  # empty: the policy has no plan, or its file is missing


def remember(found: FoundRun) -> RunReport:
    """Replay a run for its status, and read its journal once more for its history."""
    status = reopen(found)
    terms = terms_of(status.job)
    history = recall(found, terms)
    return RunReport(
        found=found,
        status=_add_hopping(status, history, terms),
        terms=terms,
        history=history,
        job=started_of(found.record, Journal.open(found.journal, read_only=True)).job,
        plan=read_plan(found.folder) if status.standing.promised is not None else (),
    )


def with_hopping(status: ReopenedRun) -> ReopenedRun:
    """Adds the hopping figures to a status, which reads the journal once more."""
    journal = status.folder.journal
    if status.job.execution != "hopper" or not journal.exists():
        return status
    terms = terms_of(status.job)
    history = history_of(Journal.open(journal, read_only=True).read(status.record.run), terms)
    return _add_hopping(status, history, terms)


def _add_hopping(status: ReopenedRun, history: History, terms: HistoryTerms) -> ReopenedRun:
    hopping = hopping_of(history, terms.cluster.slots_per_node)
    return replace(status, standing=replace(status.standing, hopping=hopping))


def recall(found: FoundRun, terms: HistoryTerms) -> History:
    """The history alone, which is much faster than a replay."""
    return history_of(Journal.open(found.journal, read_only=True).read(found.record.run), terms)


def terms_of(job: Job) -> HistoryTerms:
    """Of a job from `reopen`, whose trainable may be missing."""
    tuning = job.tuning()
    return HistoryTerms(metric=tuning.metric, mode=tuning.mode, cluster=job.cluster.to_terms())


def read_plan(folder: RunFolder) -> tuple[PlannedStage, ...]:
    """Empty if the file is missing or not valid."""
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
    at_s: float
    ready: int
    booting: int

    @property
    def held(self) -> int:
        return self.ready + self.booting


def node_counts(history: History) -> list[NodeCount]:
    """Steps from time 0 on, one per time."""
    changes: list[tuple[float, int, int]] = []
    for life in history.nodes:
        changes.append((max(0.0, life.born_s), 0, 1))
        if life.ready_s is not None:
            changes.append((life.ready_s, 1, -1))
        if life.ended_s is not None:
            changes.append((life.ended_s, -1, 0) if life.ready_s is not None else (life.ended_s, 0, -1))
    counts = [NodeCount(0.0, 0, 0)]
    for at_s, group in itertools.groupby(sorted(changes), key=itemgetter(0)):
        together = list(group)
        ready = counts[-1].ready + sum(change for _, change, _ in together)
        booting = counts[-1].booting + sum(change for _, _, change in together)
        counts.append(NodeCount(at_s, ready, booting))
    return counts


def planned_nodes(plan: Sequence[PlannedStage]) -> list[tuple[float, int]]:
    """(time, nodes planned from then on). Brackets begin together; the last step is the end."""
    changes: list[tuple[float, int]] = []
    for stages in _brackets(plan):
        at_s = 0.0
        for stage in stages:
            changes.append((at_s, stage.nodes))
            at_s += stage.seconds
            changes.append((at_s, -stage.nodes))
    nodes, steps = 0, []
    for at_s, group in itertools.groupby(sorted(changes), key=itemgetter(0)):
        nodes += sum(change for _, change in group)
        steps.append((at_s, nodes))
    return steps


def planned_money(plan: Sequence[PlannedStage]) -> list[tuple[float, float]]:
    """(time, planned cost until then), linear within a stage."""
    lines = []
    for stages in _brackets(plan):
        line = [(0.0, 0.0)]
        for stage in stages:
            line.append((line[-1][0] + stage.seconds, line[-1][1] + stage.usd))
        lines.append(line)
    times = sorted({at_s for line in lines for at_s, _ in line})
    return [(at_s, sum(_interpolate(line, at_s) for line in lines)) for at_s in times]


def _brackets(plan: Sequence[PlannedStage]) -> list[list[PlannedStage]]:
    return [list(stages) for _, stages in itertools.groupby(plan, key=lambda stage: stage.bracket)]


def _interpolate(line: Sequence[tuple[float, float]], at_s: float) -> float:
    for (from_s, before), (until_s, after) in itertools.pairwise(line):
        if at_s <= until_s:
            length_s = until_s - from_s
            return before + (after - before) * (at_s - from_s) / length_s if length_s > 0.0 else after
    return line[-1][1]
