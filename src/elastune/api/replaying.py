"""A trial of a hopping run trained once more, to the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from elastune.api.running import RUNS_FOLDER
from elastune.journal import find_run

if TYPE_CHECKING:
    from elastune.runs.retracing import Retraced


def replay(
    run: str | Path,
    *,
    trial: int | None = None,
    iteration: int | None = None,
    folder: str | Path = RUNS_FOLDER,
) -> Retraced:
    """Train a trial again along the visits that the journal tells, alone and in this process.

    By default the best, up to its newest checkpoint. `same` of the answer says whether the weights are those
    that the run kept, bit for bit; `state` are they.
    """
    from elastune.runs.retracing import retrace  # noqa: PLC0415

    return retrace(find_run(Path(folder), str(run)), trial, iteration)
