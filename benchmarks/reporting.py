"""Tables and figures of a benchmark: printed for people, written as CSV, Markdown and PNG."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table as RichTable

Cell = str | int | float | None
T = TypeVar("T")

RESULTS = Path(__file__).parent / "results"


class Track(Protocol):
    """Goes through the steps of a measurement, perhaps showing how far it is."""

    def __call__(self, steps: Sequence[T], /) -> Iterable[T]: ...


def silently(steps: Sequence[T], /) -> Iterable[T]:
    """Shows nothing: for tests and for use from Python."""
    return steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Numbers with a name (of its files), a title and what has to be known to read it."""

    name: str
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def to_csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows([_rounded(cell) for cell in row] for row in self.rows)
        return text.getvalue()

    def to_markdown(self) -> str:
        lines = [f"**{self.title}**", "", _pipes(self.header)]
        lines.append(_pipes(["---:" if self._is_number(i) else "---" for i in range(len(self.header))]))
        lines += [_pipes([_written(cell) for cell in row]) for row in self.rows]
        return "\n".join([*lines, *(["", self.note] if self.note else []), ""])

    def to_rich(self) -> RichTable:
        table = RichTable(title=self.title, caption=self.note or None, title_justify="left")
        for i, column in enumerate(self.header):
            table.add_column(column, justify="right" if self._is_number(i) else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*(_written(cell) for cell in row))
        return table

    def _is_number(self, column: int) -> bool:
        return all(row[column] is None or isinstance(row[column], int | float) for row in self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one experiment leaves behind; figures by file name."""

    tables: tuple[Table, ...]
    figures: Mapping[str, Figure] = field(default_factory=dict)

    def show(self, console: Console) -> None:
        for table in self.tables:
            console.print(table.to_rich())

    def write(self, folder: Path) -> list[Path]:
        """All files of the report; what was there under the same names is replaced."""
        folder.mkdir(parents=True, exist_ok=True)
        written = []
        for table in self.tables:
            for suffix, text in ((".csv", table.to_csv()), (".md", table.to_markdown())):
                written.append(folder / f"{table.name}{suffix}")
                written[-1].write_text(text, encoding="utf-8")
        for name, figure in self.figures.items():
            written.append(folder / f"{name}.png")
            # Without the version of matplotlib the same numbers give the same file.
            figure.savefig(written[-1], metadata={"Software": None})
        return written


Experiment = Callable[[Track], Report]


def _pipes(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _written(cell: Cell) -> str:
    match cell:
        case None:
            return "–"
        case float():
            return f"{cell:,.2f}" if abs(cell) >= 0.095 or cell == 0 else f"{cell:.2g}"
        case _:
            return str(cell)


def _rounded(cell: Cell) -> Cell:
    return float(f"{cell:.6g}") if isinstance(cell, float) else cell
