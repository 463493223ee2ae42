"""Faults of a simulated cloud, and the random draws that decide when they happen.

Every draw is numbered: the queueing of request 3, the boot of node 17. It depends only on the seed, its kind
and that number, not on the order of calls. So the same run gets the same faults, and a run that differs late
gets the same faults until then.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from elastune.errors import JobError
from elastune.model.cluster import SECONDS_PER_HOUR, ClusterTerms
from elastune.model.distributions import Array, Distribution, is_constant

_BLOCK = 64
"""Draws made at once. Seeding a generator costs 15 us, the draws after that next to nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFaults:
    """The rates of faults; by default there are none."""

    lost_per_hour: float = 0.0
    """Rate at which a node vanishes without notice, from the start of its INIT on."""
    noticed_per_hour: float = 0.0
    """Rate at which a node gets a notice; it vanishes `notice_s` later."""
    notice_s: float = 120.0
    refused: float = 0.0
    """Probability that a request is not granted in full: half of these are refused wholly, the other half get
    some of their nodes, at least one, each number equally likely. One node is all or nothing."""
    boot_failure: float = 0.0
    """Probability that a node never becomes ready. It boots, and is billed, until it is released."""
    straggler: float = 0.0
    """Probability that a node is slow."""
    straggler_factor: float = 3.0
    """How many times as long a slow node takes. Its boot is not affected."""
    dearer: float = 0.0
    """Probability that a node costs `most_price_per_hour`, where the cluster has one (another market)."""
    capacity: int | None = None
    """The most nodes that the provider has for us at a time; the rest of a request is refused."""

    def __post_init__(self) -> None:
        for name in ("refused", "boot_failure", "straggler", "dearer"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise JobError(f"faults: {name} is {getattr(self, name)}, expected a probability from 0 to 1")
        for name in ("lost_per_hour", "noticed_per_hour", "notice_s"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise JobError(f"faults: {name} is {getattr(self, name)}, expected 0 or more")
        if not 1.0 <= self.straggler_factor < math.inf:
            raise JobError(f"faults: straggler_factor is {self.straggler_factor}, expected 1 or more")
        if self.capacity is not None and self.capacity < 0:
            raise JobError(f"faults: capacity is {self.capacity}, expected 0 or more nodes, or none")


class _FaultKind(enum.IntEnum):
    """The independent random streams. Numbers are part of the seed: never reuse one."""

    QUEUE = 1
    INIT = 2
    LOSS = 3
    NOTICE = 4
    REFUSAL = 5
    PART = 6
    BOOT_FAILURE = 7
    STRAGGLER = 8
    DEARER = 9


class Luck:
    """The numbered draws of one simulated cloud. Certain outcomes are not drawn."""

    def __init__(self, terms: ClusterTerms, faults: NodeFaults, *, seed: int) -> None:
        self._terms = terms
        self._faults = faults
        self._seed = seed
        self._blocks: dict[tuple[_FaultKind, int], Array] = {}

    def queue_s(self, request: int) -> float:
        return self._latency(self._terms.queue, _FaultKind.QUEUE, request)

    def boot_s(self, node: int) -> float:
        """Infinite if the boot fails."""
        if self._happens(self._faults.boot_failure, _FaultKind.BOOT_FAILURE, node):
            return math.inf
        return self._latency(self._terms.init, _FaultKind.INIT, node)

    def granted(self, request: int, asked: int) -> int:
        """How many of the nodes asked for are not refused at random."""
        if not self._happens(self._faults.refused, _FaultKind.REFUSAL, request):
            return asked
        part = 2.0 * self._uniform(_FaultKind.PART, request) - 1.0
        return 0 if asked == 1 or part < 0.0 else 1 + int(part * (asked - 1))

    def lost_after_s(self, node: int) -> float:
        return self._wait_s(self._faults.lost_per_hour, _FaultKind.LOSS, node)

    def noticed_after_s(self, node: int) -> float:
        return self._wait_s(self._faults.noticed_per_hour, _FaultKind.NOTICE, node)

    def slowdown(self, node: int) -> float:
        slow = self._happens(self._faults.straggler, _FaultKind.STRAGGLER, node)
        return self._faults.straggler_factor if slow else 1.0

    def usd_per_hour(self, node: int) -> float | None:
        """None: the usual price."""
        dearer = self._happens(self._faults.dearer, _FaultKind.DEARER, node)
        return self._terms.most_price_per_hour if dearer else None

    def _latency(self, latency: Distribution, kind: _FaultKind, number: int) -> float:
        return latency.mean if is_constant(latency) else self._draw(latency.draw, kind, number)

    def _happens(self, probability: float, kind: _FaultKind, number: int) -> bool:
        return probability > 0.0 and self._uniform(kind, number) < probability

    def _wait_s(self, per_hour: float, kind: _FaultKind, number: int) -> float:
        if per_hour == 0.0:
            return math.inf
        return -math.log1p(-self._uniform(kind, number)) * SECONDS_PER_HOUR / per_hour

    def _uniform(self, kind: _FaultKind, number: int) -> float:
        return self._draw(lambda rng, shape: rng.random(shape), kind, number)

    def _draw(
        self, draw: Callable[[np.random.Generator, tuple[int, ...]], Array], kind: _FaultKind, number: int
    ) -> float:
        block, place = divmod(number, _BLOCK)
        if (kind, block) not in self._blocks:
            rng = np.random.default_rng((self._seed, kind, block))
            self._blocks[kind, block] = draw(rng, (_BLOCK,))
        return float(self._blocks[kind, block][place])
