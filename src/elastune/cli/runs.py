"""`elastune runs`: what was run, newest first."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated

import typer

from elastune.cli.errors import errors_as_json
from elastune.cli.folders import DEFAULT_FOLDER, RunsFolder
from elastune.cli.showing import show


def runs_command(
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    apart: Annotated[
        bool, typer.Option("--all", help="One line per run, also for runs started together.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the runs with their state, time, cost and best metric."""
    with errors_as_json(as_json):
        from elastune.api.running import list_runs  # noqa: PLC0415

        listing = list_runs(runs_folder)
    if as_json:
        typer.echo(json.dumps(listing.to_dict(), indent=2))
    else:
        from elastune.reports.list_text import render_runs  # noqa: PLC0415

        show(render_runs(listing, apart=apart, now_utc=datetime.now(UTC)))
