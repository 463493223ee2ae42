"""`elastune dashboard`: all runs in a browser."""

from typing import Annotated

import typer

from elastune.cli.terminal import DEFAULT_FOLDER, RunsFolder


def dashboard_command(
    host: Annotated[
        str, typer.Option(help="Listen on this address. The token is needed everywhere.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            help="Listen on this port.", min=0, max=65535, show_default="8642, or the next free one"
        ),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Show everything, change nothing.")] = False,
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser, if there is a screen.")
    ] = True,
    parent: Annotated[int | None, typer.Option(hidden=True)] = None,
    runs_folder: RunsFolder = DEFAULT_FOLDER,
) -> None:
    """Show runs in a browser: live, past, compared; ask for quotes, and change running ones."""
    from elastune.api.dashboard_process import require_dashboard  # noqa: PLC0415

    require_dashboard()
    from elastune.dashboard.server import serve  # noqa: PLC0415

    def say(address: str) -> None:
        if parent is not None:
            typer.echo(address)
            return
        typer.echo(f"dashboard at {address}\nCtrl-C ends it; runs go on")

    show = _open if open_browser and parent is None else None
    serve(runs_folder, host=host, port=port, read_only=read_only, say=say, show=show, parent=parent)


def _open(address: str) -> None:
    import os  # noqa: PLC0415
    import sys  # noqa: PLC0415
    import webbrowser  # noqa: PLC0415

    has_screen = (
        sys.platform in {"darwin", "win32"} or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    if has_screen and sys.stdout.isatty():
        webbrowser.open(address)
