"""How long things take in a simulated run.

Draws are seeded by what they belong to (a gang, a barrier), never by the order in which they are asked for.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

import numpy as np

from elastune.place import Gang, TrialId
from elastune.profiles import Distribution, Profile, is_constant


class _Kind(enum.IntEnum):
    """Names the independent random streams. Numbers are part of the seed: never reuse one."""

    GANG = 101
    BARRIER = 102


class GangPace:
    """The luck of one gang: a factor for its configuration in this stage, and noise per iteration."""

    def __init__(self, profile: Profile, entropy: tuple[int, ...], factor: float) -> None:
        self._profile = profile
        self._rng: np.random.Generator | None = None
        self._entropy = entropy
        self.factor = factor
        """Seconds of this gang per second at one slot."""
        if profile.spread:
            self.factor *= float(profile.spread_factor.draw(self._random, ()))
        self._noisy = not is_constant(profile.iteration)

    def startup_s(self, *, loads: bool) -> float:
        return self._draw(self._profile.startup) + (self._profile.transfer_s if loads else 0.0)

    def save_s(self) -> float:
        return self._draw(self._profile.save) + self._profile.transfer_s

    def iterations_s(self, count: int) -> list[float]:
        """The next iterations by the profile."""
        if not self._noisy:
            return [self._profile.iteration.mean * self.factor] * count
        drawn = self._profile.iteration.draw(self._random, (count,)) * self.factor
        return [float(seconds) for seconds in drawn]

    @property
    def expected_s(self) -> float:
        """What the gang itself would expect of its next iteration."""
        return self._profile.iteration.mean * self.factor

    def _draw(self, latency: Distribution) -> float:
        return latency.mean if is_constant(latency) else float(latency.draw(self._random, ()))

    @property
    def _random(self) -> np.random.Generator:
        if self._rng is None:
            self._rng = np.random.default_rng(self._entropy)
        return self._rng


class Latencies:
    """`slowdown` tells how slow a node is; a gang is as slow as its slowest node."""

    def __init__(
        self,
        profile: Profile,
        *,
        seed: int,
        slots_per_node: int,
        scattered_factor: float,
        slowdown: Callable[[str], float],
    ) -> None:
        self._profile = profile
        self._seed = seed
        self._slots_per_node = slots_per_node
        self._scattered_factor = scattered_factor
        self._slowdown = slowdown

    def gang(self, trial: TrialId, generation: int, gang: Gang) -> GangPace:
        nodes = {slot.node for slot in gang}
        factor = max(self._slowdown(node) for node in nodes) / self._profile.speedup.at(len(gang))
        if len(nodes) > -(-len(gang) // self._slots_per_node):
            factor *= self._scattered_factor
        return GangPace(self._profile, (self._seed, _Kind.GANG, trial, generation), factor)

    def barrier_s(self, pool: int, stage: int) -> float:
        sync = self._profile.sync
        if is_constant(sync):
            return sync.mean
        rng = np.random.default_rng((self._seed, _Kind.BARRIER, pool, stage))
        return float(sync.draw(rng, ()))
