"""Quasi-random search: a sequence that fills the space more evenly than chance.

The sequences are those of scipy on which Optuna's `QMCSampler` is built. That one takes its points in the
order of asks and leaves choices to chance; here trial k has point k, whenever it is asked for, and choices
have a dimension like everything else.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from elastune.space.sampler import AnySpace
from elastune.space.space_sampler import ShareSampler

if TYPE_CHECKING:
    from scipy.stats.qmc import QMCEngine

Sequence = Literal["sobol", "halton"]
_BLOCK = 256
# So many points has the sequence of Sobol in scipy (30 bits); then it begins again.
_PERIOD = 2**30
# So close to 1 that no range and no choice is touched; scipy may round up to 1 itself.
_LAST = 1.0 - 2.0**-53


class QmcSampler(ShareSampler):
    """A scrambled sequence; the seed scrambles."""

    def __init__(self, space: AnySpace, *, seed: int, sequence: Sequence = "sobol") -> None:
        super().__init__(space, seed=seed)
        self._sequence = sequence
        self._block = lru_cache(maxsize=8)(self._points)

    def shares(self, trial: int) -> list[float]:
        if not self._count:
            return []
        block, place = divmod(trial % _PERIOD, _BLOCK)
        return self._block(block)[place]

    def _points(self, block: int) -> list[list[float]]:
        engine = self._engine()
        if block:
            engine.fast_forward(block * _BLOCK)
        points: list[list[float]] = engine.random(_BLOCK).clip(0.0, _LAST).tolist()
        return points

    def _engine(self) -> QMCEngine:
        # Half a second of imports that no other sampler needs.
        from scipy.stats import qmc  # noqa: PLC0415

        engine = qmc.Sobol if self._sequence == "sobol" else qmc.Halton
        return engine(d=self._count, scramble=True, rng=self._seed)
