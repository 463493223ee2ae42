"""The command line. Commands parse arguments and print; the work is done by `elastune.api`."""

from elastune.cli.app import main

__all__ = ["main"]
