"""`elastune status`: where a run stands, from its journal alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elastune.cli.errors import errors_as_json
from elastune.cli.folders import DEFAULT_FOLDER, RunsFolder
from elastune.cli.showing import show
from elastune.cli.stopping import INTERRUPTED
from elastune.errors import ExecutionError, JobError

if TYPE_CHECKING:
    from elastune.runs.gathering import CampaignStatus


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
        from elastune.api.running import campaign_status, status  # noqa: PLC0415

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
        from elastune.reports.status_text import render_status  # noqa: PLC0415

        show(render_status(found))
    if found.audit is not None and not found.audit.is_clean:
        raise typer.Exit(ExecutionError.exit_code)


def _look_on(run: str, folder: Path, *, alone: bool) -> None:
    from elastune.cli.watching import watch_run  # noqa: PLC0415

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
        from elastune.reports.status_text import render_campaign_status  # noqa: PLC0415

        show(render_campaign_status(found))
