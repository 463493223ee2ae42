"""The `elastune` command.

Exit codes: 0 done, 2 wrong input, 3 no plan fits, 4 a run cannot continue, 70 a bug of Elastune.

Modules of commands do not postpone their annotations: typer would compile each of them
whenever a command starts.
"""

import sys
from typing import Annotated

import typer

import elastune
from elastune.cli.aws import aws_app
from elastune.cli.check import check_command
from elastune.cli.control import add_command, extend_command, stop_command
from elastune.cli.dashboard import dashboard_command
from elastune.cli.data import data_app
from elastune.cli.logs import logs_command
from elastune.cli.machines import machines_command
from elastune.cli.nodes import nodes_command
from elastune.cli.plan import plan_command
from elastune.cli.profile import profile_command
from elastune.cli.results import export_command, replay_command, report_command
from elastune.cli.run import resume_command, run_command
from elastune.cli.simulate import simulate_command
from elastune.cli.status import runs_command, status_command
from elastune.errors import ElastuneError

app = typer.Typer(
    help="Hyperparameter tuning within a deadline and a budget.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _command in (
    check_command, profile_command, plan_command, simulate_command, run_command, resume_command,
    extend_command, stop_command, add_command, runs_command, status_command, logs_command, nodes_command,
    machines_command, dashboard_command, report_command, export_command, replay_command,
):  # fmt: skip
    app.command(_command.__name__.removesuffix("_command"))(_command)
app.add_typer(data_app, name="data")
app.add_typer(aws_app, name="aws")


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
    """Run the command; errors that a user can act on are printed without a traceback."""
    try:
        app()
    except ElastuneError as error:
        _print_error(str(error))
        sys.exit(error.exit_code)
    except OSError as error:  # a full disk behind stdout, say
        _print_error(f"cannot write the output: {error.strerror or error}")
        sys.exit(1)


def _print_error(message: str) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    # Rich knows when not to use colour: NO_COLOR, dumb terminals, pipes.
    console = Console(stderr=True, soft_wrap=True)
    console.print(Text.assemble(("error: ", "bold red"), message))
