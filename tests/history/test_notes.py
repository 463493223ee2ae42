"""How errors are shown."""

from __future__ import annotations

import traceback

import pytest

from elastune.core.run_failure import exception_line


def raised(error: Exception, cause: Exception | None = None) -> str:
    error.__cause__ = cause
    try:
        exec("raise error")
    except Exception:  # noqa: BLE001
        return traceback.format_exc(limit=-3).strip()
    return ""


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (raised(ValueError("bad")), "ValueError: bad"),
        (raised(ValueError("bad\nworse\n  and so on")), "ValueError: bad"),
        (raised(ValueError("\n  bad\nworse")), "ValueError: bad"),
        (raised(KeyError()), "KeyError"),
        (raised(RuntimeError("shapes:\n(3, 4)")), "RuntimeError: shapes: (3, 4)"),
        (raised(ValueError("bad\nworse"), KeyError("x")), "ValueError: bad"),
        ("an injected fault", "an injected fault"),
        ("", ""),
    ],
)
def test_an_error_is_shown_by_its_type_and_the_first_line_of_its_message(error: str, shown: str) -> None:
    assert exception_line(error) == shown
