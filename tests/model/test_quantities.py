"""How durations, money, sizes and numbers are written."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.model import quantities
from elastune.model.quantities import ExpectedError

NEVER_A_QUANTITY = [True, False, None, "", " ", "abc", [], {}, object(), math.nan, math.inf, -math.inf,
                    "nan", "inf", "1e999", 10**400, "9" * 5000, "1 2", "0x10", "1_000", "１２"]  # fmt: skip


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (0, 0.0), (90, 90.0), (1.5, 1.5), ("90", 90.0), ("1e-3", 0.001), ("90s", 90.0), ("20m", 1200.0),
        ("1h30m", 5400.0), ("1.5h", 5400.0), ("250ms", 0.25), ("2d", 172800.0), ("1m30s", 90.0),
        ("1h 30m", 5400.0), (" 20 m ", 1200.0), ("1d2h3m4s5ms", 93784.005), ("1e-3s", 0.001), (".5s", 0.5),
        (np.float64(2.5), 2.5), (np.int64(3), 3.0), ("0s", 0.0),
    ],
)  # fmt: skip
def test_a_duration_is_seconds_or_says_its_unit(written: object, seconds: float) -> None:
    assert quantities.duration(written) == pytest.approx(seconds, rel=1e-15)


@pytest.mark.parametrize(
    "written", [*NEVER_A_QUANTITY, -1, "-5m", "20 parsecs", "30s1m", "5m5m", "1h-5m", "s", "20M", "$3", 1e10]
)
def test_what_is_no_duration_is_refused_with_examples(written: object) -> None:
    with pytest.raises(ExpectedError, match=r"such as 90s, 20m, 1h30m or 250ms"):
        quantities.duration(written)


@pytest.mark.parametrize("written", ["1:30", "20:00", "01:30:00"])
def test_a_duration_with_a_colon_is_ambiguous(written: str) -> None:
    with pytest.raises(ExpectedError, match="write 1m30s or 1h30m"):
        quantities.duration(written)


@pytest.mark.parametrize("written", [0, "0s", 0.0])
def test_a_positive_duration_is_not_zero(written: object) -> None:
    with pytest.raises(ExpectedError, match="a positive duration"):
        quantities.positive_duration(written)


@pytest.mark.parametrize(
    ("written", "usd"),
    [
        ("$30", 30.0), (30, 30.0), (30.5, 30.5), ("30", 30.0), ("$1,200", 1200.0), ("30 USD", 30.0),
        ("$ 30", 30.0), ("1,234,567.89", 1234567.89), ("$.5", 0.5), ("30usd", 30.0), ("1e2", 100.0), (0, 0.0),
    ],
)  # fmt: skip
def test_money_is_dollars_however_written(written: object, usd: float) -> None:
    assert quantities.money(written) == usd


@pytest.mark.parametrize(
    "written", [*NEVER_A_QUANTITY, -1, "-$5", "$-5", "€30", "30 EUR", "$1,20", "12,00", "$", "20m", 1e15]
)
def test_what_is_no_money_is_refused_with_examples(written: object) -> None:
    with pytest.raises(ExpectedError, match=r"such as \$30, 30\.5, \$1,200 or 30 USD"):
        quantities.money(written)


def test_a_positive_amount_is_not_zero() -> None:
    with pytest.raises(ExpectedError, match="a positive amount"):
        quantities.positive_money("$0")


@pytest.mark.parametrize(
    ("written", "gb"),
    [
        (150, 150.0), ("150", 150.0), ("150GB", 150.0), ("150MB", 0.15), ("1.5TB", 1500.0),
        ("10GiB", 10.73741824), ("1 MiB", 0.001048576), ("5gb", 5.0), ("500kB", 0.0005), (0, 0.0),
    ],
)  # fmt: skip
def test_a_size_is_gigabytes_or_says_its_unit(written: object, gb: float) -> None:
    assert quantities.size_gb(written) == pytest.approx(gb, rel=1e-15)


@pytest.mark.parametrize("written", [*NEVER_A_QUANTITY, -1, "-1GB", "150 G", "150Gb/s", "GB", "1GB2MB"])
def test_what_is_no_size_is_refused_with_examples(written: object) -> None:
    with pytest.raises(ExpectedError, match="such as 150GB, 500MB or 10GiB"):
        quantities.size_gb(written)


@pytest.mark.parametrize("written", [*NEVER_A_QUANTITY, 0, 1, -0.5, 95, "95%"])
def test_a_probability_is_between_zero_and_one(written: object) -> None:
    with pytest.raises(ExpectedError, match="above 0 and below 1"):
        quantities.probability(written)


@pytest.mark.parametrize(("written", "number"), [(3, 3), (3.0, 3), ("3", 3), ("3.0", 3), (np.int32(7), 7)])
def test_a_whole_number_may_be_written_in_several_ways(written: object, number: int) -> None:
    assert quantities.whole(written, least=1, most=10) == number


@pytest.mark.parametrize("written", [*NEVER_A_QUANTITY, 0, 11, 2.5, "2.5", -3])
def test_what_is_no_whole_number_within_the_bounds_is_refused(written: object) -> None:
    with pytest.raises(ExpectedError, match="a whole number from 1 to 10"):
        quantities.whole(written, least=1, most=10)


def _format(parts: tuple[int, int, int, int, int]) -> str:
    written = (f"{n}{unit}" for n, unit in zip(parts, ("d", "h", "m", "s", "ms"), strict=True) if n)
    return "".join(written) or "0"


counts = st.integers(0, 5000)


@given(st.tuples(counts, counts, counts, counts, counts))
def test_a_duration_that_was_formatted_is_parsed_again(parts: tuple[int, int, int, int, int]) -> None:
    days, hours, minutes, secs, millis = parts
    total_ms = (((days * 24 + hours) * 60 + minutes) * 60 + secs) * 1000 + millis
    assert quantities.duration(_format(parts)) == pytest.approx(total_ms / 1000, rel=1e-12)


@given(st.floats(0, 1e9))
def test_a_number_written_out_in_full_is_the_same_number(amount: float) -> None:
    assert quantities.duration(repr(amount)) == amount
    assert quantities.duration(f"{amount!r}s") == amount
    assert quantities.money(repr(amount)) == amount


@given(st.one_of(st.text(), st.text(alphabet="0123456789.eE+-dhms $,:USDGiB")))
def test_any_text_is_a_quantity_or_refused(text: str) -> None:
    for parse in (quantities.duration, quantities.money, quantities.size_gb, quantities.spread):
        with contextlib.suppress(ExpectedError):
            assert 0 <= parse(text) <= 1e12
