"""Lines for a screen that is drawn over and over: bars, cells of fixed width, sparklines.

A rich table measures every cell before it draws one; a few of them cost more than all the rest of a redraw.
Here the widths are known.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

_SPARKS = "▁▂▃▄▅▆▇█"

Piece = tuple[str, str]
"""A text and its style."""


def line(*pieces: Piece | str) -> Text:
    return Text.assemble(*pieces, no_wrap=True, overflow="ellipsis", end="")


def cell(text: str, width: int) -> str:
    """To the left; a negative width means to the right."""
    cut = text if len(text) <= abs(width) else f"{text[: abs(width) - 1]}…"
    return cut.rjust(-width) if width < 0 else cut.ljust(width)


def bar(share: float, cells: int, style: str, mark: float | None = None) -> list[Piece]:
    """Filled up to a share; the mark is where something is to be seen, in the filled part or beyond."""
    filled = round(min(1.0, max(0.0, share)) * cells)
    pieces = [("━" * filled, style), ("━" * (cells - filled), "bright_black")]
    if mark is None or not 0.0 <= mark <= 1.0:
        return pieces
    at = min(cells - 1, round(mark * cells))
    whole = "━" * at
    left = [(whole[:filled], style), (whole[filled:], "bright_black")]
    right = [("━" * max(0, filled - at - 1), style), ("━" * (cells - max(filled, at + 1)), "bright_black")]
    return [*left, ("┃", "bold white"), *right]


def small_bar(share: float, cells: int, style: str) -> list[Piece]:
    filled = round(min(1.0, max(0.0, share)) * cells)
    return [("█" * filled, style), ("░" * (cells - filled), "bright_black")]


def spark(values: Sequence[float], cells: int) -> str:
    """The last values, low to high within themselves."""
    shown = values[-cells:]
    low, high = min(shown, default=0.0), max(shown, default=0.0)
    top, span = len(_SPARKS) - 1, high - low
    marks = (_SPARKS[round((value - low) / span * top) if span else 0] for value in shown)
    return "".join(marks).rjust(cells)


def heading(title: str, told: str, width: int) -> Text:
    """A title, what there is to say beside it, and a rule to the edge."""
    begin = line((title, "bold"), ("  " if told else "", ""), (told, "dim"))
    begin.append(" ")
    begin.append("─" * max(0, width - begin.cell_len), "bright_black")
    return begin


def beside(left: Sequence[Text], right: Sequence[Text], width: int, gap: int = 3) -> list[Text]:
    """Two columns; the left one is so wide."""
    rows: list[Text] = []
    for number in range(max(len(left), len(right))):
        row = left[number].copy() if number < len(left) else line("")
        row.truncate(width, overflow="ellipsis", pad=True)
        if number < len(right):
            row.append(" " * gap)
            row.append_text(right[number])
        rows.append(row)
    return rows
