"""`elastune status` (one run, read from its journal alone) and `elastune runs` (all runs, newest first).

`--watch` follows the run of another process: a core replays the journal as it grows.
"""

import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastune.cli.meters import open_meter
from elastune.cli.terminal import DEFAULT_FOLDER, INTERRUPTED, AsJson, RunsFolder, json_output, present
from elastune.errors import ExecutionError, JobError

if TYPE_CHECKING:
    from elastune.journal.run_folders import FoundRun

_EVERY_S = 2.0


def status_command(
    run: Annotated[
        str,
        typer.Argument(
            help="A run, or runs started together: folder or journal, the start of an id, a name, or last.",
            show_default=False,
        ),
    ],
    audit: Annotated[
        bool, typer.Option("--audit", help="Replay the run and compare every command with the journal.")
    ] = False,
    watch: Annotated[
        bool,
        typer.Option("--watch", "-w", help="Follow the run until it ends; Ctrl-C ends only the watching."),
    ] = False,
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    as_json: AsJson = False,
) -> None:
    """Show a run: time and cost against limits and prediction, stages, trials, best model."""
    with json_output(as_json):
        from elastune.api.simulating import campaign_status, status  # noqa: PLC0415
        from elastune.views.terminal.status import render_campaign_status, render_status  # noqa: PLC0415

        campaign = None if audit else campaign_status(run, folder=runs_folder)
        if campaign is not None:
            present(campaign, render_campaign_status, as_json=as_json)
            return
        if watch:
            _watch(run, runs_folder, alone=not (audit or as_json))
        found = status(run, folder=runs_folder, audit=audit)
    present(found, render_status, as_json=as_json)
    if found.audit is not None and not found.audit.is_clean:
        raise typer.Exit(ExecutionError.exit_code)


def _watch(run: str, folder: Path, *, alone: bool) -> None:
    from elastune.journal.run_folders import find_run  # noqa: PLC0415

    if not alone:
        raise JobError("--watch follows a run; it cannot be combined with --json or --audit")
    try:
        _follow(find_run(folder, run))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _follow(found: "FoundRun") -> None:
    """Until the run has ended or has no driver."""
    from elastune.journal.store import Journal  # noqa: PLC0415
    from elastune.runs.reopening import predicted_for, setup_of, taken_in, wait_for_start  # noqa: PLC0415
    from elastune.views.live.spectator import Opening  # noqa: PLC0415

    run = found.record.run
    journal = Journal.open(found.journal, read_only=True)
    wait_for_start(found.record, journal)
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


def runs_command(
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    everywhere: Annotated[
        bool, typer.Option("--all", help="Your runs in all folders, from the index in your home.")
    ] = False,
    apart: Annotated[
        bool, typer.Option("--each", help="One line per run, also for runs started together.")
    ] = False,
    profiles: Annotated[
        bool, typer.Option("--profiles", help="Also runs that measure a training before it is planned.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the runs with their state, time, cost and best metric, newest first."""
    with json_output(as_json):
        from elastune.api.simulating import list_runs  # noqa: PLC0415
        from elastune.views.terminal.lists import render_runs  # noqa: PLC0415

        listing = list_runs(runs_folder, everywhere=everywhere, profiles=profiles)
    present(listing, partial(render_runs, apart=apart, now_utc=datetime.now(UTC)), as_json=as_json)
