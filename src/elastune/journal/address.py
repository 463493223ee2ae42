"""Which database a path or URL means."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import make_url

from elastune.errors import JobError
from elastune.journal.backend import Backend
from elastune.journal.postgres import SCHEMES, open_server
from elastune.journal.sqlite import open_file


def open_backend(where: str | Path, *, read_only: bool, durable: bool) -> Backend:
    """A file's path, `sqlite:///PATH` or `postgresql://USER:PASSWORD@HOST/DATABASE`."""
    if isinstance(where, Path) or "://" not in where:
        return open_file(Path(where), read_only=read_only, durable=durable)
    scheme = where.partition("://")[0]
    try:
        url = make_url(where)
    except (sa.exc.ArgumentError, ValueError):
        # The text is not repeated: it may hold a password.
        raise JobError(
            f"the URL {scheme}://... of the journal cannot be read; expected postgresql://USER@HOST/DATABASE"
        ) from None
    if url.drivername in SCHEMES:
        return open_server(url, read_only=read_only, durable=durable)
    if url.drivername == "sqlite" and url.database not in (None, "", ":memory:"):
        return open_file(Path(str(url.database)), read_only=read_only, durable=durable)
    raise JobError(
        f"the journal is at {scheme}://...; expected the path of a file, sqlite:///PATH or "
        "postgresql://USER@HOST/DATABASE"
    )
