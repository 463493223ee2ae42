"""Where Elastune keeps what it knows about a user's runs."""

from __future__ import annotations

import os
from pathlib import Path

HOME_VARIABLE = "ELASTUNE_HOME"


def user_home() -> Path | None:
    """`$ELASTUNE_HOME`, or `elastune` in the user's data folder (XDG); None: the user has no home."""
    if named := os.environ.get(HOME_VARIABLE):
        return Path(named).expanduser().absolute()
    data = Path(os.environ.get("XDG_DATA_HOME") or ".")
    if data.is_absolute():  # XDG: other paths are to be ignored
        return data / "elastune"
    try:
        return Path.home() / ".local" / "share" / "elastune"
    except RuntimeError:
        return None
