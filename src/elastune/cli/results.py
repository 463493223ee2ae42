"""`elastune report`: a run as a page and pictures; several runs side by side.

`elastune export`: a run for other tools.

`elastune replay`: train a trial of a hopping run once more, along the order of its visits.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from elastune.cli.terminal import DEFAULT_FOLDER, RunsFolder, errors_as_json


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
        from elastune.api.reporting import report  # noqa: PLC0415

        with Console(stderr=True).status("reading") as waiting:
            made = report(*runs, folder=out, runs_folder=runs_folder, tell=waiting.update)
    if as_json:
        typer.echo(json.dumps(made.to_dict(), indent=2))
    else:
        for path in made.paths:
            typer.echo(str(path))


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


def replay_command(
    run: Annotated[
        str,
        typer.Argument(
            help="A run: its folder or journal, the start of its id, or last.", show_default=False
        ),
    ],
    trial: Annotated[int | None, typer.Option(help="The trial.", show_default="the best")] = None,
    iteration: Annotated[
        int | None, typer.Option(help="The last iteration to train.", show_default="its newest checkpoint")
    ] = None,
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Train a trial of a hopping run again, in this process, and compare the weights bit for bit."""
    with errors_as_json(as_json):
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import Progress  # noqa: PLC0415

        from elastune.journal.run_folders import find_run  # noqa: PLC0415
        from elastune.runs.trial_replay import retrace  # noqa: PLC0415

        console = Console(stderr=True)
        with Progress(console=console, transient=True, disable=as_json or not console.is_terminal) as bar:
            task = bar.add_task("visits", total=None)
            again = retrace(
                find_run(Path(runs_folder), run),
                trial,
                iteration,
                told=lambda done, of: bar.update(task, completed=done, total=of),
            )
    if as_json:
        typer.echo(json.dumps(again.to_dict(), indent=2))
    else:
        words = {
            True: f"bit for bit what the run kept in {again.checkpoint}",
            False: f"NOT what the run kept in {again.checkpoint}: the code, the data or the machine differ",
            None: "there is no checkpoint of it to compare with",
        }
        typer.echo(
            f"trial {again.trial} after iteration {again.iteration}, {again.visits} visits: "
            f"{words[again.same]}\nsha256 {again.sha256}"
        )
    if again.same is False:
        raise typer.Exit(4)
