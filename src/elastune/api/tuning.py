"""Running a job for real: tune, resume, stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from elastune.api.arguments import AnyJob, as_job, whole
from elastune.api.caller import Interrupts, said, watching
from elastune.api.profiling import describe_measured, measured
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
    cluster (or `cluster.provider` another provider). The run's folder is made in `folder`. `watch` is called
    with the state a few times per second. Ctrl-C saves everything, releases all nodes and raises
    `KeyboardInterrupt`; `resume` continues. `progress` writes lines to stderr: what happens, and a summary
    every 15 s; None: at a terminal or in a notebook, unless there is a `watch`.

    >>> elastune.tune(train, space={"lr": {"float": [1e-4, 1.0], "log": True}}, metric="accuracy",
    ...     search={"algorithm": "sha", "trials": 16, "max_iterations": 27}, deadline="10m",
    ...     profile={"iteration": "2s"}, cluster={"slots_per_node": 2, "max_nodes": 4, "price_per_hour": 1})
    """
    given = as_job(_whole_job(job, sections))
    watch = watching(watch, progress)
    say = said(watch)
    with Interrupts(say) as interrupts:
        if not given.is_measured:
            say("the job has no profile: looking for one, or measuring the training first")
        planned, how = measured(given, address=address, folder=folder, watch=watch, nudge=interrupts.reason)
        if how is not None:
            say(describe_measured(how))
        prepared = prepare_to_run(planned, policy=policy, seed=seed, address=address)
        say(f"expected: {prepared.predicted}")
        return carry_out_run(prepared, folder=folder, watch=watch, nudge=interrupts.reason).result


def prepare_to_run(
    job: AnyJob, *, policy: str | None = None, seed: int | None = None, address: str | None = None
) -> PreparedRun:
    """Plan and check everything before a real run. Nothing is started."""
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
    """Continue a run that was suspended or killed, from its journal and its checkpoints.

    `deadline` and `budget` are new limits for the whole run; the time while it was down does not count.
    `trainable` is needed if the old one can no longer be imported; `progress` is as for `tune`.
    """
    found = find_run(Path(folder), str(run))
    continuation = take_up(found, trainable=trainable, address=address)
    limits = NewLimits.of(deadline=deadline, budget=budget)
    watch = watching(watch, progress)
    with Interrupts(said(watch)) as interrupts:
        return run_on(continuation, limits, watch=watch, nudge=interrupts.reason).result


def stop(run: str | Path, *, folder: str | Path = RUNS_FOLDER, reason: str = "stop was requested") -> str:
    """Ask the driver of a run to shut it down: it saves, releases all nodes and keeps the best model.

    Returns the id of the run. The driver reacts within a second.
    """
    found = find_run(Path(folder), str(run))
    summary = Journal.open(found.journal, read_only=True).summary(found.record.run)
    if found.record.body is not RuntimeKind.RAY:
        raise JobError(f"run {found.record.run} is simulated; only real runs can be stopped")
    if summary.writer is None:
        raise JobError(f"run {found.record.run} is not running")
    StopFile(found.folder).write(reason)
    return found.record.run


def _whole_job(job: AnyJob | Callable[..., object], sections: Mapping[str, Any]) -> AnyJob:
    if not sections and not (callable(job) and not isinstance(job, Job)):
        return job
    if isinstance(job, Job | Mapping | str | Path):
        keys = ", ".join(sections)
        raise JobError(f"{keys}: the first argument is a job; keys of a job are for a trainable")
    name = getattr(job, "__name__", "")
    named = {"name": name} if name.isidentifier() else {}
    return Job(trainable=job, **{**named, **sections})
