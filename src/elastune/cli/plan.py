"""`elastune plan`: from a job file to a priced plan."""

from __future__ import annotations

import contextlib
import enum
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from elastune.cli.terminal import AsJson, JobFile, errors_as_json, print_json

if TYPE_CHECKING:
    from elastune.job.job import Job
    from elastune.planning.quote import Quote
    from elastune.runs.policy_quote import PolicyQuote


class PlannerName(enum.StrEnum):
    """Spelled out so that `--help` need not load the planners; a test compares them."""

    EXACT = "exact"
    GREEDY = "greedy"
    STATIC = "static"
    NAIVE_ELASTIC = "naive-elastic"


class ObjectiveName(enum.StrEnum):
    COST = "cost"
    TIME = "time"


def plan_command(  # noqa: PLR0913, PLR0917  every option of a command is a parameter
    job: JobFile,
    planner: Annotated[PlannerName, typer.Option(help="The planner.")] = PlannerName.EXACT,
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
    as_json: AsJson = False,
) -> None:
    """Find the cheapest plan that keeps the limits, and print its cost and finish time."""
    with errors_as_json(as_json):
        quote = _plan(
            job,
            plot,
            planner=planner.value,
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


def _plan(job: Path, plot: Path | None, **options: Any) -> Quote | PolicyQuote:
    from rich.console import Console  # noqa: PLC0415

    from elastune.api.planning import quote as quote_job  # noqa: PLC0415
    from elastune.views.figures.plan import check_plot_file, save_plot  # noqa: PLC0415

    if plot is not None:
        check_plot_file(plot)
    with Console(stderr=True).status("planning"):
        quote = quote_job(_with_kept_profile(job), **options)
        if plot is not None:
            save_plot(cast("Quote", quote), plot)
    return quote


def _with_kept_profile(path: Path) -> Job:
    """A job without a profile is planned with the one that an earlier run measured, if any."""
    from elastune.api.profiling import describe_measured, find_profile, with_measurements  # noqa: PLC0415
    from elastune.job.job import load_job  # noqa: PLC0415
    from elastune.job.tuning import is_code  # noqa: PLC0415

    job = load_job(path)
    if job.is_measured or not is_code(job.trainable):
        return job
    with contextlib.redirect_stdout(sys.stderr):  # what the trainable prints when it is imported
        kept = find_profile(job, job.unopened_tuning().metric)
    if kept is None:
        return job
    typer.echo(describe_measured(kept), err=True)
    return with_measurements(job, kept)


def _print(quote: Quote | PolicyQuote, plot: Path | None) -> None:
    from rich.console import Console  # noqa: PLC0415

    from elastune.views.terminal.plan import render_any_quote  # noqa: PLC0415

    console = Console(highlight=False)
    console.width = max(console.width, 80)  # a narrower terminal wraps lines, it does not cut numbers
    console.print(render_any_quote(quote))
    if plot is not None:
        console.print(f"\nplot written to {plot}")
