"""`elastune run` (the quote, then the run) and `resume` (continues a run)."""

import contextlib
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from elastune.cli.meters import RunMeter, open_meter
from elastune.cli.terminal import (
    DEFAULT_FOLDER,
    INTERRUPTED,
    Address,
    AsJson,
    Check,
    JobFile,
    Plain,
    Planner,
    Quiet,
    RunsFolder,
    RunToChange,
    Yes,
    json_output,
    owns_process,
    present,
    print_json,
    show,
)  # fmt: skip
from elastune.errors import ExecutionError, JobError

if TYPE_CHECKING:
    from elastune.api.start_up import StartUp
    from elastune.checks.report import FirstMeasurement
    from elastune.job.job import Job
    from elastune.runs.prepared_run import PreparedRun
    from elastune.runs.profiling import Effort
    from elastune.runs.real import FinishedRun, RunInterrupted
    from elastune.runs.resuming import Continuation


T = TypeVar("T")
# Ctrl-C, `kill`, and a closed terminal: the run is saved and suspended.
_SUSPENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_command(  # noqa: PLR0913, PLR0917  every option of a command is a parameter
    job: JobFile,
    policy: Annotated[str | None, typer.Option(help="The policy.", show_default="from the job")] = None,
    planner: Planner = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of configurations and training.", show_default="the job's")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="Use the existing Ray cluster at this address (or auto) instead of own nodes.",
            show_default=False,
        ),
    ] = None,
    log: Annotated[
        list[str] | None,
        typer.Option(
            help="Write csv, tensorboard, mlflow or wandb during the run; may be repeated.",
            show_default="the job's logging",
        ),
    ] = None,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="End the run as failed when the first trial fails.")
    ] = False,
    check: Check = True,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Show the run in a browser, too: `elastune dashboard`.")
    ] = False,
    yes: Yes = False,
    quiet: Quiet = False,
    plain: Plain = False,
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    as_json: AsJson = False,
) -> None:
    """Run a job: check the trainable, plan the search, show the quote, and train on nodes that are started
    and released as planned.

    Ctrl-C saves everything, releases all nodes and suspends the run; a second Ctrl-C ends it at once.
    """
    meter_of = partial(open_meter, quiet=quiet, plain=plain)
    say = partial(typer.echo, err=True)
    tell: Callable[[str], object] = (lambda _: None) if quiet else say
    tell(f"reading {job}")
    with json_output(as_json):
        from elastune.api.arguments import planned_by  # noqa: PLC0415
        from elastune.api.checking import checked  # noqa: PLC0415
        from elastune.api.dashboard_process import dashboard_beside, require_dashboard  # noqa: PLC0415
        from elastune.api.running import carry_out_run  # noqa: PLC0415
        from elastune.api.start_up import StartUp  # noqa: PLC0415
        from elastune.api.tuning import prepare_to_run  # noqa: PLC0415
        from elastune.runs.warm_start import with_old_trials  # noqa: PLC0415
        from elastune.views.live.spectator import waiting  # noqa: PLC0415

        require_dashboard(wanted=dashboard)
        start_up = StartUp.of_process() if owns_process.get() else StartUp()
        # What a trainable prints when it is imported must not get into our output.
        with contextlib.redirect_stdout(sys.stderr):
            given = planned_by(_given(job, log, fail_fast=fail_fast), planner, [policy])
            given = with_old_trials(given, runs_folder)
            given, report = checked(
                given, wanted=check, address=address, folder=runs_folder, say=say, policy=policy
            )
            planned = _measured(
                start_up.left_of(given),
                start_up=start_up,
                first=None if report is None else report.measured,
                address=address,
                runs_folder=runs_folder,
                as_json=as_json,
                yes=yes,
                meter_of=meter_of,
            )
            planned = start_up.deduct(planned, given.deadline, tell, address=address)
            with waiting(tell, "planning"), start_up.explained():
                prepared = prepare_to_run(planned, policy=policy, seed=seed, address=address)
        if not as_json:
            _show_quote(prepared)
        with start_up.paused():
            _ask(prepared, yes=yes, as_json=as_json)
        start = partial(carry_out_run, prepared, folder=runs_folder, start_up=start_up)
        with dashboard_beside(runs_folder, wanted=dashboard):
            finished = carry_out(start, as_json=as_json, meter_of=meter_of)
    print_finished(finished, as_json=as_json)


def resume_command(  # noqa: PLR0913, PLR0917  every option of a command is a parameter
    run: RunToChange = "last",
    deadline: Annotated[
        str | None, typer.Option(help="A new deadline for the whole run (30m).", show_default="unchanged")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="A new budget for the whole run ($40).", show_default="unchanged")
    ] = None,
    trainable: Annotated[
        str | None,
        typer.Option(help="New location of the trainable (path/to/file.py:name).", show_default="unchanged"),
    ] = None,
    address: Address = None,
    yes: Yes = False,
    quiet: Quiet = False,
    plain: Plain = False,
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    as_json: AsJson = False,
) -> None:
    """Continue an interrupted run from its journal and its checkpoints.

    The time while it was down does not count against its deadline.
    """
    with json_output(as_json):
        from elastune.api.running import NewLimits, run_on  # noqa: PLC0415
        from elastune.journal.run_folders import find_run  # noqa: PLC0415
        from elastune.runs.resuming import take_up  # noqa: PLC0415

        limits = NewLimits.of(deadline=deadline, budget=budget)
        with contextlib.redirect_stdout(sys.stderr):
            continuation = take_up(find_run(runs_folder, run), trainable=trainable, address=address)
        if not as_json:
            _show_status(continuation)
        _ask(continuation.prepared, yes=yes, as_json=as_json)
        meter_of = partial(open_meter, quiet=quiet, plain=plain)
        finished = carry_out(partial(run_on, continuation, limits), as_json=as_json, meter_of=meter_of)
    print_finished(finished, as_json=as_json)


def _given(job: Path, log: list[str] | None, *, fail_fast: bool) -> "Job":
    from elastune.job.job import Job, load_job  # noqa: PLC0415

    given = load_job(job)
    if log:
        given = Job.from_dict({**given.to_dict(), "logging": log}, source="--log")
    return given.model_copy(update={"fail_fast": True}) if fail_fast else given


def _measured(  # noqa: PLR0913  all by name
    given: "Job",
    *,
    start_up: "StartUp",
    first: "FirstMeasurement | None",
    address: str | None,
    runs_folder: Path,
    as_json: bool,
    yes: bool,
    meter_of: Callable[[], RunMeter],
) -> "Job":
    """The job with a profile, which is measured first if there is none."""
    from elastune.api.profiling import describe_measured, measured  # noqa: PLC0415

    if given.is_measured:
        return given
    typer.echo("the job has no profile: looking for one, or measuring the training first", err=True)

    def consent(effort: "Effort") -> None:
        if address is None:
            with start_up.paused():
                ask_to_measure(given, effort, yes=yes, as_json=as_json)

    start = partial(measured, given, first=first, address=address, folder=runs_folder, consent=consent)
    planned, how = carry_out(start, as_json=as_json, meter_of=meter_of, again="the same command")
    typer.echo(describe_measured(how), err=True)
    return planned


def carry_out(
    start: Callable[..., T],
    *,
    as_json: bool,
    meter_of: Callable[[], RunMeter] = open_meter,
    again: str | None = None,
) -> T:
    """`start` takes `watch` and `nudge`; Ctrl-C suspends it, a second one ends it at once. `again`: what to
    do instead of `resume`, for a run that is not worth resuming."""
    from elastune.api.foreground import Interrupts  # noqa: PLC0415
    from elastune.runs.real import RunInterrupted  # noqa: PLC0415

    try:
        with meter_of() as meter, Interrupts(meter.say, _SUSPENDING) as interrupts:
            return start(watch=meter, nudge=interrupts.reason)
    except RunInterrupted as interrupted:
        _explain_interruption(interrupted, again, as_json=as_json)
        raise typer.Exit(INTERRUPTED) from None
    except KeyboardInterrupt:
        typer.echo(
            "ended at once: all nodes are being terminated, saved work is kept; `elastune nodes` lists nodes "
            "that are left",
            err=True,
        )
        raise typer.Exit(INTERRUPTED) from None


def _show_quote(prepared: "PreparedRun") -> None:
    from elastune.providers.registry import is_elsewhere  # noqa: PLC0415
    from elastune.views.terminal.plan import render_any_quote  # noqa: PLC0415

    show(render_any_quote(prepared.quote))
    if (warm := prepared.setup.tuning.describe_warm_start()) is not None:
        typer.echo(warm)
    for warning in prepared.warnings:
        typer.echo(f"warning: {warning}")
    is_here = prepared.address is None and not is_elsewhere(prepared.setup.job.cluster.provider)
    if is_here and not prepared.setup.terms.cluster.init.mean:
        typer.echo(
            "warning: the job does not say how long nodes take to boot (cluster.init), so the quote leaves "
            "it out; on one machine it takes some seconds, and `elastune profile` measures it"
        )
    typer.echo()
    sys.stdout.flush()


def _ask(prepared: "PreparedRun", *, yes: bool, as_json: bool) -> None:
    if prepared.spends_money:
        confirm("this run spends money", "Start?", yes=yes, as_json=as_json)


def ask_to_measure(job: "Job", effort: "Effort", *, yes: bool, as_json: bool) -> None:
    """Confirm a measurement on nodes that cost money."""
    from elastune.runs.prepared_run import spends_money  # noqa: PLC0415
    from elastune.runs.profiling import most_usd  # noqa: PLC0415
    from elastune.wording import format_duration, format_usd  # noqa: PLC0415

    if not spends_money(job):
        return
    most = format_usd(most_usd(job, effort))
    typer.echo(f"measuring takes up to {format_duration(effort.most_s)} and at most {most}", err=True)
    confirm("measuring spends money", "Measure?", yes=yes, as_json=as_json)


def confirm(what: str, question: str, *, yes: bool, as_json: bool) -> None:
    """Ask at the terminal; without one only `--yes` says so."""
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise JobError(f"{what}, and there is no terminal to confirm on; pass --yes")
    typer.confirm(question, abort=True, err=True)


def print_finished(finished: "FinishedRun", *, as_json: bool) -> None:
    """The result; exits with an error code if the run failed or left nodes."""
    from elastune.views.terminal.status import render_finished  # noqa: PLC0415

    present(finished, render_finished, as_json=as_json)
    if finished.standing.has_failed or (finished.final_check is not None and finished.final_check.left):
        raise typer.Exit(ExecutionError.exit_code)


def _show_status(continuation: "Continuation") -> None:
    from elastune.views.live.progress import promise_of  # noqa: PLC0415
    from elastune.views.live.snapshot import summary_line  # noqa: PLC0415
    from elastune.views.live.snapshot_of_state import Subject, take  # noqa: PLC0415
    from elastune.wording import format_duration  # noqa: PLC0415

    state, record, setup = continuation.core.state, continuation.found.record, continuation.prepared.setup
    promise = promise_of(setup, continuation.predicted)
    subject = Subject(name=record.name, run=record.run, policy=setup.policy, promise=promise)
    down = format_duration(continuation.down_s)
    summary = summary_line(take(subject, state, continuation.core.policy.progress(state), now_s=state.now_s))
    typer.echo(f"run {record.run} continues after {down}: {summary}")
    sys.stdout.flush()


def _explain_interruption(interrupted: "RunInterrupted", again: str | None, *, as_json: bool) -> None:
    from elastune.journal.run_commands import command_for  # noqa: PLC0415

    run = interrupted.run
    command = again or command_for("resume", interrupted.folder, run)
    if as_json:
        print_json({"error": "interrupted", "message": "all is saved", "run": run, "resume": command})
        return
    from elastune.runs.run_files import read_final_check  # noqa: PLC0415
    from elastune.views.terminal.run import final_check_words  # noqa: PLC0415

    saved = f"run {run} is suspended: everything is saved in {interrupted.folder.path}"
    check = read_final_check(interrupted.folder)
    nodes = "all nodes were released" if check is None else final_check_words(check, interrupted.folder)
    for text in ("measuring was interrupted" if again else saved, nodes, f"continue with: {command}"):
        typer.echo(text, err=True)
