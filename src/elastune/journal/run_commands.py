"""Commands about a run that are shown to the user and work when pasted, from the folder the user is in."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from elastune.journal.run_folders import (
    USUAL_ROOT,
    RunFolder,
    folders_with_id,
    indexed_folders,
    run_folders,
)  # fmt: skip

RUNS_VARIABLE = "ELASTUNE_RUNS"


def command_for(verb: str, folder: RunFolder, run: str | None, *options: str) -> str:
    """`elastune <verb> <run> <options>`, with the folder of runs if the id alone would not lead to the run.

    `run` is the run's id; None: all runs of the folder.
    """
    return shlex.join(["elastune", verb, *_naming(folder, run), *options])


def sweep_command(folder: RunFolder) -> str:
    """Ends the nodes of runs in the same folder that have no driver."""
    is_usual = folder.path.parent.resolve() == _usual_root().resolve()
    place = [] if is_usual else ["--runs-folder", _shown(folder.path.parent)]
    return shlex.join(["elastune", "nodes", "--sweep", *place])


def argument_for(folder: RunFolder, run: str) -> str:
    """The same for a call in Python: the id, or the path of the folder."""
    return run if _leads_to(folder, run, USUAL_ROOT) else _shown(folder.path)


def _naming(folder: RunFolder, run: str | None) -> list[str]:
    text = run or folder.run
    if text is None or folder.run is None or not text.startswith(folder.run):  # the folder was renamed
        return [_shown(folder.path)]
    if _leads_to(folder, text, _usual_root()):
        return [text]
    return [text, "--runs-folder", _shown(folder.path.parent)]


def _leads_to(folder: RunFolder, text: str, root: Path) -> bool:
    """Whether the id means this folder where no other root is given."""
    meant = folders_with_id(run_folders(root), text) or folders_with_id(indexed_folders(), text)
    return len(meant) == 1 and meant[0].path.resolve() == folder.path.resolve()


def _usual_root() -> Path:
    """Where a command without --runs-folder looks."""
    return Path(os.environ.get(RUNS_VARIABLE) or USUAL_ROOT)


def _shown(path: Path) -> str:
    """Relative where that is shorter, so that the command is readable."""
    whole, here = path.resolve(), Path.cwd()
    return str(whole.relative_to(here) if whole.is_relative_to(here) else whole)
