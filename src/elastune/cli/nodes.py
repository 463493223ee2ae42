"""`elastune nodes`: what is alive and costs money; `--sweep` ends what nobody looks after."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from elastune.cli.terminal import DEFAULT_FOLDER, RunsFolder, errors_as_json, show
from elastune.errors import ExecutionError, JobError

if TYPE_CHECKING:
    from elastune.api.nodes import Supervision
    from elastune.runs.orphans import NodeList


def nodes_command(
    sweep: Annotated[
        bool, typer.Option("--sweep", help="End orphans: nodes without a living driver.")
    ] = False,
    run: Annotated[
        str | None,
        typer.Option(help="Only nodes of this run (its id or the start of it).", show_default="all"),
    ] = None,
    provider: Annotated[
        str | None, typer.Option(help="Only nodes of this provider.", show_default="all")
    ] = None,
    region: Annotated[
        str | None, typer.Option(help="The cloud region.", show_default="from the AWS configuration")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before ending nodes.")] = False,
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List running nodes of all runs and providers: age, price, cost so far, and whether a driver is alive.

    A node is an orphan if its lease is over, if it has none, or if its run is known here and has no driver.
    Nodes of runs that are unknown here are not touched while their lease is valid.
    """
    with errors_as_json(as_json):
        from elastune.api.nodes import Supervision  # noqa: PLC0415

        wardens = Supervision(provider=provider, region=region, runs_folder=runs_folder)
        found = wardens.look(run)
        if sweep:
            _sweep(wardens, found, yes=yes, as_json=as_json, named=provider is not None)
            return
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2))
    else:
        from elastune.views.terminal.lists import render_nodes  # noqa: PLC0415

        show(render_nodes(found))
    if provider is not None and found.unseen:  # asked for, and not looked at: that is no "nothing is alive"
        raise typer.Exit(ExecutionError.exit_code)


def _sweep(wardens: Supervision, found: NodeList, *, yes: bool, as_json: bool, named: bool) -> None:
    from elastune.views.terminal.lists import render_nodes, render_swept  # noqa: PLC0415

    orphans = found.orphans
    if not as_json:
        show(render_nodes(found))
        sys.stdout.flush()
    if orphans and not yes:
        if as_json or not sys.stdin.isatty():
            raise JobError("nodes would be ended, and nobody is there to be asked; say --yes if they may")
        typer.confirm(f"End {len(orphans)} of these, the orphans?", abort=True)
    swept = wardens.end(orphans)
    left = swept.left
    if as_json:
        told = [node.to_dict(left.at) for node in left.nodes]
        typer.echo(json.dumps({**found.to_dict(), "ended": list(swept.ended), "left": told}, indent=2))
    elif orphans:
        typer.echo()
        show(render_swept(swept))
    # What could not be looked at may be alive, unless there never was such a provider here.
    blind = any(named or not each.is_absent for each in (*found.unseen, *left.unseen))
    if left.nodes or blind:
        raise typer.Exit(ExecutionError.exit_code)
