"""What all sections of a job share: they are frozen and refuse keys that they do not know."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Callable, Iterable

from pydantic import BaseModel, ConfigDict

from elastune.job.quantities import ExpectedError

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60
_short.maxlevel = 2


class Section(BaseModel):
    """A mapping in the job. Each required field's description says what is expected there."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class MisfitError(ValueError):
    """Values that are fine by themselves do not go together. `path` leads to the one to look at."""

    def __init__(self, path: tuple[str, ...], text: str) -> None:
        super().__init__(text)
        self.path = path


def seen(value: object) -> str:
    """A value in a message, cut to a readable length however deep it is."""
    return "empty" if value is None else _short.repr(value)


def one_of(*allowed: str) -> Callable[[object], str]:
    """A parser for one of a few words."""

    def parse(value: object) -> str:
        if isinstance(value, str) and value in allowed:
            return value
        raise ExpectedError(f"{either(allowed)}{did_you_mean(value, allowed)}")

    return parse


def either(words: Iterable[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def nearest(word: object, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    by_lower = {name.lower(): name for name in known}
    lower = str(word).lower()[:60]
    beginnings = [name for name in by_lower if len(lower) > 2 and name.startswith(lower)]
    close = difflib.get_close_matches(lower, by_lower, n=1) or beginnings
    return by_lower[close[0]] if close else None


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """The question to add to a complaint, or nothing."""
    close = nearest(word, known) if isinstance(word, str) else None
    return f"; did you mean '{close}'?" if close else ""
