"""One table, drawn on terminals and on pages: the same columns, the same numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

import elastune
from elastune.views.html.markup import html_table
from elastune.views.run_tables import stage_table
from elastune.views.table import Cell, Column, Table, TableRow, Tone, make_table, terminal_table
from elastune.wording import format_duration
from tests.views.pages import Page
from tests.views.test_run_reports import HYPERBAND, shown

Record = tuple[str, float | None]
COLUMNS: list[Column[Record]] = [
    Column("name", lambda each: each[0], total="all", is_text=True),
    Column("time", lambda each: each[1], format_duration, total=90.0),
    Column("picture", lambda each: "▒" * 20, is_text=True, leaves=1, is_drawn=True),
]
TABLE = make_table(
    COLUMNS, [("a<b", 30.0), ("[bold]", None)], has_total=True, title="Times", notes=("Read on.",)
)


def test_a_terminal_shows_title_rows_total_and_notes() -> None:
    assert [line.rstrip() for line in shown(terminal_table(TABLE)).splitlines()] == [
        "Times",
        "name      time  picture",
        "a<b     30.0 s  " + "▒" * 20,
        "[bold]          " + "▒" * 20,
        "all      1m30s",
        "Read on.",
    ]


@pytest.mark.parametrize(("width", "encoding"), [(20, "utf-8"), (100, "ascii")])
def test_a_drawing_leaves_where_there_is_no_room_or_no_such_character(width: int, encoding: str) -> None:
    text = shown(terminal_table(TABLE), width, encoding)
    assert "picture" not in text
    assert "30.0 s" in text


def test_columns_leave_one_after_the_other() -> None:
    columns: list[Column[int]] = [
        Column("first", lambda _: "x" * 10),
        Column("second", lambda _: "y" * 10, leaves=2),
        Column("third", lambda _: "z" * 10, leaves=1),
    ]
    table = terminal_table(make_table(columns, [1]))
    heads = [shown(table, width).split("\n")[0].split() for width in (34, 33, 20, 5)]
    assert heads == [["first", "second", "third"], ["first", "second"], ["first"], ["first"]]


def test_a_page_escapes_text_and_sorts_by_numbers() -> None:
    sortable = replace(TABLE, is_sortable=True)
    html = html_table(sortable)
    assert '<td class="words">a&lt;b</td><td data-key="30.0">30.0 s</td>' in html
    assert "picture" not in html
    assert "Read on." in html
    assert "A click on a heading sorts." in html
    assert "data-key" not in html_table(TABLE)


def test_a_cell_may_stand_out_and_have_a_second_line() -> None:
    column: Column[int] = Column("", lambda _: "")
    row = TableRow((Cell("exceeded", Tone.BAD, detail="<by much>"),))
    html = html_table(Table(columns=(column,), rows=(row,)))
    assert '<td class="bad">exceeded<div class="detail">&lt;by much&gt;</div></td>' in html


def test_stages_have_the_same_columns_on_terminals_and_on_pages() -> None:
    (run,) = elastune.simulate_many(HYPERBAND).runs
    table = stage_table(run.standing)
    lines = shown(terminal_table(table), 80).splitlines()
    words = Page(html_table(table)).text.split()
    assert words == " ".join(lines[1:]).split()
