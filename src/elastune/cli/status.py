"""`elastune status`: where a run stands, from its journal alone.

Looking on at a run of another process: its journal is read again and again, and taken in by a core.

`elastune runs`: what was run, newest first.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastune.cli.meters import open_meter
from elastune.cli.terminal import DEFAULT_FOLDER, INTERRUPTED, RunsFolder, errors_as_json, show
from elastune.errors import ExecutionError, JobError

if TYPE_CHECKING:
    from elastune.journal.run_folders import FoundRun
    from elastune.runs.campaign_status import CampaignStatus


def status_command(
    run: Annotated[
        str,
        typer.Argument(
            help="A run, or runs started together: folder or journal, the start of an id, or last.",
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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show a run: time and cost against limits and prediction, stages, trials, best model."""
    with errors_as_json(as_json):
        from elastune.api.simulating import campaign_status, status  # noqa: PLC0415

        together = None if audit else campaign_status(run, folder=runs_folder)
        if together is not None:
            _print_campaign(together, as_json=as_json)
            return
        if watch:
            _look_on(run, runs_folder, alone=not (audit or as_json))
        found = status(run, folder=runs_folder, audit=audit)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2))
    else:
        from elastune.views.terminal.status import render_status  # noqa: PLC0415

        show(render_status(found))
    if found.audit is not None and not found.audit.is_clean:
        raise typer.Exit(ExecutionError.exit_code)


def _look_on(run: str, folder: Path, *, alone: bool) -> None:

    if not alone:
        raise JobError("--watch is for looking on, --json and --audit for looking once; take one of them")
    try:
        watch_run(run, folder)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _print_campaign(found: CampaignStatus, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2))
    else:
        from elastune.views.terminal.status import render_campaign_status  # noqa: PLC0415

        show(render_campaign_status(found))


_EVERY_S = 2.0


def watch_run(run: str, folder: Path) -> None:
    """Until it has ended or nobody writes it any more. Raises `KeyboardInterrupt` if nobody wants to look."""
    from elastune.journal.run_folders import find_run  # noqa: PLC0415

    _look_on_at(find_run(folder, run))


def _look_on_at(found: FoundRun) -> None:
    from elastune.journal.store import Journal  # noqa: PLC0415
    from elastune.runs.reopening import predicted_for, setup_of, taken_in  # noqa: PLC0415
    from elastune.views.live.spectator import Opening  # noqa: PLC0415

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


def runs_command(
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    apart: Annotated[
        bool, typer.Option("--all", help="One line per run, also for runs started together.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the runs with their state, time, cost and best metric."""
    with errors_as_json(as_json):
        from elastune.api.simulating import list_runs  # noqa: PLC0415

        listing = list_runs(runs_folder)
    if as_json:
        typer.echo(json.dumps(listing.to_dict(), indent=2))
    else:
        from elastune.views.terminal.lists import render_runs  # noqa: PLC0415

        show(render_runs(listing, apart=apart, now_utc=datetime.now(UTC)))
