"""The command line. Commands parse arguments and print; the work is done by `elastune.api`."""

import gc
import os
import sys
from pathlib import Path

from elastune.cli import app
from elastune.cli.terminal import owns_process

__all__ = ["main"]


def main() -> None:
    """For a process that was started for one command."""
    # Collecting while a thousand modules are loaded takes a seventh of a short command.
    gc.set_threshold(50_000, 20, 20)
    _open_closed_streams()
    owns_process.set(True)
    app.main()


def _open_closed_streams() -> None:
    """A command may be started with its output closed (`>&-`). The next file that is opened, such as the
    journal, would get its number, and what is printed."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
