"""The nodes of runs on this machine: `python -m elastune.providers.remote.listing` prints them as JSON. With
names of nodes it ends these, and whatever they have left.

A driver asks this of other machines, so ages and leases are seconds, not times.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from elastune.providers.local.processes import NODE, kill, kill_all, started, tagged
from elastune.providers.remote.node import ENTRY, PREFIX, RegisteredNode

_LINGER_S = 8.0
"""A node that is told to end may take so long; then it is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentNode:
    """`left_s`: what is left of its lease; None: its program is gone, and only processes that it started are
    there."""

    node: str
    provider: str
    run: str
    job: str
    age_s: float
    left_s: float | None


def present_nodes() -> tuple[PresentNode, ...]:
    """Of this user."""
    return tuple(found for path, entry in registered_nodes() if (found := _look(path, entry)) is not None)


def end_nodes(names: Collection[str]) -> None:
    """Unknown ones are ignored."""
    chosen = [(path, entry) for path, entry in registered_nodes() if entry.node in names]
    for path, entry in chosen:
        if _is_up(path, entry):
            kill(entry.pid, signal.SIGTERM)
    until = time.monotonic() + _LINGER_S
    for path, entry in chosen:
        while _is_up(path, entry) and time.monotonic() < until:
            time.sleep(0.05)
        if _is_up(path, entry):
            kill(entry.pid)
        kill_all(NODE, entry.tag)
        shutil.rmtree(path, ignore_errors=True)


def registered_nodes() -> Iterator[tuple[Path, RegisteredNode]]:
    for path in sorted(Path("/tmp").glob(f"{PREFIX}*")):  # noqa: S108  see `RemoteNode`
        try:
            if path.stat().st_uid == os.getuid():
                yield path, RegisteredNode(**json.loads((path / ENTRY).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            continue  # just being made, or gone


def _is_up(path: Path, entry: RegisteredNode) -> bool:
    """A process that began after the folder was made has got the same number later."""
    since = started(entry.pid)
    try:
        return since is not None and since <= (path / ENTRY).stat().st_mtime + 2.0
    except OSError:
        return False


def _look(path: Path, entry: RegisteredNode) -> PresentNode | None:
    is_up = _is_up(path, entry)
    pids = [entry.pid] if is_up else tagged(NODE, entry.tag)
    since = min((at for pid in pids if (at := started(pid)) is not None), default=None)
    if since is None:
        shutil.rmtree(path, ignore_errors=True)
        return None
    return PresentNode(
        node=entry.node,
        provider=entry.provider,
        run=entry.run,
        job=entry.job,
        age_s=max(0.0, time.time() - since),
        left_s=entry.until - time.monotonic() if is_up else None,
    )


def main() -> None:
    if sys.argv[1:]:
        end_nodes(sys.argv[1:])
    else:
        sys.stdout.write(f"{json.dumps([asdict(node) for node in present_nodes()])}\n")


if __name__ == "__main__":
    main()
