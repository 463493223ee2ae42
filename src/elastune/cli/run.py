"""`elastune run`: the quote, then the run itself; `resume` goes on with one, `stop` asks one to wind up."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from elastune.cli.meters import RunMeter, open_meter
from elastune.cli.terminal import DEFAULT_FOLDER, INTERRUPTED, RunsFolder, errors_as_json, show
from elastune.errors import ExecutionError, JobError

if TYPE_CHECKING:
    from elastune.api.running import Nudge
    from elastune.job.job import Job
    from elastune.journal.run_folders import RunFolder
    from elastune.runs.prepared_run import PreparedRun
    from elastune.runs.profiling import Effort
    from elastune.runs.real import FinishedRun, RunInterrupted
    from elastune.runs.resuming import Continuation


T = TypeVar("T")
# Ctrl-C, whoever ends processes, and a terminal that is closed.
_POLITE = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_command(  # noqa: PLR0913, PLR0917  every option of a command is a parameter
    job: Annotated[Path, typer.Argument(help="The job file (YAML).", show_default=False)],
    policy: Annotated[str | None, typer.Option(help="The policy.", show_default="from the job")] = None,
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
            help="Write csv, tensorboard or mlflow during the run; may be repeated.",
            show_default="the job's logging",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before spending money.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only the quote and the result.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Log lines instead of a live screen.")] = False,
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run a job: plan it, show the quote, and train on nodes that are started and released as planned.

    Ctrl-C saves everything, releases all nodes and suspends the run; a second Ctrl-C ends it at once.
    """
    meter_of = partial(open_meter, quiet=quiet, plain=plain)
    with errors_as_json(as_json):
        from elastune.api.running import carry_out_run  # noqa: PLC0415
        from elastune.api.tuning import prepare_to_run  # noqa: PLC0415

        # What a trainable prints when it is imported is not part of our output.
        with contextlib.redirect_stdout(sys.stderr):
            planned = _measured(
                _logged(job, log),
                address=address,
                runs_folder=runs_folder,
                as_json=as_json,
                yes=yes,
                meter_of=meter_of,
            )
            prepared = prepare_to_run(planned, policy=policy, seed=seed, address=address)
        if not as_json:
            _show_quote(prepared)
        _ask(prepared, yes=yes, as_json=as_json)
        finished = carry_out(
            lambda meter, nudge: carry_out_run(prepared, folder=runs_folder, watch=meter, nudge=nudge),
            as_json=as_json,
            meter_of=meter_of,
        )
    _print(finished, as_json=as_json)


def resume_command(  # noqa: PLR0913, PLR0917  every option of a command is a parameter
    run: Annotated[
        str, typer.Argument(help="A run: its folder, the start of its id, or last.", show_default=False)
    ] = "last",
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
    address: Annotated[
        str | None, typer.Option(help="Use the Ray cluster at this address.", show_default=False)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before spending money.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only the quote and the result.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Log lines instead of a live screen.")] = False,
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Continue an interrupted run from its journal and its checkpoints.

    The time while it was down does not count against its deadline.
    """
    with errors_as_json(as_json):
        from elastune.api.running import NewLimits, run_on  # noqa: PLC0415
        from elastune.journal.run_folders import find_run  # noqa: PLC0415
        from elastune.runs.resuming import take_up  # noqa: PLC0415

        limits = NewLimits.of(deadline=deadline, budget=budget)
        with contextlib.redirect_stdout(sys.stderr):
            found = find_run(runs_folder, run)
            continuation = take_up(found, trainable=trainable, address=address)
        if not as_json:
            _tell_where_it_stands(continuation)
        _ask(continuation.prepared, yes=yes, as_json=as_json)
        meter_of = partial(open_meter, quiet=quiet, plain=plain)
        finished = carry_out(
            lambda meter, nudge: run_on(continuation, limits, watch=meter, nudge=nudge),
            as_json=as_json,
            meter_of=meter_of,
        )
    _print(finished, as_json=as_json)


def _logged(job: Path, log: list[str] | None) -> Job:
    from elastune.job.job import Job, load_job  # noqa: PLC0415

    given = load_job(job)
    return Job.from_dict({**given.to_dict(), "logging": log}, source="--log") if log else given


def _measured(
    given: Job,
    *,
    address: str | None,
    runs_folder: Path,
    as_json: bool,
    yes: bool,
    meter_of: Callable[[], RunMeter],
) -> Job:
    """The job with a profile, which is measured first if nobody has done so."""
    from elastune.api.profiling import measured, describe_measured  # noqa: PLC0415

    if given.is_measured:
        return given
    typer.echo("the job has no profile: looking for one, or measuring the training first", err=True)

    def consent(effort: Effort) -> None:
        if address is None:
            ask_to_measure(given, effort, yes=yes, as_json=as_json)

    planned, how = carry_out(
        lambda meter, nudge: measured(
            given, address=address, folder=runs_folder, watch=meter, nudge=nudge, consent=consent
        ),
        as_json=as_json,
        meter_of=meter_of,
        again="the same command",
    )
    typer.echo(describe_measured(how), err=True)
    return planned


def carry_out(
    run: Callable[[RunMeter, Nudge], T],
    *,
    as_json: bool,
    meter_of: Callable[[], RunMeter] = open_meter,
    again: str | None = None,
) -> T:
    """Run with a meter; Ctrl-C ends it well, or at once. `again`: the command that begins anew what is not
    worth to be resumed."""
    from elastune.api.caller import Interrupts  # noqa: PLC0415
    from elastune.runs.real import RunInterrupted  # noqa: PLC0415

    try:
        with meter_of() as meter, Interrupts(meter.say, _POLITE) as interrupts:
            return run(meter, interrupts.reason)
    except RunInterrupted as interrupted:
        _say_how_to_go_on(interrupted, again, as_json=as_json)
        raise typer.Exit(INTERRUPTED) from None
    except KeyboardInterrupt:
        typer.echo(
            "ended at once: all nodes were told to end, and what was saved is kept; `elastune nodes` shows "
            "whether something is left",
            err=True,
        )
        raise typer.Exit(INTERRUPTED) from None


def stop_command(
    run: Annotated[
        str, typer.Argument(help="A run: its folder, the start of its id, or last.", show_default=False)
    ] = "last",
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Stop a run: it saves, releases all nodes and returns the best model so far."""
    with errors_as_json(as_json):
        from elastune.api.tuning import stop  # noqa: PLC0415

        stopped = stop(run, folder=runs_folder, reason="elastune stop")
    if as_json:
        typer.echo(json.dumps({"run": stopped, "asked": True}, indent=2))
    else:
        typer.echo(f"run {stopped} was asked to stop; `elastune status {stopped}` shows how far it is")


def _show_quote(prepared: PreparedRun) -> None:
    from elastune.planning.quote import Quote  # noqa: PLC0415

    if isinstance(prepared.quote, Quote):
        from elastune.views.terminal.plan import render_quote  # noqa: PLC0415

        show(render_quote(prepared.quote))
    else:
        from elastune.views.terminal.policy import render_policy_quote  # noqa: PLC0415

        show(render_policy_quote(prepared.quote))
    if prepared.address is None and not prepared.setup.terms.cluster.init.mean:
        typer.echo(
            "beware: the job does not say how long nodes take to boot (cluster.init), so the quote has no "
            "time for it; on one machine that is some seconds, and `elastune profile` measures it"
        )
    typer.echo()
    sys.stdout.flush()


def _ask(prepared: PreparedRun, *, yes: bool, as_json: bool) -> None:
    """Before money is spent."""
    if prepared.spends_money:
        _confirm("this run spends money", "Start?", yes=yes, as_json=as_json)


def ask_to_measure(job: Job, effort: Effort, *, yes: bool, as_json: bool) -> None:
    """Likewise before a training is measured on machines that somebody sends a bill for."""
    from elastune.runs.prepared_run import spends_money  # noqa: PLC0415
    from elastune.runs.profiling import most_usd  # noqa: PLC0415
    from elastune.wording import format_duration, format_usd  # noqa: PLC0415

    if not spends_money(job):
        return
    most = format_usd(most_usd(job, effort))
    told = f"measuring takes up to {format_duration(effort.most_s)} and at most {most}"
    typer.echo(told, err=True)
    _confirm("measuring spends money", "Measure?", yes=yes, as_json=as_json)


def _confirm(what: str, question: str, *, yes: bool, as_json: bool) -> None:
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise JobError(f"{what}, and nobody is there to be asked; say --yes if it may")
    typer.confirm(question, abort=True, err=True)


def _print(finished: FinishedRun, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(finished.to_dict(), indent=2))
    else:
        from elastune.views.terminal.status import render_finished  # noqa: PLC0415

        show(render_finished(finished))
    if finished.standing.has_failed or (finished.final_check is not None and finished.final_check.left):
        raise typer.Exit(ExecutionError.exit_code)


def _tell_where_it_stands(continuation: Continuation) -> None:
    from elastune.views.live.progress import promise_of  # noqa: PLC0415
    from elastune.views.live.snapshot import summary_line  # noqa: PLC0415
    from elastune.views.live.taking import Subject, take  # noqa: PLC0415
    from elastune.wording import format_duration  # noqa: PLC0415

    state, record, setup = continuation.core.state, continuation.found.record, continuation.prepared.setup
    promise = promise_of(setup, continuation.predicted)
    subject = Subject(name=record.name, run=record.run, policy=setup.policy, promise=promise)
    down = format_duration(continuation.down_s)
    told = summary_line(take(subject, state, continuation.core.policy.progress(state), now_s=state.now_s))
    typer.echo(f"run {record.run} goes on after {down}: {told}")
    sys.stdout.flush()


def _say_how_to_go_on(interrupted: RunInterrupted, again: str | None, *, as_json: bool) -> None:
    run, command = interrupted.run, again or f"elastune resume {interrupted.run}"
    if as_json:
        told = {"error": "interrupted", "message": "all is saved", "run": run, "resume": command}
        typer.echo(json.dumps(told, indent=2))
        return
    if again is None:
        typer.echo(f"run {run} rests: everything is saved in {interrupted.folder.path}", err=True)
    else:
        typer.echo("measuring was interrupted", err=True)
    typer.echo(_tell_machines(interrupted.folder), err=True)
    typer.echo(f"go on with: {command}", err=True)


def _tell_machines(folder: RunFolder) -> str:
    from elastune.runs.run_files import read_final_check  # noqa: PLC0415
    from elastune.views.terminal.run import final_check_words  # noqa: PLC0415

    final_check = read_final_check(folder)
    return "all nodes were given back" if final_check is None else final_check_words(final_check)
