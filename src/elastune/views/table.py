"""A table as a value, and how it is drawn on a terminal; `html.markup` draws the same value on pages.

A builder lists its columns: a title, the value of a row, its format, the total. To add a column to a report,
add a line to the builder of its table. On a terminal, columns are dropped where there is no room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Generic, TypeVar

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table as Grid
from rich.text import Text

from elastune.wording import format_usd

R = TypeVar("R")
Piece = tuple[str, str]
"""A text and its style on a terminal."""


class Tone(Enum):
    """The emphasis of a cell or a row. On pages the value is a class of the style sheet."""

    PLAIN = ""
    STRONG = "strong"
    MUTED = "muted"
    GOOD = "good"
    BEST = "best"
    WARN = "warn"
    BAD = "bad"
    ACTIVE = "active"


@dataclass(frozen=True, slots=True)
class Cell:
    """`number`: the sort key on pages. `detail`: a second line, on pages. `pieces`: the text on terminals."""

    text: str
    tone: Tone = Tone.PLAIN
    number: float | None = None
    detail: str | None = None
    pieces: tuple[Piece, ...] = ()


Value = Cell | str | int | float | None


def format_count(value: float) -> str:
    return f"{value:,}"


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """`value` takes the record of a row; `show` formats numbers; None is blank, text stays as it is."""

    title: str
    value: Callable[[R], Value]
    show: Callable[[Any], str] = format_count
    total: Value = None
    is_text: bool = False  # left-aligned
    tone: Tone = Tone.PLAIN
    min_width: int | None = None
    max_width: int | None = None
    narrow_width: int | None = None  # replaces `max_width` once columns were dropped
    wraps: bool = False
    leaves: int = 0
    """Without room, columns with 1 are dropped first, then those with 2, and so on; 0: never dropped."""
    is_drawn: bool = False  # a drawing of characters, for terminals that have them

    def cell(self, value: Value) -> Cell:
        match value:
            case Cell():
                return value if value.tone is not Tone.PLAIN else replace(value, tone=self.tone)
            case None:
                return Cell("", self.tone)
            case str():
                return Cell(value, self.tone)
            case _:
                return Cell(self.show(value), self.tone, float(value))


@dataclass(frozen=True, slots=True)
class TableRow:
    """Cells for the first columns; the others are blank."""

    cells: tuple[Cell, ...]
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    columns: tuple[Column[Any], ...]
    rows: tuple[TableRow, ...]
    total: TableRow | None = None
    title: str = ""
    notes: tuple[str, ...] = ()
    gap: int = 2  # blanks between columns, on terminals; one once columns were dropped
    has_head: bool = True  # on terminals; pages always name their columns
    is_sortable: bool = False

    @property
    def all_rows(self) -> tuple[TableRow, ...]:
        return self.rows if self.total is None else (*self.rows, self.total)

    def without_money(self) -> Table:
        """For what costs nothing."""
        return self.of_columns(lambda column: column.show is not format_usd)

    def of_columns(self, keeps: Callable[[Column[Any]], bool]) -> Table:
        """The same with fewer columns."""
        kept = [number for number, column in enumerate(self.columns) if keeps(column)]

        def cut(row: TableRow) -> TableRow:
            return replace(row, cells=tuple(row.cells[number] for number in kept if number < len(row.cells)))

        return replace(
            self,
            columns=tuple(self.columns[number] for number in kept),
            rows=tuple(map(cut, self.rows)),
            total=None if self.total is None else cut(self.total),
        )


def make_table(
    columns: Iterable[Column[R]],
    records: Iterable[R],
    *,
    tone: Callable[[R], Tone] = lambda _: Tone.PLAIN,
    has_total: bool = False,
    **options: Any,
) -> Table:
    """A row for each record. `options` are fields of `Table`."""
    listed = tuple(columns)
    rows = tuple(
        TableRow(tuple(column.cell(column.value(record)) for column in listed), tone(record))
        for record in records
    )
    total = (
        TableRow(tuple(column.cell(column.total) for column in listed), Tone.STRONG) if has_total else None
    )
    return Table(columns=listed, rows=rows, total=total, **options)


STYLES = {
    Tone.PLAIN: "", Tone.STRONG: "bold", Tone.MUTED: "dim", Tone.GOOD: "green",
    Tone.BEST: "bold green", Tone.WARN: "yellow", Tone.BAD: "bold red", Tone.ACTIVE: "cyan",
}  # fmt: skip


def terminal_table(table: Table) -> RenderableType:
    """With its title above and its notes below."""
    parts: list[RenderableType] = [Text(table.title, "bold")] if table.title else []
    parts.append(FirstThatFits(table))
    parts += [Text(note, "dim") for note in table.notes]
    return Group(*parts) if len(parts) > 1 else parts[0]


class FirstThatFits:
    """A table that drops columns until it fits."""

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
    """A label and a text on each line."""
    rows = Grid.grid(padding=(0, 2))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column(overflow="fold")
    for name, text in facts:
        rows.add_row(name, Text(text) if isinstance(text, str) else text)
    return rows


def titled(title: str, content: RenderableType) -> Group:
    return Group(Text(title, style="bold"), content)


def stacked(parts: Iterable[RenderableType]) -> Group:
    """One below the other, with a blank line between."""
    return Group(*[line for part in parts for line in ("", part)][1:])
