"""Rows as columns: what is counted in one step is what a loop over the rows counts."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from elastune.core.events import Row
from elastune.model.rows import Rows

VALUES = st.one_of(
    st.none(), st.integers(), st.floats(), st.just(math.nan), st.just(math.inf), st.just(10**400)
)


@given(st.lists(st.tuples(st.integers(1, 6), VALUES), max_size=6), st.integers(0, 3))
def test_columns_have_what_the_rows_have(given_rows: list[tuple[int, float | None]], before: int) -> None:
    listed = [Row(at, float(at), {} if value is None else {"x": value}) for at, value in given_rows]
    rows = Rows(listed, "x")
    assert rows.iterations == [row.iteration for row in listed]
    assert rows.times_s == [row.at_s for row in listed]
    assert [value is None for value in rows.values] == [not row.metrics for row in listed]
    follow = [row.iteration for row in listed] == [before + 1 + at for at in range(len(listed))]
    assert rows.follow(before) == (bool(listed) and follow)
    floats = [value for _, value in given_rows if isinstance(value, float) and math.isfinite(value)]
    if rows.finite:
        assert rows.finite == floats == rows.values


def test_numbers_too_large_to_add_up_are_looked_at_one_by_one() -> None:
    rows = Rows([Row(1, 0.0, {"x": 1.7e308}), Row(2, 1.0, {"x": 1.7e308})], "x")
    assert rows.values == [1.7e308, 1.7e308]
    assert rows.finite == []
