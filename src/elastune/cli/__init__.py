"""The command line. Commands parse arguments and print; the work is done by `elastune.api`."""

from elastune.cli import app
from elastune.cli.terminal import owns_process

__all__ = ["main"]


def main() -> None:
    """For a process that was started for one command."""
    owns_process.set(True)
    app.main()
