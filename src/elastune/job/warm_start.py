"""`warm_start: RUN`: a search begins with the trials of an earlier run.

`{run: RUN, first: 3}` tries its three best configurations again, first of all. The trials are read once,
before the run, and become part of the job: its journal suffices to resume and replay it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator

from elastune.job.section import Section
from elastune.model.quantities import ExpectedError, Natural, Word
from elastune.space.warm_start import OldTrial

_TRIALS = "the trials of the run, as Elastune writes them: [[{lr: 0.1}, [0.5, 0.6]]]"


def _trials(written: object) -> tuple[OldTrial, ...]:
    if not isinstance(written, list | tuple):
        raise ExpectedError(_TRIALS)
    return tuple(_trial(each) for each in written)


def _trial(written: object) -> OldTrial:
    match written:
        case [Mapping() as config, [*values]]:
            numbers = tuple(float(value) for value in values if isinstance(value, int | float))
            if len(numbers) == len(values):
                return OldTrial({str(name): value for name, value in config.items()}, numbers)
    raise ExpectedError(_TRIALS)


OldTrials = Annotated[
    tuple[Any, ...],  # of `OldTrial`; pydantic cannot resolve the recursive type of its values
    PlainValidator(_trials),
    PlainSerializer(lambda trials: [[dict(config), list(values)] for config, values in trials]),
]


class WarmStartSection(Section):
    """`old_trials` None: the run has not been read yet."""

    run: Word = Field(description="a run: its folder, the start of its id, or last")
    first: Natural = 1
    old_trials: OldTrials | None = None


WarmStart = Annotated[
    WarmStartSection,
    BeforeValidator(lambda written: {"run": str(written)} if isinstance(written, str | Path) else written),
]


def warm_start_in(folder: Path, written: object) -> object:
    """A path is relative to the job file; an id or `last` stays as it is."""
    if isinstance(written, str):
        path = folder / written
        return str(path) if written and path.exists() else written
    if isinstance(written, Mapping) and "run" in written:
        return {**written, "run": warm_start_in(folder, written["run"])}
    return written
