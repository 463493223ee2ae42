"""Numbers as people read them."""

from __future__ import annotations

import pytest

from elastune.units import format_duration, format_percent, format_usd, plural


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, "0 ms"),
        (0.85, "850 ms"),
        (42.46, "42.5 s"),
        (59.96, "1m00s"),
        (946.2, "15m46s"),
        (3599.7, "1h00m"),
        (5400.0, "1h30m"),
        (86_399.0, "1d00h"),
        (180_000.0, "2d02h"),
    ],
)
def test_durations_have_two_units_at_most(seconds: float, expected: str) -> None:
    assert format_duration(seconds) == expected


@pytest.mark.parametrize(
    ("usd", "expected"), [(0.0, "$0.00"), (1234.5, "$1,234.50"), (0.0123, "$0.0123"), (0.5, "$0.50")]
)
def test_money_keeps_enough_digits(usd: float, expected: str) -> None:
    assert format_usd(usd) == expected


def test_shares_and_counts() -> None:
    assert format_percent(0.95) == "95%"
    assert format_percent(0.999) == "99.9%"
    assert plural(1, "node") == "1 node"
    assert plural(1200, "node") == "1,200 nodes"
