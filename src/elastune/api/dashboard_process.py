"""The dashboard beside a run: in a process of its own, so that the run does no work for those who watch."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from elastune.errors import JobError

_NEEDED = ("starlette", "uvicorn", "plotly")


def require_dashboard(*, wanted: bool = True) -> None:
    """Raises `JobError` if it is wanted and a package is missing that only the dashboard needs."""
    if not wanted:
        return
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise JobError(
            f"the dashboard needs {', '.join(missing)}; install it with `pip install 'elastune[dashboard]'`"
        )


@contextlib.contextmanager
def dashboard_beside(folder: Path, *, wanted: bool = True) -> Iterator[None]:
    """While the block runs, a dashboard serves the runs of `folder`. Its address is written to stderr, also
    by a run that is otherwise quiet. It ends, too, if this process is killed."""
    if not wanted:
        yield
        return
    require_dashboard()
    process, address = _started(folder)
    try:
        sys.stderr.write(f"dashboard at {address}\n")
        sys.stderr.flush()
        yield
    finally:
        process.terminate()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _started(folder: Path) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "elastune", "dashboard", "--runs-folder", str(folder.absolute())]
    # A session of its own: Ctrl-C is for the run, which ends the dashboard when it has saved everything.
    process = subprocess.Popen(  # noqa: S603  our own command
        [*command, "--parent", str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    if not address:
        process.stdout.close()
        process.wait()
        raise JobError("the dashboard could not be started; `elastune dashboard` says why")
    return process, address
