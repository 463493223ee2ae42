"""Running a job for real: tune, resume."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from elastune.api.arguments import AnyJob, as_job, planned_by, whole, whole_job
from elastune.api.checking import checked
from elastune.api.dashboard_process import dashboard_beside, require_dashboard
from elastune.api.foreground import Interrupts, said, watching
from elastune.api.profiling import describe_measured, measured
from elastune.api.running import NewLimits, carry_out_run, run_on
from elastune.api.simulating import MOST_SEED, RUNS_FOLDER
from elastune.api.start_up import StartUp
from elastune.curves.source import Reference
from elastune.history.result import RunResult
from elastune.journal.run_folders import find_run
from elastune.runs.prepared_run import PreparedRun, prepare_run
from elastune.runs.real import Watch
from elastune.runs.resuming import take_up
from elastune.runs.warm_start import with_old_trials
from elastune.training.recipe import refuse_while_imported
from elastune.views.live.spectator import waiting


def tune(  # noqa: PLR0913  all by name
    job: AnyJob | Callable[..., object],
    *,
    policy: str | None = None,
    planner: str | None = None,
    seed: int | None = None,
    address: str | None = None,
    folder: str | Path = RUNS_FOLDER,
    check: bool = True,
    watch: Watch | None = None,
    progress: bool | None = None,
    callbacks: Sequence[object] = (),
    dashboard: bool = False,
    **sections: Any,
) -> RunResult:
    """Tune a model in real processes: by the deadline, for the budget, with the plan that `quote` shows.

    `job` is a `Job`, a mapping with its keys or the path of a YAML file; or the trainable itself, with the
    keys of the job as arguments. The run is on machines of this computer unless `address` names a Ray
    cluster (or `cluster.provider` another provider). `policy`, `planner` and `seed` are the job's own unless
    they are given. The run's folder is made in `folder`. The trainable is checked first, as by
    `elastune.check`; with `check` false it is not, and trials get one slot each unless it declares
    `most_slots`. `watch` is called with the state a few times per
    second. Ctrl-C saves everything, releases all nodes and raises `KeyboardInterrupt`; `resume` continues.
    `progress` writes lines to stderr: what is being started, what happens, and summaries; in a notebook it
    is one output that is redrawn. None: unless there is a `watch`. `callbacks` are objects with methods of
    `elastune.Callback`, called with results while the run goes on. `dashboard`: show it in a browser,
    too; the address is written to stderr. The deadline counts from this call.

    >>> elastune.tune(train, space={"lr": {"float": [1e-4, 1.0], "log": True}}, metric="accuracy",
    ...     search={"algorithm": "sha", "trials": 16, "max_iterations": 27}, deadline="10m",
    ...     profile={"iteration": "2s"}, cluster={"slots_per_node": 2, "max_nodes": 4, "price_per_hour": 1})
    """
    refuse_while_imported("elastune.tune")
    require_dashboard(wanted=dashboard)
    start_up = StartUp()
    given = planned_by(as_job(whole_job(job, sections)), planner, [policy])
    given = with_old_trials(given, Path(folder))
    watch = watching(watch, progress)
    say = said(watch)
    given, report = checked(given, wanted=check, address=address, folder=folder, say=say, policy=policy)
    with Interrupts(say) as interrupts:
        if not given.is_measured:
            say("the job has no profile: looking for one, or measuring the training first")
        first = None if report is None else report.measured
        planned, how = measured(
            start_up.left_of(given),
            first=first,
            address=address,
            folder=folder,
            watch=watch,
            nudge=interrupts.reason,
        )
        if how is not None:
            say(describe_measured(how))
        planned = start_up.deduct(planned, given.deadline, say, address=address)
        with waiting(say, "planning"), start_up.explained():
            prepared = prepare_to_run(planned, policy=policy, seed=seed, address=address)
        if (warm := prepared.setup.tuning.describe_warm_start()) is not None:
            say(warm)
        say(f"expected: {prepared.predicted}")
        for warning in prepared.warnings:
            say(f"warning: {warning}")
        start = partial(carry_out_run, prepared, folder=folder, callbacks=callbacks, start_up=start_up)
        with dashboard_beside(Path(folder), wanted=dashboard):
            return start(watch=watch, nudge=interrupts.reason).result


def prepare_to_run(
    job: AnyJob,
    *,
    policy: str | None = None,
    planner: str | None = None,
    seed: int | None = None,
    address: str | None = None,
) -> PreparedRun:
    """Plan and check everything before a real run. Nothing is started."""
    given = planned_by(as_job(job), planner, [policy])
    first = whole("seed", given.seed if seed is None else seed, 0, MOST_SEED)
    seeded = given.model_copy(update={"seed": first})  # quoted for the configurations that it will draw
    return prepare_run(seeded, policy=policy, seed=first, address=address)


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
    callbacks: Sequence[object] = (),
) -> RunResult:
    """Continue a run that was suspended or killed, from its journal and its checkpoints.

    `deadline` and `budget` are new limits for the whole run; the time while it was down does not count.
    `trainable` is needed if the old one can no longer be imported; `progress` and `callbacks` are as for
    `tune`.
    """
    found = find_run(Path(folder), str(run))
    continuation = take_up(found, trainable=trainable, address=address)
    limits = NewLimits.of(deadline=deadline, budget=budget)
    watch = watching(watch, progress)
    with Interrupts(said(watch)) as interrupts:
        start = partial(run_on, continuation, limits, callbacks=callbacks)
        return start(watch=watch, nudge=interrupts.reason).result
