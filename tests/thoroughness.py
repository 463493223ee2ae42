"""How many examples a test tries: few by default, many with `make test-all`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings


def examples(default: int, explore: int) -> settings:
    is_thorough = settings.get_current_profile_name() == "explore"
    return settings(max_examples=explore if is_thorough else default)


def most_telling(
    argument: str, *values: object, quick: int, ids: Callable[[Any], str] | None = None
) -> pytest.MarkDecorator:
    """The first `quick` by default, all with `make test-all`."""
    slow = [pytest.param(value, marks=pytest.mark.slow) for value in values[quick:]]
    return pytest.mark.parametrize(argument, [*values[:quick], *slow], ids=ids)
