"""Running a job for real."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from elastune.api.caller import AnyJob, Interrupts, as_job, said, watching, whole
from elastune.api.running import NewLimits, carry_out_run, run_on
from elastune.api.simulating import MOST_SEED, RUNS_FOLDER
from elastune.curves.source import Reference
from elastune.errors import JobError
from elastune.history.result import RunResult
from elastune.job.job import Job
from elastune.journal.records import RuntimeKind
from elastune.journal.run_folders import find_run
from elastune.journal.store import Journal
from elastune.runs.prepared_run import PreparedRun, prepare_run
from elastune.runs.real import Watch
from elastune.runs.resuming import take_up
from elastune.runs.run_files import StopFile

"""Looked at a few times per second: who wants the run to rest, if anybody."""


def tune(
    job: AnyJob | Callable[..., object],
    *,
    policy: str | None = None,
    seed: int | None = None,
    address: str | None = None,
    folder: str | Path = RUNS_FOLDER,
    watch: Watch | None = None,
    progress: bool | None = None,
    **sections: Any,
) -> RunResult:
    """Tune a model in real processes: by the deadline, for the budget, with the plan that `quote` shows.

    `job` is a `Job`, a mapping with its keys or the path of a YAML file; or the trainable itself, with the
    keys of the job as arguments. The run is on machines of this computer unless `address` names a Ray
    cluster (or `cluster.provider` another provider). `folder` is where the run's folder is made. `watch` is
    told now and then how the run stands. Ctrl-C saves everything, gives all nodes back and raises
    `KeyboardInterrupt`; `resume` goes on. `progress` writes lines about the run to stderr: what happens, and
    every 15 s how it stands; None: where a terminal or a notebook shows them, and there is no `watch`.

    >>> elastune.tune(train, space={"lr": {"float": [1e-4, 1.0], "log": True}}, metric="accuracy",
    ...     search={"algorithm": "sha", "trials": 16, "max_iterations": 27}, deadline="10m",
    ...     profile={"iteration": "2s"}, cluster={"slots_per_node": 2, "max_nodes": 4, "price_per_hour": 1})
    """
    from elastune.api.profiling import measured, tell_measured  # noqa: PLC0415  which runs a job, too

    given = as_job(_whole_job(job, sections))
    watch = watching(watch, progress)
    say = said(watch)
    with Interrupts(say) as interrupts:
        if not given.is_measured:
            say("the job has no profile: looking for one, or measuring the training first")
        planned, how = measured(given, address=address, folder=folder, watch=watch, nudge=interrupts.reason)
        if how is not None:
            say(tell_measured(how))
        prepared = prepare_to_run(planned, policy=policy, seed=seed, address=address)
        say(f"expected: {prepared.predicted}")
        return carry_out_run(prepared, folder=folder, watch=watch, nudge=interrupts.reason).result


def prepare_to_run(
    job: AnyJob, *, policy: str | None = None, seed: int | None = None, address: str | None = None
) -> PreparedRun:
    """Everything that can be known and checked before a real run begins. Nothing is started."""
    given = as_job(job)
    first = whole("seed", given.seed if seed is None else seed, 0, MOST_SEED)
    return prepare_run(given, policy=policy, seed=first, address=address)


def resume(  # noqa: PLR0913  all by name
    run: str | Path,
    *,
    folder: str | Path = RUNS_FOLDER,
    trainable: Reference | None = None,
    deadline: float | str | None = None,
    budget: float | str | None = None,
    address: str | None = None,
    watch: Watch | None = None,
    progress: bool | None = None,
) -> RunResult:
    """Go on with a run that was interrupted, however it was, from its journal and its checkpoints.

    `deadline` and `budget` are new limits for the whole run; the time for which it was down does not count.
    `trainable` is needed where the old one cannot be imported any more; `progress` is as for `tune`.
    """
    found = find_run(Path(folder), str(run))
    continuation = take_up(found, trainable=trainable, address=address)
    limits = NewLimits.of(deadline=deadline, budget=budget)
    watch = watching(watch, progress)
    with Interrupts(said(watch)) as interrupts:
        return run_on(continuation, limits, watch=watch, nudge=interrupts.reason).result


def stop(run: str | Path, *, folder: str | Path = RUNS_FOLDER, reason: str = "somebody asked for it") -> str:
    """Ask a run that goes on somewhere to wind up; it saves, gives all nodes back and keeps the best model.

    Returns the id of the run. Its driver notices within a second.
    """
    found = find_run(Path(folder), str(run))
    summary = Journal.open(found.journal, read_only=True).summary(found.record.run)
    if found.record.body is not RuntimeKind.RAY:
        raise JobError(f"run {found.record.run} is simulated; only real runs can be stopped")
    if summary.writer is None:
        raise JobError(f"run {found.record.run} does not run: nobody writes its journal any more")
    StopFile(found.folder).write(reason)
    return found.record.run


def _whole_job(job: AnyJob | Callable[..., object], sections: Mapping[str, Any]) -> AnyJob:
    if not sections and not (callable(job) and not isinstance(job, Job)):
        return job
    if isinstance(job, Job | Mapping | str | Path):
        raise JobError(
            f"{', '.join(sections)}: keys of a job go with a trainable; the first argument is a job already"
        )
    name = getattr(job, "__name__", "")
    named = {"name": name} if name.isidentifier() else {}
    return Job(trainable=job, **{**named, **sections})
