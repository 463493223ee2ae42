"""Numbers as people read them."""

from __future__ import annotations

import pytest

from elastune.model.quantities import positive_duration
from elastune.wording import (
    format_confidence,
    format_duration,
    format_percent,
    format_usd,
    plural,
    write_duration,
)


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


@pytest.mark.parametrize(
    ("seconds", "expected"), [(852, "14m12s"), (43_169, "11h59m29s"), (7_200, "2h"), (0, "0s"), (60, "1m")]
)
def test_durations_can_be_written_into_a_job(seconds: float, expected: str) -> None:
    assert write_duration(seconds) == expected
    assert positive_duration(expected) == seconds if seconds else True


def test_shares_and_counts() -> None:
    assert format_percent(0.43412) == "43.4%"
    assert format_confidence(0.95) == "95%"
    assert format_confidence(0.99999) == "99.999%"
    assert plural(1, "node") == "1 node"
    assert plural(1200, "node") == "1,200 nodes"
