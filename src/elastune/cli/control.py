"""`elastune stop` (a run or one of its trials), `extend` (new limits) and `add` (a configuration to try)."""

import contextlib
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from elastune.cli.meters import open_meter
from elastune.cli.run import carry_out, confirm, print_finished
from elastune.cli.terminal import (
    DEFAULT_FOLDER,
    Address,
    AsJson,
    Plain,
    Quiet,
    RunsFolder,
    RunToChange,
    Yes,
    json_output,
    print_json,
    read_config,
)

if TYPE_CHECKING:
    from elastune.api.controlling import PreparedExtension
    from elastune.runs.control.forecast import ExtensionForecast


def stop_command(
    run: RunToChange = "last",
    trial: Annotated[
        int | None, typer.Option(help="End only this trial, at once; the search goes on.", show_default=False)
    ] = None,
    suspend: Annotated[
        bool, typer.Option("--suspend", help="Suspend the run, as Ctrl-C does; `resume` continues it.")
    ] = False,
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    as_json: AsJson = False,
) -> None:
    """Stop a run: it saves, releases all nodes and returns the best model so far."""
    with json_output(as_json):
        from elastune.api.controlling import stop  # noqa: PLC0415
        from elastune.journal.run_commands import command_for  # noqa: PLC0415
        from elastune.journal.run_folders import find_run  # noqa: PLC0415

        stopped = stop(run, trial=trial, suspend=suspend, folder=runs_folder, reason="elastune stop")
        look = command_for("status", find_run(runs_folder, stopped).folder, stopped)
    if as_json:
        print_json({"run": stopped, "asked": True, **({} if trial is None else {"trial": trial})})
        return
    what = f"run {stopped} was asked to {'suspend' if suspend else 'stop'}"
    if trial is not None:
        what = f"trial {trial} of run {stopped} is stopped"
    typer.echo(f"{what}; `{look}` shows its progress")


def add_command(
    run: RunToChange = "last",
    config: Annotated[
        str,
        typer.Option(
            help="The configuration as JSON or YAML, such as '{lr: 0.1}'; what is missing is drawn.",
            show_default=False,
        ),
    ] = ...,  # type: ignore[assignment]
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    as_json: AsJson = False,
) -> None:
    """Add a configuration to a running search: its next new trial gets it."""
    with json_output(as_json):
        from elastune.api.controlling import add  # noqa: PLC0415

        given = read_config(config)
        changed = add(run, given, folder=runs_folder)
    if as_json:
        print_json({"run": changed, "config": given})
    else:
        typer.echo(f"the next new trial of run {changed} has this configuration")


def _limit(what: str, example: str) -> object:
    text = f"{what} for the whole run ({example}), or what to add (+{example})."
    return typer.Option(help=text, show_default="unchanged")


def extend_command(  # noqa: PLR0913, PLR0917  every option of a command is a parameter
    run: RunToChange = "last",
    deadline: Annotated[str | None, _limit("A new deadline", "30m")] = None,
    budget: Annotated[str | None, _limit("A new budget", "$40")] = None,
    trials: Annotated[str | None, _limit("The number of trials", "8")] = None,
    max_nodes: Annotated[str | None, _limit("The most nodes at a time", "4")] = None,
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
    """Give a run new limits: while it runs, or after its end, from its checkpoints.

    A running one plans again at once. One that has ended or was suspended goes on in this process.
    """
    with json_output(as_json):
        from elastune.api.controlling import carry_out_extension, prepare_extension  # noqa: PLC0415
        from elastune.journal.run_folders import find_run  # noqa: PLC0415
        from elastune.runs.control.channel import RequestAnswer  # noqa: PLC0415
        from elastune.runs.control.requests import Extension  # noqa: PLC0415

        request = Extension.of(deadline=deadline, budget=budget, trials=trials, max_nodes=max_nodes)
        found = find_run(runs_folder, run)
        with contextlib.redirect_stdout(sys.stderr):
            prepared = prepare_extension(found, request, trainable=trainable, address=address)
        if not as_json:
            _show_forecast(prepared)
        if prepared.spends_money:
            confirm("extending this run may spend more money", "Extend?", yes=yes, as_json=as_json)
        if prepared.continuation is None:
            done = carry_out_extension(prepared)
        else:
            meter_of = partial(open_meter, quiet=quiet, plain=plain)
            done = carry_out(partial(carry_out_extension, prepared), as_json=as_json, meter_of=meter_of)
    if not isinstance(done, RequestAnswer):
        print_finished(done, as_json=as_json)
    elif as_json:
        forecast = prepared.forecast.to_dict()
        print_json({"run": found.record.run, "accepted": done.text, "forecast": forecast})
    else:
        typer.echo(f"run {found.record.run}, {done.text}")


def _show_forecast(prepared: "PreparedExtension") -> None:
    run = prepared.found.record.run
    how = "is running" if prepared.continuation is None else "goes on from its checkpoints"
    typer.echo(f"run {run} {how}")
    for line in _forecast_lines(prepared.forecast):
        typer.echo(line)
    sys.stdout.flush()


def _forecast_lines(forecast: "ExtensionForecast") -> list[str]:
    from elastune.wording import format_duration, format_usd, plural  # noqa: PLC0415

    so_far, expected = forecast.so_far, forecast.expected
    lines = [f"so far    {so_far}"]
    if expected is not None:
        more = format_usd(max(0.0, expected.cost - so_far.cost))
        of_it = f", {more} of it from now on" if expected.cost else ""
        lines.append(f"expected  {expected} in all{of_it}")
    limits = []
    if forecast.deadline_s is not None:
        limits.append(format_duration(forecast.deadline_s))
    if forecast.budget_usd is not None:
        limits.append(format_usd(forecast.budget_usd))
    most = " and ".join(limits) or "no limit of time or money"
    return [*lines, f"at most   {most}, on up to {plural(forecast.max_nodes, 'node')}"]
