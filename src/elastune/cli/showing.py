"""Printing for people: nothing of what a run or a user wrote is taken for markup, and every terminal can
show it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

_LEAST_WIDTH = 80
# One character for one, so that columns stay where they are.
_PLAIN = str.maketrans("▁▂▃▄▅▆▇█▒▓▞·…±–×µ", "_.-=+*%#:%/.~~-xu")


def show(renderable: RenderableType) -> None:
    from rich.console import Console  # noqa: PLC0415

    console = Console(highlight=False, markup=False, emoji=False)
    # A narrower terminal wraps lines, it does not cut numbers.
    console.width = max(console.width, _LEAST_WIDTH)
    with console.capture() as capture:
        console.print(renderable, crop=False)
    sys.stdout.write(legible(capture.get(), sys.stdout.encoding))


def legible(text: str, encoding: str | None) -> str:
    """The text in characters that the encoding has."""
    name = encoding or "utf-8"
    try:
        text.encode(name)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(name, "backslashreplace").decode(name)
    return text
