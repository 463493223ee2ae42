"""Waiting for an event. The only bound is there to end a hang: no test waits for a time to pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 900.0
"""Far above what anything takes, also on a machine that does much else."""
SLOW_BOOT_S = 60.0
"""What the job of a real run says of a boot: a node that takes five times as long is given back. It takes
seconds, and on a busy machine more than a minute."""

T = TypeVar("T")


def wait_until(
    holds: Callable[[], T], what: str | Callable[[], object] = "it did not happen", *, every_s: float = 0.05
) -> T:
    """The first answer of `holds` that is true. `what` says what is missing if none comes."""
    give_up_s = time.monotonic() + PATIENCE_S
    while not (answer := holds()):
        assert time.monotonic() < give_up_s, what() if callable(what) else what
        time.sleep(every_s)
    return answer
