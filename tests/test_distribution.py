"""Tests that share something run in one process, and those that wait among those that compute."""

from __future__ import annotations

import os

import pytest

from tests.distribution import spread


@pytest.fixture(scope="module")
def shared() -> int:
    """Takes long to make, let us say."""
    return os.getpid()


@pytest.mark.parametrize("n", range(6))
def test_what_a_module_shares_is_made_once(
    n: int, shared: int, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("one process, or another distribution")
    made = tmp_path_factory.getbasetemp().parent / "made-in-process"
    if not made.exists():
        made.write_text(str(shared))
    assert int(made.read_text()) == shared


def test_what_waits_is_spread_among_the_others_and_through_before_them() -> None:
    items = [*"abcdefghij", *"XY"]
    found = "".join(spread(items, str.isupper))
    assert found == "XabcYdefghij"
    assert spread(list("abc"), str.isupper) == list("abc")
    assert spread(list("XY"), str.isupper) == list("XY")
