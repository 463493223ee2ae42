"""HTML from values. Whatever is not `Markup` is text and is escaped: nothing a run wrote can become a tag."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


class Markup(str):
    """HTML that was made here."""

    __slots__ = ()


Content = Markup | str | int | float | None | Iterable["Content"]
_EMPTY = frozenset({"meta", "img", "br"})


def tag(name: str, /, *content: Content, **attributes: str | int | None) -> Markup:
    """An element. `class_` is its class, `data_x` its `data-x`; an attribute that is None is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{text(content)}</{name}>")


def text(content: Content) -> Markup:
    match content:
        case Markup():
            return content
        case None:
            return Markup("")
        case str():
            return Markup(html.escape(content))
        case int() | float():
            return Markup(html.escape(str(content)))
        case _:
            return Markup("".join(text(part) for part in content))


def joined(parts: Iterable[Content]) -> Markup:
    return Markup("\n".join(text(part) for part in parts))


@dataclass(frozen=True, slots=True)
class Cell:
    """What a table shows, and the number by which it is sorted."""

    content: Content
    key: float | None = None
    style: str | None = None


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[Cell | Content]],
    *,
    left: Iterable[int] = (0,),
    sortable: bool = False,
) -> Markup:
    """`left` are the columns of words; all others are numbers."""
    words = set(left)

    def cell(column: int, value: Cell | Content) -> Markup:
        shown = value if isinstance(value, Cell) else Cell(value)
        look = " ".join(filter(None, ("words" if column in words else None, shown.style)))
        return tag(
            "td", shown.content, class_=look or None, data_key=None if shown.key is None else f"{shown.key!r}"
        )

    titles = [
        tag("th", name, class_="words" if column in words else None) for column, name in enumerate(head)
    ]
    lines = [tag("tr", [cell(column, value) for column, value in enumerate(row)]) for row in rows]
    made = tag(
        "table", tag("thead", tag("tr", titles)), tag("tbody", lines), class_="sortable" if sortable else None
    )
    return tag("div", made, class_="scroll")
