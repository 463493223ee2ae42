"""Reads the trials of an earlier run for a search that begins with them (`warm_start`)."""

from __future__ import annotations

from pathlib import Path

from elastune.core.trials import Trial
from elastune.errors import JobError
from elastune.job.job import Job
from elastune.journal.run_folders import FoundRun, find_run
from elastune.journal.store import Journal
from elastune.model.metric import Mode
from elastune.runs.reopening import setup_of, taken_in
from elastune.space.warm_start import OldTrial

# The last ones: more would make the first line of the new journal long, and the model slow.
_MOST_TRIALS = 1_000


def with_old_trials(job: Job, root: Path) -> Job:
    """The job with the trials of its `warm_start`, which is a run under `root` or a path.

    Raises `JobError` if that run has another metric.
    """
    section = job.warm_start
    if section is None or section.old_trials is not None:
        return job
    found = find_run(root, section.run)
    trials, metric, mode = _read(found)
    _refuse_other_metric(job, found.record.run, metric, mode)
    kept = tuple(OldTrial(trial.config, tuple(trial.values)) for trial in trials if trial.values)
    known = section.model_copy(update={"run": found.record.run, "old_trials": kept[-_MOST_TRIALS:]})
    return job.model_copy(update={"warm_start": known})


def _read(found: FoundRun) -> tuple[list[Trial], str, Mode]:
    journal, run = Journal.open(found.journal, read_only=True), found.record.run
    core = setup_of(found.record, journal).make_core(found.record.seed)
    taken_in(core, journal.read(run), run, audited=False)
    return list(core.state.trials.values()), core.state.terms.metric, core.state.terms.mode


def _refuse_other_metric(job: Job, run: str, metric: str, mode: Mode) -> None:
    if job.metric is not None and job.metric != metric:
        raise JobError(
            f"warm_start names run {run}, whose metric is {metric!r}, but the metric of this job is "
            f"{job.metric!r}; expected a run with the same metric"
        )
    if job.mode is not None and job.mode is not mode:
        raise JobError(
            f"warm_start names run {run}, whose mode is {mode.value}, but this job has {job.mode.value}; "
            "expected a run with the same mode"
        )
