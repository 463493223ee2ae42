"""`elastune logs`: what a trial has printed, also while it runs."""

import sys
from typing import Annotated

import typer

from elastune.cli.terminal import (
    DEFAULT_FOLDER,
    INTERRUPTED,
    AsJson,
    RunsFolder,
    RunToChange,
    json_output,
    legible,
    print_json,
)  # fmt: skip
from elastune.errors import JobError


def logs_command(
    run: RunToChange,
    trial: Annotated[
        str, typer.Argument(help="The number of a trial, best, or last: the one that printed last.")
    ] = "last",
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Print what comes until the trial or the run has ended."),
    ] = False,
    rank: Annotated[int, typer.Option(help="The worker of a gang, from 0.", min=0)] = 0,
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    as_json: AsJson = False,
) -> None:
    """Print the output of a trial."""
    with json_output(as_json):
        from elastune.api.results import logs  # noqa: PLC0415

        if follow and as_json:
            raise JobError("--follow prints text as it comes; it cannot be combined with --json")
        log = logs(run, trial, rank=rank, folder=runs_folder)
        if as_json:
            found = {"run": log.found.record.run, "trial": log.trial, "rank": log.rank}
            print_json({**found, "path": str(log.path), "text": str(log)})
            return
        try:
            for line in log.follow() if follow else log:
                sys.stdout.write(legible(line, sys.stdout.encoding))
                sys.stdout.flush()
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
