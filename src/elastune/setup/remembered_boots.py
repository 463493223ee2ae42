"""How long nodes took to boot in earlier runs of this user, for the quote of a job without `cluster.init`.

One small file per provider and options in the user's home. Nothing depends on it: without it, a quote takes
boots for instant, as the job file says.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from contextlib import suppress
from pathlib import Path

from elastune.job.cluster import ClusterSection
from elastune.model.distributions import Constant, Distribution
from elastune.providers.registry import is_elsewhere
from elastune.user_home import user_home

_MOST_RUNS = 10
"""The last ones: images, environments and file systems change."""


def remember_boots(cluster: ClusterSection, count: float, seconds: float) -> None:
    """After a run in which so many nodes took so many seconds together."""
    path = _path(cluster)
    if path is None or count <= 0.0:
        return
    known = _read(path)
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with suppress(OSError):  # a home that cannot be written
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(json.dumps([*known, [count, seconds]][-_MOST_RUNS:]), encoding="ascii")
        new.replace(path)


def remembered_boot(cluster: ClusterSection) -> Distribution | None:
    """Their mean; None: no node with these options has booted yet."""
    path = _path(cluster)
    runs = [] if path is None else _read(path)
    count = sum(each[0] for each in runs)
    return Constant(round(sum(each[1] for each in runs) / count, 1)) if count else None


def _path(cluster: ClusterSection) -> Path | None:
    home = user_home()
    if home is None or not is_elsewhere(cluster.provider):
        return None
    words = json.dumps([dict(cluster.options), cluster.slots_per_node], sort_keys=True, default=str)
    return home / "boots" / f"{cluster.provider}-{hashlib.sha256(words.encode()).hexdigest()[:16]}.json"


def _read(path: Path) -> list[tuple[float, float]]:
    try:
        found = json.loads(path.read_text(encoding="ascii"))
        return [(float(count), float(seconds)) for count, seconds in found]
    except (OSError, ValueError, TypeError):
        return []
