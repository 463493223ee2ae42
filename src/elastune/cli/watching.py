"""Looking on at a run of another process: its journal is read again and again, and taken in by a core."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from elastune.cli.run_meter import open_meter

if TYPE_CHECKING:
    from elastune.journal import FoundRun

_EVERY_S = 2.0


def watch_run(run: str, folder: Path) -> None:
    """Until it has ended or nobody writes it any more. Raises `KeyboardInterrupt` if nobody wants to look."""
    from elastune.journal import find_run  # noqa: PLC0415

    _look_on(find_run(folder, run))


def _look_on(found: FoundRun) -> None:
    from elastune.journal import Journal  # noqa: PLC0415
    from elastune.runs.live import Opening  # noqa: PLC0415
    from elastune.runs.reopening import predicted_for, setup_of, taken_in  # noqa: PLC0415

    run = found.record.run
    journal = Journal.open(found.journal, read_only=True)
    setup = setup_of(found.record, journal)
    core = setup.make_core(found.record.seed)
    with open_meter(waiting="reading the journal") as meter:
        taken_in(core, journal.read(run), run, audited=False)
        meter.begin(
            Opening(
                record=found.record,
                setup=setup,
                predicted=predicted_for(setup, found.folder),
                journal=journal,
                policy=core.policy,
                events=core.state.events,
            )
        )
        meter(core.state)
        while core.state.ended is None and journal.summary(run).writer is not None:
            time.sleep(_EVERY_S)
            taken_in(core, journal.read(run, after=core.state.events), run, audited=False)
            meter(core.state)
