"""`elastune plan`: from a job file to a priced plan."""

import contextlib
import enum
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from elastune.cli.terminal import (
    DEFAULT_FOLDER,
    Address,
    AsJson,
    JobFile,
    Planner,
    RunsFolder,
    json_output,
    print_json,
)  # fmt: skip
from elastune.errors import JobError

if TYPE_CHECKING:
    from elastune.job.job import Job
    from elastune.planning.quote import Quote
    from elastune.runs.quotes.policy_quote import PolicyQuote


class ObjectiveName(enum.StrEnum):
    """Spelled out so that `--help` need not load numpy; a test compares them."""

    COST = "cost"
    TIME = "time"


def plan_command(  # noqa: PLR0913, PLR0917  every option of a command is a parameter
    job: JobFile,
    planner: Planner = None,
    objective: Annotated[
        ObjectiveName | None,
        typer.Option(
            help="Least cost by the deadline, or least time within the budget.",
            show_default="from the limits",
        ),
    ] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Show all planners side by side.")] = False,
    frontier: Annotated[bool, typer.Option("--frontier", help="Show the whole time-cost frontier.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the plan into a .png, .svg or .html file.", show_default=False)
    ] = None,
    samples: Annotated[int, typer.Option(help="Number of samples for means and quantiles.")] = 4096,
    seed: Annotated[int, typer.Option(help="The same seed gives the same output.")] = 0,
    address: Address = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Measure a job without a profile without asking.")
    ] = False,
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    as_json: AsJson = False,
) -> None:
    """Find the cheapest plan that keeps the limits, and print its cost and finish time.

    A job without a profile is planned with an earlier measurement of the same training. Without one, it is
    measured first, if you agree.
    """
    with json_output(as_json):
        given = _measured(job, address=address, runs_folder=runs_folder, yes=yes, as_json=as_json)
        quote = _plan(
            given,
            plot,
            planner=planner,
            objective=None if objective is None else objective.value,
            samples=samples,
            seed=seed,
            frontier=frontier or plot is not None,
            compare=compare,
        )
    from elastune.planning.quote import Quote  # noqa: PLC0415

    if isinstance(quote, Quote) and not frontier:  # it may have been made only for the plot
        quote = replace(quote, frontier=None)
    if as_json:
        print_json(quote.to_dict())
    else:
        _print(quote, plot)
        _warn(given, quote, address)


def _plan(job: "Job", plot: Path | None, **options: Any) -> "Quote | PolicyQuote":
    from rich.console import Console  # noqa: PLC0415

    from elastune.api.planning import quote as quote_job  # noqa: PLC0415

    if plot is not None:
        from elastune.views.figures.plan import check_plot_file  # noqa: PLC0415

        check_plot_file(plot)
    with Console(stderr=True).status("planning"):
        quote = quote_job(job, **options)
        if plot is not None:
            from elastune.views.figures.plan import save_plot  # noqa: PLC0415

            save_plot(cast("Quote", quote), plot)
    return quote


def _measured(path: Path, *, address: str | None, runs_folder: Path, yes: bool, as_json: bool) -> "Job":
    """A job without a profile is planned with the one that an earlier run measured, else checked and measured
    now, as a run would."""
    from elastune.job.job import load_job  # noqa: PLC0415
    from elastune.job.trainable import is_code  # noqa: PLC0415

    job = load_job(path)
    if job.is_measured or not is_code(job.trainable):
        return job
    from elastune.api.checking import as_checked, checked  # noqa: PLC0415  loads all that a run needs
    from elastune.api.profiling import (  # noqa: PLC0415
        describe_measured,
        find_profile,
        with_measurements,
    )

    with contextlib.redirect_stdout(sys.stderr):  # what the trainable prints when it is imported
        job = as_checked(job, address=address, folder=runs_folder)
        kept = find_profile(job, job.unopened_tuning().metric, runs_folder, address)
        if kept is None:
            _ask_to_measure(job, path, address=address, yes=yes, as_json=as_json)
            say = partial(typer.echo, err=True)
            job, _ = checked(job, wanted=True, address=address, folder=runs_folder, say=say)
            kept = _measure(job, address=address, runs_folder=runs_folder, as_json=as_json)
        else:
            typer.echo(describe_measured(kept), err=True)
    return with_measurements(job, kept)


def _ask_to_measure(job: "Job", path: Path, *, address: str | None, yes: bool, as_json: bool) -> None:
    from elastune.api.profiling import usual_effort  # noqa: PLC0415
    from elastune.cli.run import ask_to_measure  # noqa: PLC0415
    from elastune.runs.prepared_run import spends_money  # noqa: PLC0415
    from elastune.wording import format_duration  # noqa: PLC0415

    most = format_duration(usual_effort(job).most_s)
    if not yes and (as_json or not sys.stdin.isatty()):
        raise JobError(
            "the job has no profile, and no measurement of this training was found; there is no terminal to "
            f"confirm on: `elastune plan {path} --yes` measures it first, for up to {most}, and `elastune "
            f"profile {path}` in more detail; or write it into the job, such as profile: {{iteration: 2s}}"
        )
    if address is None and spends_money(job):
        ask_to_measure(job, usual_effort(job), yes=yes, as_json=as_json)
    elif not yes:
        typer.confirm(f"The job has no profile. Measure it now, for up to {most}?", abort=True, err=True)


def _measure(job: "Job", *, address: str | None, runs_folder: Path, as_json: bool) -> Path:
    """The limits stay: a later run finds this measurement and does not pay for it again."""
    from elastune.api.profiling import profile, usual_effort  # noqa: PLC0415
    from elastune.cli.run import carry_out  # noqa: PLC0415

    start = partial(profile, job, effort=usual_effort(job), address=address, folder=runs_folder)
    taken = carry_out(start, as_json=as_json, again="the same command")
    typer.echo(f"measuring took {taken.took}; kept in {taken.path}", err=True)
    return taken.path


def _warn(job: "Job", quote: "Quote | PolicyQuote", address: str | None) -> None:
    from elastune.job.trainable import is_code  # noqa: PLC0415
    from elastune.runs.quotes.warnings import quote_warnings  # noqa: PLC0415

    if is_code(job.trainable):  # others are not for this machine
        for warning in quote_warnings(job, quote, address=address):
            typer.echo(f"\nwarning: {warning}")


def _print(quote: "Quote | PolicyQuote", plot: Path | None) -> None:
    from rich.console import Console  # noqa: PLC0415

    from elastune.views.terminal.plan import render_any_quote  # noqa: PLC0415

    console = Console(highlight=False)
    console.width = max(console.width, 80)  # a narrower terminal wraps lines, it does not cut numbers
    console.print(render_any_quote(quote))
    if plot is not None:
        console.print(f"\nplot written to {plot}")
