"""Replays a run from its journal, for its status and to audit its commands.

A replay needs the job and the policy, but no training, because the journal has the rows. The trainable is not
opened, so a run can be inspected even if its code and curves are missing.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace

from elastune.core.core import Core
from elastune.core.events import Progressed, RunStarted
from elastune.core.state import State
from elastune.curves.opening import SYNTHETIC
from elastune.errors import ElastuneError, ExecutionError, InvariantError
from elastune.exports.saved_model import saved_model
from elastune.history.notes import RunNote, collect_notes
from elastune.history.result import Estimate
from elastune.history.status import RunStatus, status_of
from elastune.job.job import Job
from elastune.job.section import with_current_keys
from elastune.journal.codec import Deviation, audit, event_of, has_rows, replay
from elastune.journal.records import Entry, JournalHead, RunRecord, RuntimeKind, Summary, hash_entries
from elastune.journal.run_folders import FoundRun, RunFolder
from elastune.journal.store import Journal
from elastune.providers.ray_cluster import FinalCheck
from elastune.runs.quotes.expected_run import expected_of
from elastune.runs.run_files import (
    RunIntent,
    open_store,
    read_expected,
    read_final_check,
    read_intent,
    read_predicted,
    repeating,
)
from elastune.runs.run_list import RunState, find_end, state_of
from elastune.setup.run_setup import RunSetup, prepare, reserve_of
from elastune.space.space import Space

_LOOK_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """`agreed` events gave the same commands; then follows the deviation, if any.

    `stored` is the head that the journal recorded, `found` the one computed from its lines.
    """

    agreed: int
    deviation: Deviation | None
    stored: JournalHead
    found: JournalHead

    @property
    def is_clean(self) -> bool:
        return self.deviation is None and self.stored == self.found


@dataclass(frozen=True, slots=True, kw_only=True)
class ReopenedRun:
    record: RunRecord
    folder: RunFolder
    job: Job
    state: RunState
    writer: str | None  # the process that is writing the run
    standing: RunStatus
    audit: Audit | None  # None: not requested
    intent: RunIntent | None = None  # the requested seed, policy and faults; None: not recorded
    final_check: FinalCheck | None = None  # None: the run is not over, or not checked

    @property
    def faults(self) -> str | None:
        return None if self.intent is None else self.intent.faults

    def to_dict(self) -> dict[str, object]:
        record, found = self.record, self.audit
        deviation = None if found is None else found.deviation
        data: dict[str, object] = {
            "run": record.run,
            "name": record.name,
            "created_utc": record.created_utc.isoformat().replace("+00:00", "Z"),
            "body": record.body.value,
            "state": self.state.value,
            "writer": self.writer,
            "folder": str(self.folder.path),
            "faults": self.faults,
            "repeat": None if self.intent is None else repeating(self.folder, self.intent),
            "farewell": None if self.final_check is None else asdict(self.final_check),
            **self.standing.to_dict(),
        }
        if found is not None:
            data["audit"] = {
                "agreed": found.agreed,
                "deviation": None
                if deviation is None
                else {
                    "number": deviation.number,
                    "event": deviation.event,
                    "journalled": list(deviation.journalled),
                    "replayed": list(deviation.replayed),
                },
                "sha256": {"stored": found.stored.sha256, "found": found.found.sha256},
            }
        return data


def reopen(found: FoundRun, *, audited: bool = False) -> ReopenedRun:
    """Replay a run; with `audited`, up to the first deviation of its commands."""
    journal = Journal.open(found.journal, read_only=True)
    run = found.record.run
    summary = journal.summary(run)
    setup = setup_of(found.record, journal)
    notes: list[RunNote] = []
    entries, seed = collect_notes(journal.read(run), notes), found.record.seed
    core, deviation = taken_in(setup.make_core(seed), entries, run, audited=audited)
    end, _ = find_end(journal, summary)
    whole = read_intent(found.folder)  # of all runs in the folder
    status = status_of(
        setup, core.state, seed=seed, predicted=predicted_for(setup, found.folder), remarks=notes
    )
    return ReopenedRun(
        record=found.record,
        folder=found.folder,
        job=setup.job,
        state=state_of(journal, summary, end),
        writer=summary.writer,
        standing=_with_checkpoint(found, setup.job, status),
        audit=_audit(journal, summary, core, deviation) if audited else None,
        intent=whole and replace(whole, seed=seed, seeds=1, policies=(found.record.policy,)),
        final_check=read_final_check(found.folder) if summary.writer is None else None,
    )


def _with_checkpoint(found: FoundRun, job: Job, standing: RunStatus) -> RunStatus:
    best = standing.best
    if found.record.body is not RuntimeKind.RAY or best is None:
        return standing
    path = open_store(job, found.folder).path(best.trial, best.iterations)
    return replace(standing, best=saved_model(best, path))


def _audit(journal: Journal, summary: Summary, core: Core, deviation: Deviation | None) -> Audit:
    """`found` covers the events up to the summary, because the run may be written meanwhile."""
    entries = itertools.islice(journal.read(summary.record.run), summary.head.events)
    agreed = core.state.events if deviation is None else deviation.number - 1
    return Audit(agreed=agreed, deviation=deviation, stored=summary.head, found=hash_entries(entries).head)


def taken_in(
    core: Core, entries: Iterable[Entry], run: str, *, audited: bool
) -> tuple[Core, Deviation | None]:
    """A fresh core, brought to the end of the entries or, if audited, to the first deviation."""
    with replaying(core.state, run):
        return (core, audit(core, entries)) if audited else (replay(core, entries), None)


@contextlib.contextmanager
def replaying(state: State, run: str) -> Iterator[None]:
    """Turns an `InvariantError` of a replay into an error about the journal.

    No garbage is collected meanwhile: rows form no cycles, and looking for some would take half of the time.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    except InvariantError as error:
        raise ExecutionError(
            f"run {run} cannot be replayed beyond event {state.events}: {error}; "
            "its journal is damaged, or was written by another version of Elastune"
        ) from error
    finally:
        if collects:
            gc.enable()


def started_of(record: RunRecord, journal: Journal) -> RunStarted:
    """The first event of a run, its job with the keys of today."""
    first = next(journal.read(record.run), None)
    if first is None:
        raise ExecutionError(_not_begun(record, journal.summary(record.run).writer))
    started = event_of(first)
    if not isinstance(started, RunStarted):
        raise ExecutionError(
            f"run {record.run} begins with {first.event_line[:200]}; expected the event RunStarted"
        )
    return replace(started, job=with_current_keys(started.job))


def _not_begun(record: RunRecord, writer: str | None) -> str:
    if writer is None:
        return f"run {record.run} has no events: its process ended before the first one; start it again"
    return f"run {record.run} is starting: {writer} opens its cluster; try again in a moment"


def wait_for_start(record: RunRecord, journal: Journal, sleep: Callable[[float], None] = time.sleep) -> None:
    """Until its first event is stored, or its driver is gone."""
    while (summary := journal.summary(record.run)).last is None and summary.writer is not None:
        sleep(_LOOK_S)


def setup_of(record: RunRecord, journal: Journal) -> RunSetup:
    started = started_of(record, journal)
    try:
        job = Job.from_dict(started.job, source=f"the job of run {record.run}")
        setup = prepare(_without_training(job, journal, record), started.policy)
    except InvariantError:
        raise
    except ElastuneError as error:
        raise ExecutionError(
            f"run {record.run} cannot be replayed, because its job is no longer valid: {error}"
        ) from error
    if record.body is not RuntimeKind.RAY:
        return setup
    return replace(setup, terms=replace(setup.terms, reserve_s=reserve_of(job)))


def _without_training(job: Job, journal: Journal, record: RunRecord) -> Job:
    """The job with a trainable that is never called, because a replay needs only the metric and its mode."""
    if isinstance(job.trainable, str) and job.trainable in SYNTHETIC:
        return job
    metric = job.metric or _only_metric(journal.read(record.run))
    space = job.space if job.space is None or isinstance(job.space, Space) else _suggest_nothing
    return job.model_copy(update={"trainable": _absent, "metric": metric, "space": space})


def _suggest_nothing(trial: object) -> None:
    """In place of a function that may not be there any more; the journal has the configurations."""


def _absent(config: object, iteration: int) -> float:
    raise InvariantError(f"a replay tried to train iteration {iteration} of {config}; expected no training")


def _only_metric(entries: Iterable[Entry]) -> str:
    """If the job names no metric, its curves have only one, and every row has it."""
    for entry in entries:
        event = event_of(entry) if has_rows(entry.event_line) else None
        if isinstance(event, Progressed):
            return str(next(iter(event.rows[0].metrics)))
    return "metric"  # no row, so no name is needed


def predicted_for(setup: RunSetup, folder: RunFolder) -> Estimate | None:
    kept = read_predicted(folder, setup.policy)
    if kept is not None or setup.quote is None:
        return kept
    return read_expected(folder) or expected_of(setup.quote)
