"""Latencies: moments, quantiles, draws and sums of draws."""

from __future__ import annotations

import numpy as np
import pytest

from elastune.model.distributions import (
    Constant,
    Distribution,
    Empirical,
    LogNormal,
    Normal,
    draw_sums,
    is_constant,
)

RANDOM = [
    Normal(10.0, 2.0),
    Normal(4.0, 10.0),
    LogNormal(10.0, 3.0),
    Empirical((1.0, 2.0, 2.5, 9.0)),
]


@pytest.mark.parametrize("latency", RANDOM, ids=repr)
def test_mean_and_deviation_are_those_of_the_draws(latency: Distribution) -> None:
    draws = latency.draw(np.random.default_rng(1), (400_000,))
    assert draws.min() >= 0
    assert draws.mean() == pytest.approx(latency.mean, rel=0.01)
    assert draws.std() == pytest.approx(latency.sd, rel=0.01)


@pytest.mark.parametrize("latency", RANDOM, ids=repr)
def test_quantiles_are_those_of_the_draws(latency: Distribution) -> None:
    draws = latency.draw(np.random.default_rng(2), (400_000,))
    levels = np.array([0.3, 0.6, 0.9, 0.99])
    assert latency.quantile(levels) == pytest.approx(np.quantile(draws, levels), rel=0.02, abs=0.02)


def test_a_clipped_normal_has_the_mean_of_what_is_left() -> None:
    assert Normal(4.0, 10.0).mean == pytest.approx(6.30, abs=0.01)
    assert Normal(60.0, 2.0).mean == pytest.approx(60.0)
    assert Normal(-5.0, 0.0).mean == 0.0


def test_a_constant_is_constant() -> None:
    assert is_constant(Constant(5.0))
    assert is_constant(Empirical((3.0, 3.0)))
    assert not is_constant(LogNormal(5.0, 0.1))
    assert Constant(5.0).quantile(np.array([0.1, 0.9])).tolist() == [5.0, 5.0]


@pytest.mark.parametrize("latency", RANDOM, ids=repr)
@pytest.mark.parametrize("count", [1, 7, 40, 300])
def test_sums_have_the_mean_and_the_variance_of_sums(latency: Distribution, count: int) -> None:
    sums = draw_sums(latency, np.random.default_rng(3), np.array([count, 0, count]), 40_000)
    assert sums[:, 1].tolist() == [0.0] * 40_000
    assert sums[:, 0].mean() == pytest.approx(count * latency.mean, rel=0.02)
    assert sums[:, 0].std() == pytest.approx(count**0.5 * latency.sd, rel=0.05)
    assert abs(np.corrcoef(sums[:, 0], sums[:, 2])[0, 1]) < 0.02


@pytest.mark.parametrize("count", [9, 64])
def test_a_log_normal_sum_drawn_at_once_has_the_quantiles_of_one_that_is_added_up(count: int) -> None:
    latency = LogNormal(10.0, 5.0)
    at_once = draw_sums(latency, np.random.default_rng(4), np.array([count]), 200_000)[:, 0]
    added = latency.draw(np.random.default_rng(5), (200_000, count)).sum(axis=1)
    levels = [0.05, 0.5, 0.95]
    assert np.quantile(at_once, levels) == pytest.approx(np.quantile(added, levels), rel=0.01)
