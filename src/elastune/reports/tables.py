"""The look of all tables: no lines, numbers to the right, dim headers."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text


def number_table(columns: Iterable[str], *, left: Iterable[str] = (), gap: int = 2) -> Table:
    """`left` are the columns of words."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, gap, 0, 0))
    words = set(left)
    for column in columns:
        table.add_column(column, justify="left" if column in words else "right", no_wrap=True)
    return table


def fact_table() -> Table:
    """A word and what there is to say about it."""
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column(overflow="fold")
    return rows


def titled(title: str, content: RenderableType) -> Group:
    return Group(Text(title, style="bold"), content)


def stacked(parts: Iterable[RenderableType]) -> Group:
    """One below the other, with a blank line between."""
    return Group(*[line for part in parts for line in ("", part)][1:])


class WiderIfRoom:
    """One of two renderings, by the room there is."""

    def __init__(self, wide: RenderableType, narrow: RenderableType) -> None:
        self.wide = wide
        self.narrow = narrow

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        unbounded = options.update(max_width=10_000)
        fits = Measurement.get(console, unbounded, self.wide).maximum <= options.max_width
        yield self.wide if fits and not options.ascii_only else self.narrow


class FirstThatFits:
    """Of several renderings, the widest first, the first for which there is room; else the last."""

    def __init__(self, *renderings: RenderableType) -> None:
        self.renderings = renderings

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        unbounded = options.update(max_width=10_000)
        for rendering in self.renderings[:-1]:
            if Measurement.get(console, unbounded, rendering).maximum <= options.max_width:
                yield rendering
                return
        yield self.renderings[-1]
