"""What the pages of large runs showed when they were over, because a journal of a million rows takes seconds
to replay.

The process that ran a large run keeps its page beside the journal; a dashboard keeps in the user's home those
that it had to make itself. A page is kept with the hash of the journal it was made from, so it is never that
of another state.
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from pathlib import Path

from elastune.core.core import Core
from elastune.errors import ElastuneError
from elastune.journal.records import JournalHead
from elastune.journal.run_folders import FoundRun
from elastune.journal.store import Journal
from elastune.user_home import user_home
from elastune.views.page.follower import RunFollower
from elastune.views.page.run_page import PARTS, Page, page_of

# Smaller journals are replayed in less than a second; a process that ran one keeps its page if it is larger.
LARGE_EVENTS = 2_000
AT_END_EVENTS = 10_000
_MOST_KEPT = 32
_MOST_BYTES = 200_000_000
# Another number whenever a page has other parts.
_FORMAT = 4


def read_kept(found: FoundRun, head: JournalHead) -> Page | None:
    if head.events < LARGE_EVENTS:
        return None
    paths = (_beside(found), _at_home(found, head))
    return next((page for path in paths if path is not None and (page := _read(path, head))), None)


def keep(found: FoundRun, head: JournalHead, page: Page) -> None:
    """For the user alone. Where the home cannot be written, the next dashboard replays the run again."""
    path = _at_home(found, head)
    if path is None or head.events < LARGE_EVENTS:
        return
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(path, head, page)
        for old in sorted(path.parent.glob("*.json"), key=lambda each: each.stat().st_mtime)[:-_MOST_KEPT]:
            old.unlink(missing_ok=True)


def keep_at_end(found: FoundRun, core: Core) -> None:
    """By the process that ran it, whose core is at the end of the journal. A run never fails for its page."""
    if core.state.events < AT_END_EVENTS or core.state.ended is None:
        return
    with suppress(OSError, ElastuneError):
        follower = RunFollower(found, core=core)
        moment = follower.look()
        if moment.is_whole and moment.writer is None:
            head = Journal.open(found.journal, read_only=True).summary(found.record.run).head
            _write(_beside(found), head, page_of(follower, moment))


def _beside(found: FoundRun) -> Path:
    return found.folder.report / f"page-{found.record.run}.json"


def _at_home(found: FoundRun, head: JournalHead) -> Path | None:
    home = user_home()
    name = f"{found.record.run}-{head.sha256[:24]}-{_FORMAT}.json"
    return None if home is None else home / "dashboard-pages" / name


def _write(path: Path, head: JournalHead, page: Page) -> None:
    """Under another name first: a page is there as a whole, or not."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump({"format": _FORMAT, "sha256": head.sha256, "page": page}, file, separators=(",", ":"))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _read(path: Path, head: JournalHead) -> Page | None:
    """A link may lead anywhere, so none is followed; a page that another user wrote is not believed."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return None
            kept = json.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    match kept:
        case {"format": int(form), "sha256": str(sha256), "page": dict(page)}:
            is_whole = all(isinstance(page.get(name), dict) for name in PARTS)
            return page if (form, sha256) == (_FORMAT, head.sha256) and is_whole else None
    return None
