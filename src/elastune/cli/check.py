"""`elastune check`: try a trainable before it is tuned."""

import contextlib
import sys
from typing import Annotated

import typer

from elastune.cli.terminal import (
    DEFAULT_FOLDER,
    Address,
    AsJson,
    RunsFolder,
    json_output,
    present,
    read_config,
)  # fmt: skip
from elastune.errors import JobError


def check_command(
    job: Annotated[
        str,
        typer.Argument(
            help="The job file (YAML), or a trainable without one: file.py:function.", show_default=False
        ),
    ],
    config: Annotated[
        str | None,
        typer.Option(
            help="Of a trainable without a job file: its configuration as JSON or YAML, such as '{lr: 0.1}'. "
            "Otherwise the variable `space` of its file.",
            show_default=False,
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="Of a trainable without a job file: what it reports.", show_default=False),
    ] = None,
    most: Annotated[str, typer.Option(help="Time limit.")] = "5m",
    address: Address = None,
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    as_json: AsJson = False,
) -> None:
    """Try the trainable on one slot of this machine, at most three iterations: its metric, save and load,
    device, memory, and whether several workers share their work.

    Exit code 2 if something failed. `elastune run` checks as well, unless the same code was checked already.
    """
    with json_output(as_json):
        from elastune.api.checking import check  # noqa: PLC0415

        # What a trainable prints when it is imported must not get into our output.
        with contextlib.redirect_stdout(sys.stderr):
            say = lambda line: typer.echo(line, err=True)  # noqa: E731
            space = config and {name: {"choice": [value]} for name, value in read_config(config).items()}
            given = {"space": space, "metric": metric}
            sections = {name: value for name, value in given.items() if value is not None}
            report = check(job, address=address, folder=runs_folder, most=most, say=say, **sections)
        from elastune.views.terminal.check import render_check  # noqa: PLC0415

        present(report, render_check, as_json=as_json)
    if not report.is_fine:
        raise typer.Exit(JobError.exit_code)
