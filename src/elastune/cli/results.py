"""`elastune report` (pages and figures), `export` (other tools) and `replay` (retrain a hopping trial)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elastune.cli.terminal import DEFAULT_FOLDER, AnyRun, AsJson, RunsFolder, errors_as_json, print_json
from elastune.errors import ExecutionError


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
    as_json: AsJson = False,
) -> None:
    """Draw a run: nodes, trials, learning curves and cost, as one HTML page and as figures."""
    from rich.console import Console  # noqa: PLC0415

    with errors_as_json(as_json):
        from elastune.api.reporting import report  # noqa: PLC0415

        with Console(stderr=True).status("reading") as waiting:
            made = report(*runs, folder=out, runs_folder=runs_folder, tell=waiting.update)
    if as_json:
        print_json(made.to_dict())
    else:
        typer.echo("\n".join(map(str, made.paths)))


def export_command(  # noqa: PLR0913, PLR0917  every option of a command is a parameter
    run: AnyRun,
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
    as_json: AsJson = False,
) -> None:
    """Export the trials and rows of a run to files, TensorBoard or MLflow."""
    with errors_as_json(as_json):
        from elastune.api.results import load_run  # noqa: PLC0415

        written = load_run(run, folder=runs_folder).export(
            format_, to, what=what, force=force, experiment=experiment, checkpoint=checkpoint
        )
    if as_json:
        print_json({"format": format_, "written": list(written)})
    else:
        typer.echo("\n".join(written))


def replay_command(
    run: AnyRun,
    trial: Annotated[int | None, typer.Option(help="The trial.", show_default="the best")] = None,
    iteration: Annotated[
        int | None, typer.Option(help="The last iteration to train.", show_default="its newest checkpoint")
    ] = None,
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    as_json: AsJson = False,
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
        print_json(again.to_dict())
    else:
        words = {
            True: f"bit for bit what the run kept in {again.checkpoint}",
            False: f"NOT what the run kept in {again.checkpoint}: the code, the data or the machine differ",
            None: "there is no checkpoint to compare with",
        }
        typer.echo(
            f"trial {again.trial} after iteration {again.iteration}, {again.visits} visits: "
            f"{words[again.same]}\nsha256 {again.sha256}"
        )
    if again.same is False:
        raise typer.Exit(ExecutionError.exit_code)
