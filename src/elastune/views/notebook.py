"""Notebooks: whether there is one, its outputs, and what it shows. IPython is used where it is loaded."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Protocol, TypeVar

from rich.console import Console, RenderableType

T = TypeVar("T")
_FRAME = '<pre style="line-height:1.25;white-space:pre;overflow-x:auto;margin:0">{code}</pre>'


def is_notebook() -> bool:
    """Whether a kernel runs this process; a terminal with IPython is a terminal."""
    return "ipykernel" in sys.modules and "IPython" in sys.modules


class Output(Protocol):
    """Where HTML is shown, and what replaces it."""

    def update(self, html: str) -> None: ...


class CellOutput:
    """An output of the present cell."""

    def __init__(self) -> None:
        from IPython.display import HTML, display  # noqa: PLC0415

        self._made = HTML
        self._handle = display(HTML(""), display_id=True)

    def update(self, html: str) -> None:
        if self._handle is not None:
            self._handle.update(self._made(html))


def show_as_html(kind: type[T], render: Callable[[T], str]) -> None:
    """For types that know no HTML: from now on a notebook shows their values with `render`."""
    if not is_notebook():
        return
    from IPython import get_ipython  # noqa: PLC0415

    shell = get_ipython()
    if shell is not None:
        shell.display_formatter.formatters["text/html"].for_type(kind, render)


def terminal_html(*parts: RenderableType, width: int = 100) -> str:
    """As a terminal shows it. Nothing in the text becomes a tag."""
    file = io.StringIO()  # in a notebook, rich itself would display each line
    console = Console(
        file=file, record=True, width=width, force_terminal=True, force_jupyter=False, highlight=False
    )
    for part in parts:
        console.print(part, markup=False)
    return console.export_html(inline_styles=True, code_format=_FRAME)
