"""What a Python caller sees of a run while it waits: lines on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable

from elastune.runs.live import LineLog, Watches
from elastune.runs.real import Watch


def watching(watch: Watch | None, progress: bool | None) -> Watch | None:
    """`progress` None: lines where somebody looks, at a terminal or in a notebook, and has no watch."""
    if progress is None:
        progress = watch is None and _is_looked_at()
    log = LineLog(_write) if progress else None
    return Watches(watch, log) if watch is not None and log is not None else watch or log


def said(watch: Watch | None) -> Callable[[str], None]:
    """A way to tell people something, where they have not asked for silence."""
    return _write if isinstance(watch, LineLog | Watches) or _is_looked_at() else lambda _: None


def _is_looked_at() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def _write(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
