"""`elastune nodes`: running nodes and their cost; `--sweep` terminates orphans."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from elastune.cli.terminal import (
    DEFAULT_FOLDER,
    AsJson,
    RunsFolder,
    json_output,
    present,
    print_json,
    show,
)  # fmt: skip
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
    as_json: AsJson = False,
) -> None:
    """List running nodes of all runs and providers: age, price, cost so far, and whether a driver is alive.

    A node is an orphan if its lease is over, if it has none, or if its run is known here and has no driver.
    Nodes of runs that are unknown here are not touched while their lease is valid.
    """
    with json_output(as_json):
        from elastune.api.nodes import Supervision  # noqa: PLC0415

        supervision = Supervision(provider=provider, region=region, runs_folder=runs_folder)
        found = supervision.look(run)
        if sweep:
            _sweep(supervision, found, yes=yes, as_json=as_json, named=provider is not None)
            return
    from elastune.views.terminal.lists import render_nodes  # noqa: PLC0415

    present(found, render_nodes, as_json=as_json)
    if provider is not None and found.unseen:  # named, but not listed: "no nodes" would be wrong
        raise typer.Exit(ExecutionError.exit_code)


def _sweep(supervision: "Supervision", found: "NodeList", *, yes: bool, as_json: bool, named: bool) -> None:
    from elastune.views.terminal.lists import render_nodes, render_swept  # noqa: PLC0415

    orphans = found.orphans
    if not as_json:
        show(render_nodes(found))
        sys.stdout.flush()
    if orphans and not yes:
        if as_json or not sys.stdin.isatty():
            raise JobError("--sweep ends nodes, and there is no terminal to confirm on; pass --yes")
        typer.confirm(f"End {len(orphans)} of these, the orphans?", abort=True)
    swept = supervision.end(orphans)
    left = swept.left
    if as_json:
        still = [node.to_dict(left.at) for node in left.nodes]
        print_json({**found.to_dict(), "ended": list(swept.ended), "left": still})
    elif orphans:
        typer.echo()
        show(render_swept(swept))
    # Nodes of a provider that could not be listed may be running, unless it was never set up here.
    is_blind = any(named or not each.is_absent for each in (*found.unseen, *left.unseen))
    if left.nodes or is_blind:
        raise typer.Exit(ExecutionError.exit_code)
