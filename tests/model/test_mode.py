"""Which of two values of a metric is better."""

from __future__ import annotations

import math

from elastune.model.metric import Mode


def test_better_is_strict_and_follows_the_mode() -> None:
    assert Mode.MAX.better(2.0, 1.0)
    assert not Mode.MAX.better(1.0, 2.0)
    assert not Mode.MAX.better(1.0, 1.0)
    assert Mode.MIN.better(1.0, 2.0)
    assert not Mode.MIN.better(2.0, 1.0)


def test_any_number_is_better_than_nan_and_nan_than_nothing() -> None:
    for mode in Mode:
        assert mode.better(-math.inf, math.nan)
        assert not mode.better(math.nan, 0.0)
        assert not mode.better(math.nan, math.nan)
