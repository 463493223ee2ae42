"""Libraries that not everybody has installed."""

from __future__ import annotations

import importlib.util

from elastune.errors import JobError


def require(library: str, *, extra: str, what: str) -> None:
    """Complain before anything is read, not after it."""
    if importlib.util.find_spec(library) is None:
        raise JobError(f"{what} needs {library}: pip install 'elastune[{extra}]'")
