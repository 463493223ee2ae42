"""Printing for people: nothing of what a run or a user wrote is taken for markup."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

_LEAST_WIDTH = 80


def show(renderable: RenderableType) -> None:
    from rich.console import Console  # noqa: PLC0415

    console = Console(highlight=False, markup=False, emoji=False)
    console.width = max(
        console.width, _LEAST_WIDTH
    )  # a narrower terminal wraps lines, it does not cut numbers
    console.print(renderable)
