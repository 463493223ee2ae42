"""What an error of a trial says in one line, and when two of them are the same but for their numbers."""

from __future__ import annotations

import itertools
import re

_TRACEBACK = "Traceback (most recent call last):\n"
_NUMBER = re.compile(r"\d+(\.\d+)?")


def exception_line(error: str) -> str:
    """Type and message of the exception that a traceback ends with; of another text, its first line.

    A message may have many lines; the first one that says something is told.
    """
    _, mark, frames = error.strip().rpartition(_TRACEBACK)
    lines = [line.rstrip() for line in frames.splitlines() if line.strip()]
    if mark:
        lines = list(itertools.dropwhile(lambda line: line.startswith(" "), lines)) or lines
    if len(lines) > 1 and lines[0].endswith(":"):
        return f"{lines[0]} {lines[1].strip()}"
    return lines[0] if lines else ""


def gist(error: str) -> str:
    """The same for errors that differ in numbers only."""
    return _NUMBER.sub("#", exception_line(error))
