"""A PostgreSQL server of our own: a private folder, a socket in it, no port; it ends with the tests."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.waiting import PATIENCE_S, wait_until


class NoServerError(Exception):
    """Why there can be none on this machine."""


@contextlib.contextmanager
def running_server() -> Iterator[str]:
    """The URL of its database `postgres`; others are made by CREATE DATABASE."""
    binaries, user = _binaries(), _user()
    # Not pytest's folder: only its owner may look into that, and the server runs as another user.
    folder = Path(tempfile.mkdtemp(prefix="elastune-pg-"))
    try:
        if user:
            shutil.chown(folder, user)
        data = folder / "data"
        subprocess.run(
            [binaries / "initdb", "-D", data, "-U", "elastune", "-A", "trust", "-E", "UTF8", "--no-sync"],
            user=user, cwd=folder, check=True, capture_output=True, timeout=PATIENCE_S,
        )  # fmt: skip
        with _serving([binaries / "postgres", "-D", data, "-k", folder, "-h", "", "-F"], folder, user):
            yield f"postgresql://elastune@/postgres?host={folder}"
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def _serving(command: list[str | Path], folder: Path, user: str | None) -> Iterator[None]:
    log = folder / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(command, user=user, cwd=folder, stdout=output, stderr=output)
    try:

        def is_ready() -> bool:
            said = log.read_text(errors="replace")
            if server.poll() is not None:
                raise NoServerError(f"the server did not start: {said}")
            return "ready to accept connections" in said

        wait_until(is_ready, "the server does not start")
        yield
    finally:
        # SIGINT: end sessions and stop; SIGTERM would wait for clients to leave by themselves.
        server.send_signal(signal.SIGINT)
        server.wait(PATIENCE_S)


def _binaries() -> Path:
    found = shutil.which("initdb")
    installed = [Path(found).resolve().parent] if found else []
    installed += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in installed:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise NoServerError("no initdb in PATH or /usr/lib/postgresql/*/bin: install PostgreSQL's server")


def _user() -> str | None:
    """The server refuses to run as root."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        raise NoServerError("the tests run as root and there is no user postgres to run the server") from None
