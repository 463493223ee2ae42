"""`elastune report`: a run as a page and pictures; several runs side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from elastune.cli.errors import errors_as_json
from elastune.cli.folders import DEFAULT_FOLDER, RunsFolder


def report_command(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="A run: its folder or journal, the start of its id, or last. Several are compared.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="The output folder.", show_default="report in the run's folder")
    ] = None,
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Draw a run: nodes, trials, learning curves and cost, as one HTML page and as figures."""
    from rich.console import Console  # noqa: PLC0415

    with errors_as_json(as_json):
        from elastune.reports.reporting import report  # noqa: PLC0415

        with Console(stderr=True).status("reading") as waiting:
            made = report(*runs, folder=out, runs_folder=runs_folder, tell=waiting.update)
    if as_json:
        typer.echo(json.dumps(made.to_dict(), indent=2))
    else:
        for path in made.paths:
            typer.echo(str(path))
