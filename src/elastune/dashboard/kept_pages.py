"""What the pages of large runs showed when they were over, kept in the user's home: a journal of a million
rows takes a minute to replay, and half a second to open again.

A page is kept under the hash of the journal it was made from, so it is never that of another state.
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from pathlib import Path

from elastune import __version__
from elastune.dashboard.run_figures import Json
from elastune.journal.records import JournalHead
from elastune.user_home import user_home

# Smaller journals are replayed in less than a second.
LARGE_EVENTS = 2_000
_MOST_KEPT = 32
# Part of the name: other versions may show more.
_FORMAT = f"{__version__}-1"


def _folder() -> Path | None:
    home = user_home()
    return None if home is None else home / "dashboard-pages"


def _path(folder: Path, run: str, head: JournalHead) -> Path:
    return folder / f"{run}-{head.sha256[:24]}-{_FORMAT}.json"


def read_kept(run: str, head: JournalHead) -> dict[str, Json] | None:
    folder = _folder()
    if folder is None or head.events < LARGE_EVENTS:
        return None
    try:
        kept = json.loads(_path(folder, run, head).read_bytes())
    except (OSError, ValueError):
        return None
    return kept if isinstance(kept, dict) else None


def keep(run: str, head: JournalHead, page: dict[str, Json]) -> None:
    """For the user alone. Where the home cannot be written, the next dashboard replays the run again."""
    folder = _folder()
    if folder is None or head.events < LARGE_EVENTS:
        return
    path = _path(folder, run, head)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(page, file, separators=(",", ":"))
        part.replace(path)
        for old in sorted(folder.glob("*.json"), key=lambda each: each.stat().st_mtime)[:-_MOST_KEPT]:
            old.unlink(missing_ok=True)
