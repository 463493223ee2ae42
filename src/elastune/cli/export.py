"""`elastune export`: a run for other tools."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from elastune.cli.errors import errors_as_json
from elastune.cli.folders import DEFAULT_FOLDER, RunsFolder


def export_command(  # noqa: PLR0913, PLR0917  every option of a command is a parameter
    run: Annotated[
        str,
        typer.Argument(
            help="A run: its folder or journal, the start of its id, or last.", show_default=False
        ),
    ],
    format_: Annotated[
        str, typer.Option("--format", help="csv, json, parquet, tensorboard or mlflow.", show_default=False)
    ],
    to: Annotated[
        str | None,
        typer.Option(
            help="The folder to write to; for mlflow the tracking URI.", show_default="the run's folder"
        ),
    ] = None,
    what: Annotated[str, typer.Option(help="trials, rows or both; for csv, json and parquet.")] = "both",
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    experiment: Annotated[
        str | None, typer.Option(help="The MLflow experiment.", show_default="the name of the job")
    ] = None,
    checkpoint: Annotated[
        bool, typer.Option("--checkpoint", help="Also store the best model in MLflow.")
    ] = False,
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Export the trials and rows of a run to files, TensorBoard or MLflow."""
    with errors_as_json(as_json):
        from elastune.api.results import load_run  # noqa: PLC0415

        written = load_run(run, folder=runs_folder).export(
            format_, to, what=what, force=force, experiment=experiment, checkpoint=checkpoint
        )
    if as_json:
        typer.echo(json.dumps({"format": format_, "written": list(written)}, indent=2))
    else:
        for each in written:
            typer.echo(each)
