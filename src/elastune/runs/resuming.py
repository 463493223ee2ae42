"""Resumes an interrupted run at the end of its journal."""

from __future__ import annotations

import time
from dataclasses import dataclass

from elastune.core.core import Core
from elastune.curves.source import Reference
from elastune.errors import ExecutionError, JobError
from elastune.history.result import Estimate
from elastune.job.job import Job, load_recorded_job
from elastune.journal.records import RuntimeKind
from elastune.journal.run_commands import command_for
from elastune.journal.run_folders import FoundRun
from elastune.journal.store import Journal
from elastune.runs.code_bundle import ship
from elastune.runs.prepared_run import PreparedRun, quote_setup
from elastune.runs.reopening import started_of, taken_in
from elastune.runs.run_files import read_predicted
from elastune.setup.run_setup import SetupPurpose, prepare


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """`core` is in the state at the end of the journal."""

    found: FoundRun
    prepared: PreparedRun
    core: Core
    predicted: Estimate
    down_s: float


def take_up(
    found: FoundRun,
    *,
    trainable: Reference | None = None,
    address: str | None = None,
    may_have_ended: bool = False,
) -> Continuation:
    """Replay the journal and open the trainable. Raises if the run cannot be resumed; one that has ended can
    go on only with new limits (`may_have_ended`)."""
    record = found.record
    if record.body is not RuntimeKind.RAY:
        raise JobError(f"run {record.run} is simulated and cannot be resumed; simulate it again")
    if record.measures:
        raise JobError(
            f"run {record.run} is a measurement and cannot be resumed; measure again with `elastune run` or "
            "`elastune profile`"
        )
    journal = Journal.open(found.journal, read_only=True)
    writer = journal.summary(record.run).writer
    if writer is not None:
        raise ExecutionError(
            f"run {record.run} is running: {writer} writes it; to change its limits, use "
            f"`{command_for('extend', found.folder, record.run)}`; to suspend it, "
            f"`{command_for('stop', found.folder, record.run, '--suspend')}`"
        )
    started = started_of(record, journal)
    job = at_home(Job.from_dict(started.job, source=f"the job of run {record.run}"), found)
    if trainable is not None:
        job = job.model_copy(update={"trainable": trainable})
    setup = prepare(job, started.policy, purpose=SetupPurpose.RUN)
    try:
        shipment = ship(job, setup.tuning.metric)
    except JobError as error:
        raise JobError(
            f"the trainable of run {record.run} cannot be opened: {error}; pass its new place with "
            "--trainable path/to/file.py:name (in Python, trainable=...)"
        ) from error
    core, _ = taken_in(setup.make_core(record.seed), journal.read(record.run), record.run, audited=False)
    if core.state.ended is not None and not may_have_ended:
        raise JobError(
            f"run {record.run} has ended ({core.state.ended.value}): there is nothing to resume; to go on "
            f"with new limits, use `{command_for('extend', found.folder, record.run, '--deadline=+30m')}`, "
            "or --budget, --trials"
        )
    prepared = PreparedRun(
        setup=setup, shipment=shipment, quote=quote_setup(setup), seed=record.seed, address=address
    )
    predicted = read_predicted(found.folder, setup.policy) or prepared.predicted
    # Nothing of a run that has ended was billed meanwhile.
    is_over = core.state.ended is not None
    down_s = 0.0 if is_over else max(0.0, time.time() - found.folder.journal.stat().st_mtime)
    return Continuation(found=found, prepared=prepared, core=core, predicted=predicted, down_s=down_s)


def at_home(job: Job, found: FoundRun) -> Job:
    """The job from a journal with paths and space of the run's own copy. The journal's paths are relative to
    the folder in which the run was started, and its space is in alphabetical order, which would give other
    configurations; the copy has absolute paths and the original order."""
    try:
        kept = load_recorded_job(found.folder.job)
    except JobError:
        return job
    space = kept.space if kept.space == job.space else job.space
    names = ("trainable", "storage", "data", "callbacks")
    same = {"space": space, **{name: getattr(kept, name) for name in names}}
    return job.model_copy(update=same)
