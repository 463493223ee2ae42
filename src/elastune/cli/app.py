"""The `elastune` command and how it ends: 0 done, 2 wrong input, 3 no plan fits, 70 our own bug."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import elastune
from elastune.cli.plan import plan_command
from elastune.errors import ElastuneError

app = typer.Typer(
    help="Hyperparameter tuning that finishes on time and on budget.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("plan")(plan_command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"elastune {elastune.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Hyperparameter tuning that finishes on time and on budget."""


def main() -> None:
    """Run the command; errors that a person can act on are told in words, without a traceback."""
    try:
        app()
    except ElastuneError as error:
        typer.secho("error: ", fg=typer.colors.RED, bold=True, nl=False, err=True)
        typer.echo(str(error), err=True)
        sys.exit(error.exit_code)
