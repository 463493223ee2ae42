"""`elastune simulate`: the whole experiment in virtual time."""

import contextlib
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from elastune.cli.meters import ProgressMeter
from elastune.cli.terminal import (
    DEFAULT_FOLDER,
    INTERRUPTED,
    AsJson,
    JobFile,
    Planner,
    RunsFolder,
    Stopping,
    json_output,
    print_json,
    show,
)  # fmt: skip
from elastune.errors import ExecutionError, JobError

if TYPE_CHECKING:
    from elastune.runs.campaign import Campaign


_CUT = "interrupted; `runs` has those that are complete"
_NOTHING = "interrupted before the first run began; nothing is kept"


def simulate_command(  # noqa: PLR0913, PLR0917  every option of a command is a parameter
    job: JobFile,
    seed: Annotated[
        int | None, typer.Option(help="The same seed gives the same run.", show_default="the job's")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds, starting with --seed.")] = 1,
    policy: Annotated[
        str | None,
        typer.Option(
            help="The policy; several, separated by commas, are compared on the same seeds.",
            show_default="from the job",
        ),
    ] = None,
    planner: Planner = None,
    faults: Annotated[
        str,
        typer.Option(help="Faults: none, mild, harsh, key=value,... (lost_per_hour=0.2), or mild,crash=0.5."),
    ] = "none",
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    no_journal: Annotated[bool, typer.Option("--no-journal", help="Write nothing to disk.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the whole experiment in virtual time, and compare it with the prediction."""
    with json_output(as_json):
        from elastune.api.simulating import simulate_many  # noqa: PLC0415
        from elastune.runs.campaign import CampaignInterrupted  # noqa: PLC0415

        # What a trainable prints must not get into our output, or into the JSON.
        try:
            with (
                Stopping() as stopping,
                ProgressMeter(stopping.check) as meter,
                contextlib.redirect_stdout(sys.stderr),
            ):
                campaign = simulate_many(
                    job,
                    policies=_names(policy),
                    planner=planner,
                    seed=seed,
                    seeds=seeds,
                    faults=faults,
                    folder=None if no_journal else runs_folder,
                    watch=meter,
                )
        except CampaignInterrupted as interrupted:
            _print(interrupted.campaign, as_json=as_json)
            raise typer.Exit(INTERRUPTED) from None
        except KeyboardInterrupt:
            if as_json:
                print_json({"error": "interrupted", "message": _NOTHING})
            else:
                typer.echo(_NOTHING, err=True)
            raise typer.Exit(INTERRUPTED) from None
    _print(campaign, as_json=as_json)
    if all(run.standing.has_failed for run in campaign.runs):
        raise typer.Exit(ExecutionError.exit_code)


def _print(campaign: "Campaign", *, as_json: bool) -> None:
    if as_json:
        data = campaign.to_dict()
        if campaign.interrupted:
            under_way = None if campaign.cut is None else asdict(campaign.cut)
            data = {"error": "interrupted", "message": _CUT, "under_way": under_way, **data}
        print_json(data)
    else:
        from elastune.views.terminal.simulation import render_campaign  # noqa: PLC0415

        show(render_campaign(campaign))


def _names(policy: str | None) -> list[str]:
    if policy is None:
        return []
    names = [name.strip() for name in policy.split(",")]
    if not all(names):
        raise JobError(f"--policy is {policy!r}; expected a name, or several such as asha,rubberband")
    return names
