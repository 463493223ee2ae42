"""The index of a user's runs: where their folders are, so that a run is found from any folder.

One small file per run in the user's home, so that writers never share one. Nothing depends on the index: if
it cannot be written, runs are found only in the folder of runs. Entries of folders that are gone are removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
from contextlib import suppress
from pathlib import Path

from elastune.user_home import user_home

_SUFFIX = ".json"


def add_to_index(folder: Path) -> bool:
    """Whether the folder of a run is in the index now."""
    home = user_home()
    if home is None:
        return False
    path = str(folder.resolve())
    entry = _entry(home, path)
    part = entry.with_name(f".{entry.name}.{secrets.token_hex(4)}")
    try:
        if not entry.exists():
            entry.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps({"folder": path, "host": platform.node()}), encoding="ascii")
            part.replace(entry)
    except OSError:  # a home that cannot be written
        with suppress(OSError):
            part.unlink(missing_ok=True)
        return False
    return True


def indexed_paths() -> list[Path]:
    """The folders in the index that exist, in no order."""
    home = user_home()
    try:
        entries = [] if home is None else list((home / "runs").glob(f"*{_SUFFIX}"))
    except OSError:
        return []
    paths = []
    for entry in entries:
        try:
            written = json.loads(entry.read_text(encoding="ascii"))
            path, host = Path(written["folder"]), written["host"]
            is_there = path.is_dir()
        except (OSError, ValueError, TypeError, KeyError):  # removed meanwhile, or not one of ours
            continue
        if is_there:
            paths.append(path)
        elif _is_gone(path, host):
            with suppress(OSError):
                entry.unlink(missing_ok=True)
    return paths


def _is_gone(path: Path, host: str) -> bool:
    """For good: it is neither on another machine that shares the home, nor on a disk that is not mounted."""
    return host == platform.node() and path.parent.parent.is_dir()


def _entry(home: Path, path: str) -> Path:
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()
    return home / "runs" / f"{digest[:32]}{_SUFFIX}"
