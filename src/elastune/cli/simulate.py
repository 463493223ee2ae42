"""`elastune simulate`: the whole experiment in virtual time."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from elastune.cli.errors import errors_as_json
from elastune.cli.folders import DEFAULT_FOLDER, RunsFolder
from elastune.cli.meter import Meter
from elastune.cli.showing import show
from elastune.errors import JobError


def simulate_command(  # noqa: PLR0913, PLR0917  every option of a command is a parameter
    job: Annotated[Path, typer.Argument(help="The job file (YAML).", show_default=False)],
    seed: Annotated[
        int | None, typer.Option(help="The same seed gives the same run.", show_default="the job's")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Run on so many seeds, from --seed on.")] = 1,
    policy: Annotated[
        str | None,
        typer.Option(
            help="Who decides; several by commas are compared on the same seeds.", show_default="by the job"
        ),
    ] = None,
    faults: Annotated[
        str, typer.Option(help="What goes wrong: none, mild, harsh, or key=value,... (lost_per_hour=0.2).")
    ] = "none",
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    no_journal: Annotated[bool, typer.Option("--no-journal", help="Keep nothing on disk.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Run the whole experiment in virtual time, and hold what happens against what was predicted."""
    with errors_as_json(as_json):
        from elastune.api.running import simulate_many  # noqa: PLC0415

        # What a trainable prints is not part of our output, least of all of the JSON.
        with Meter() as meter, contextlib.redirect_stdout(sys.stderr):
            campaign = simulate_many(
                job,
                policies=_names(policy),
                seed=seed,
                seeds=seeds,
                faults=faults,
                folder=None if no_journal else runs_folder,
                watch=meter,
            )
    if as_json:
        typer.echo(json.dumps(campaign.to_dict(), indent=2))
    else:
        from elastune.reports.simulation_text import render_campaign  # noqa: PLC0415

        show(render_campaign(campaign, faults))


def _names(policy: str | None) -> list[str]:
    if policy is None:
        return []
    names = [name.strip() for name in policy.split(",")]
    if not all(names):
        raise JobError(
            f"--policy is {policy!r}; expected a name, or several by commas such as asha,rubberband"
        )
    return names
