"""`elastune replay`: train a trial of a hopping run once more, along the order of its visits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from elastune.cli.errors import errors_as_json
from elastune.cli.folders import DEFAULT_FOLDER, RunsFolder


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

        from elastune.journal import find_run  # noqa: PLC0415
        from elastune.runs.retracing import retrace  # noqa: PLC0415

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
