"""The words of messages: values cut to a readable length, lists of choices, the word that was meant."""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Iterable

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60
_short.maxlevel = 2


def seen(value: object) -> str:
    """A value in a message, cut to a readable length however deep it is."""
    return "empty" if value is None else _short.repr(value)


def either(words: Iterable[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def several(words: Iterable[str], most: int = 12) -> str:
    """`a, b, c`, and how many more there are where the list would fill the screen."""
    listed = list(words)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more if listed else "none"


def nearest(word: object, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    by_lower = {name.lower(): name for name in known}
    lower = str(word).lower()[:60]
    beginnings = [name for name in by_lower if len(lower) > 2 and name.startswith(lower)]
    close = beginnings or difflib.get_close_matches(lower, by_lower, n=1)
    return by_lower[close[0]] if close else None


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """The question to add to a complaint, or nothing."""
    close = nearest(word, known) if isinstance(word, str) else None
    return f"; did you mean '{close}'?" if close else ""


_CREDENTIALS = re.compile(r"://[^/@\s]+@")


def without_secrets(text: str) -> str:
    """Addresses without the user and the password that may be in them: what others say goes into reports."""
    return _CREDENTIALS.sub("://", text)
