"""What a plan leads to: samples of its completion time and its cost, and their summary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elastune.profiles.distributions import Array


@dataclass(frozen=True, slots=True)
class Outcome:
    """Per sample: job completion time and cost; per stage: means."""

    jct_s: Array
    cost_usd: Array
    stage_mean_s: tuple[float, ...]
    stage_mean_usd: tuple[float, ...]

    @property
    def mean_jct_s(self) -> float:
        return float(self.jct_s.mean())

    @property
    def mean_cost_usd(self) -> float:
        return float(self.cost_usd.mean())

    def jct_quantile_s(self, probability: float) -> float:
        return quantile(self.jct_s, probability)

    def cost_quantile_usd(self, probability: float) -> float:
        return quantile(self.cost_usd, probability)


def quantile(values: Array, probability: float) -> float:
    """The smallest value that at least this share of the samples does not exceed."""
    return float(np.quantile(values, probability, method="inverted_cdf"))
