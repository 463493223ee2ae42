"""The command line. Commands parse and show; what they do is in `elastune.api`."""

from elastune.cli.app import main

__all__ = ["main"]
