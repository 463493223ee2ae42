"""A run in full, from its folder: how it stands, how it came there, and what was planned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from elastune.core.events import RunStarted
from elastune.job import Job
from elastune.journal import FoundRun, Journal, RunFolder
from elastune.runs.history.book import History, history_of
from elastune.runs.history.hopping import hopping_of
from elastune.runs.history.terms import HistoryTerms
from elastune.runs.reopening import RunStatus, reopen
from elastune.runs.replay import event_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStage:
    """A stage of the plan with which the run began. Seconds and dollars are means."""

    bracket: str
    nodes: int
    seconds: float
    usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Memoir:
    """One run in full: how it stands, how it came there, and what was planned."""

    found: FoundRun
    status: RunStatus
    terms: HistoryTerms
    history: History
    job: Mapping[str, object]
    """As it stands in the journal."""
    plan: tuple[PlannedStage, ...]
    """Empty: the policy has no plan, or the file is gone."""


def remember(found: FoundRun) -> Memoir:
    """Replay a run for where it stands, and read its journal once more for how it came there."""
    status = reopen(found)
    terms = terms_of(status.job)
    history = recall(found, terms)
    hopping = hopping_of(history, terms.cluster.slots_per_node)
    return Memoir(
        found=found,
        status=replace(status, standing=replace(status.standing, hopping=hopping)),
        terms=terms,
        history=history,
        job=_job_of(found),
        plan=_read_plan(found.folder) if status.standing.promised is not None else (),
    )


def with_hopping(status: RunStatus) -> RunStatus:
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
