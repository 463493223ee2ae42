"""A table as a value. What a table shows is said here once; `terminal`, `markup` and `live_tables` draw it.

A builder lists its columns: a title, the value of a row, how that is written, the total. A column more in a
report is a line more in the builder of its table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Generic, TypeVar

R = TypeVar("R")
Piece = tuple[str, str]
"""A text and its style on a terminal."""


class Tone(Enum):
    """How a cell or a row stands out. On pages the value is a class of the style sheet."""

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
    """What stands in a table: a text, and what can be made of it."""

    text: str
    tone: Tone = Tone.PLAIN
    number: float | None = None
    """By which pages sort."""
    detail: str | None = None
    """A second line below the text, on pages."""
    pieces: tuple[Piece, ...] = ()
    """On terminals, in place of the text."""


Value = Cell | str | int | float | None


def format_count(value: float) -> str:
    return f"{value:,}"


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """`value` takes the record of a row; `show` writes numbers; None is blank, text stays as it is."""

    title: str
    value: Callable[[R], Value]
    show: Callable[[Any], str] = format_count
    total: Value = None
    is_text: bool = False
    """To the left; numbers are to the right."""
    tone: Tone = Tone.PLAIN
    min_width: int | None = None
    max_width: int | None = None
    narrow_width: int | None = None
    """In place of `max_width` once columns had to leave."""
    wraps: bool = False
    leaves: int = 0
    """Where there is no room, columns with 1 leave first, then those with 2, and so on; 0: it stays."""
    is_drawn: bool = False
    """A drawing of characters, for terminals that have them."""

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
class Row:
    """Cells for the first columns; the others are blank."""

    cells: tuple[Cell, ...]
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    columns: tuple[Column[Any], ...]
    rows: tuple[Row, ...]
    total: Row | None = None
    title: str = ""
    notes: tuple[str, ...] = ()
    gap: int = 2
    """Blanks between columns, on terminals; one where columns had to leave."""
    has_head: bool = True
    """On terminals; pages always name their columns."""
    is_sortable: bool = False

    @property
    def all_rows(self) -> tuple[Row, ...]:
        return self.rows if self.total is None else (*self.rows, self.total)

    def of_columns(self, keeps: Callable[[Column[Any]], bool]) -> Table:
        """The same with fewer columns."""
        kept = [number for number, column in enumerate(self.columns) if keeps(column)]

        def cut(row: Row) -> Row:
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
        Row(tuple(column.cell(column.value(record)) for column in listed), tone(record)) for record in records
    )
    total = Row(tuple(column.cell(column.total) for column in listed), Tone.STRONG) if has_total else None
    return Table(columns=listed, rows=rows, total=total, **options)
