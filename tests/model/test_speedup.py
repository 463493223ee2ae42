"""Speed-ups between and beyond the measured points."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.errors import InvariantError
from elastune.model.profile import Speedup

MEASURED = Speedup.of({2: 1.89, 4: 3.63, 8: 6.67})


@pytest.mark.parametrize(
    ("slots", "expected"),
    [(1, 1.0), (2, 1.89), (3, 2.76), (4, 3.63), (6, 5.15), (8, 6.67), (9, 6.67), (512, 6.67)],
)
def test_it_is_linear_between_points_and_flat_beyond(slots: int, expected: float) -> None:
    assert MEASURED.at(slots) == pytest.approx(expected)


def test_nothing_measured_means_no_speedup() -> None:
    assert Speedup.of({}).at(8) == 1.0


@given(st.dictionaries(st.integers(2, 64), st.floats(0.1, 64.0), max_size=5), st.integers(1, 100))
def test_it_stays_within_the_measured_range(points: dict[int, float], slots: int) -> None:
    known = [1.0, *points.values()]
    assert min(known) - 1e-9 <= Speedup.of(points).at(slots) <= max(known) + 1e-9


def test_points_that_do_not_start_at_one_slot_are_refused() -> None:
    with pytest.raises(InvariantError):
        Speedup(((2, 1.9),))
