"""Tables on a terminal: no lines, numbers to the right, dim headers; columns leave where there is no room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table as Grid
from rich.text import Text

from elastune.reports.table import Cell, Table, Tone

STYLES = {
    Tone.PLAIN: "",
    Tone.STRONG: "bold",
    Tone.MUTED: "dim",
    Tone.GOOD: "green",
    Tone.BEST: "bold green",
    Tone.WARN: "yellow",
    Tone.BAD: "bold red",
    Tone.ACTIVE: "cyan",
}


def terminal_table(table: Table) -> RenderableType:
    """With its title above and its notes below."""
    parts: list[RenderableType] = [Text(table.title, "bold")] if table.title else []
    parts.append(FirstThatFits(table))
    parts += [Text(note, "dim") for note in table.notes]
    return Group(*parts) if len(parts) > 1 else parts[0]


class FirstThatFits:
    """A table with all columns for which there is room."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        unbounded = options.update(max_width=10_000)
        for grid in self._grids(ascii_only=options.ascii_only):
            if Measurement.get(console, unbounded, grid).maximum <= options.max_width:
                break
        yield grid

    def _grids(self, *, ascii_only: bool) -> Iterator[Grid]:
        table = self.table
        if ascii_only:
            table = table.of_columns(lambda column: not column.is_drawn)
        yield _grid(table)
        for step in sorted({column.leaves for column in table.columns} - {0}):
            yield _grid(_narrowed(table, step), is_narrow=True)


def _narrowed(table: Table, step: int) -> Table:
    return table.of_columns(lambda column: not 0 < column.leaves <= step)


def _grid(table: Table, *, is_narrow: bool = False) -> Grid:
    gap = 1 if is_narrow else table.gap
    grid = Grid(
        box=None, pad_edge=False, header_style="dim", padding=(0, gap, 0, 0), show_header=table.has_head
    )
    for column in table.columns:
        grid.add_column(
            column.title,
            justify="left" if column.is_text else "right",
            no_wrap=not column.wraps,
            overflow="fold" if column.wraps else "ellipsis",
            min_width=column.min_width,
            max_width=column.narrow_width if is_narrow else column.max_width,
        )
    for row in table.all_rows:
        grid.add_row(*map(_text, row.cells), style=STYLES[row.tone])
    return grid


def _text(cell: Cell) -> Text:
    return Text.assemble(*cell.pieces) if cell.pieces else Text(cell.text, STYLES[cell.tone])


def fact_table(facts: Iterable[tuple[str, str | Text]] = ()) -> Grid:
    """A word and what there is to say about it."""
    rows = Grid.grid(padding=(0, 2))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column(overflow="fold")
    for name, told in facts:
        rows.add_row(name, Text(told) if isinstance(told, str) else told)
    return rows


def titled(title: str, content: RenderableType) -> Group:
    return Group(Text(title, style="bold"), content)


def stacked(parts: Iterable[RenderableType]) -> Group:
    """One below the other, with a blank line between."""
    return Group(*[line for part in parts for line in ("", part)][1:])
