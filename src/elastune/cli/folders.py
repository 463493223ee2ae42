"""The option that says where runs are kept; all commands about runs have it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# Spelled out so that `--help` need not load the API; a test holds it to the real one.
DEFAULT_FOLDER = Path("elastune-runs")

RunsFolder = Annotated[
    Path, typer.Option("--runs-folder", envvar="ELASTUNE_RUNS", help="The folder of runs.")
]
