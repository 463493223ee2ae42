"""`elastune report` (pages and figures), `export` (other tools) and `replay` (retrain a hopping trial)."""

from pathlib import Path
from typing import Annotated

import typer

from elastune.cli.terminal import DEFAULT_FOLDER, AnyRun, AsJson, RunsFolder, json_output, print_json
from elastune.errors import ExecutionError, JobError


def report_command(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="A run: its folder or journal, the start of its id, a name, or last. Several are compared.",
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

    with json_output(as_json):
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
        str | None,
        typer.Option(
            "--format",
            help="csv, json, parquet, tensorboard, mlflow or wandb; omit it for a model.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="The file of a model (model.pt, model.safetensors, model.pkl); the folder for tables; for "
            "mlflow the tracking URI.",
            show_default="the run's folder",
        ),
    ] = None,
    trial: Annotated[str, typer.Option(help="The trial of a model: its number, or best.")] = "best",
    part: Annotated[
        str | None, typer.Option(help="Of a model, only this key of its state.", show_default="all")
    ] = None,
    pickles: Annotated[
        bool, typer.Option("--pickles", help="Load pickled objects of a checkpoint that you trust.")
    ] = False,
    what: Annotated[str, typer.Option(help="trials, rows or both; for csv, json and parquet.")] = "both",
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    experiment: Annotated[
        str | None,
        typer.Option(
            help="The experiment of MLflow, or the project of W&B.", show_default="the name of the job"
        ),
    ] = None,
    checkpoint: Annotated[
        bool, typer.Option("--checkpoint", help="Also store the best model in MLflow.")
    ] = False,
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    as_json: AsJson = False,
) -> None:
    """Export the best model of a run to a file; or its trials and rows to files, TensorBoard,
    MLflow or W&B."""
    with json_output(as_json):
        from elastune.api.results import load_run  # noqa: PLC0415
        from elastune.exports.model_file import is_model_file  # noqa: PLC0415

        found = load_run(run, folder=runs_folder)
        if format_ is None and to is not None and is_model_file(to):
            model = found.model(trial).export(to, part=part, force=force, pickles=pickles)
            written: tuple[str, ...] = (str(model),)
        else:
            written = found.export(
                _table_format(format_, trial, part),
                to,
                what=what,
                force=force,
                experiment=experiment,
                checkpoint=checkpoint,
            )
    if as_json:
        print_json({"format": format_ or Path(written[0]).suffix[1:], "written": list(written)})
    else:
        typer.echo("\n".join(written))


def _table_format(format_: str | None, trial: str, part: str | None) -> str:
    if format_ is None:
        raise JobError(
            "neither a model file nor a format is given; expected --to model.pt, .safetensors or .pkl, or "
            "--format csv, json, parquet, tensorboard, mlflow or wandb"
        )
    if trial != "best" or part is not None:
        raise JobError(f"--trial and --part are for model files, but --format is {format_}; omit them")
    return format_


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
    with json_output(as_json):
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
