"""HTML from values: tables, and the frame of every page.

Everything that is not `Markup` is escaped: nothing a run wrote can become a tag. A page is one self-contained
file, for light and dark screens and for paper.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence

from elastune.views.table import Table, TableRow


class Markup(str):
    """HTML made by this module; it is not escaped."""

    __slots__ = ()


Content = Markup | str | int | float | None | Iterable["Content"]
_EMPTY = frozenset({"meta", "img", "br", "link", "input"})
_MOST_SVG_BYTES = 1_000_000


def tag(name: str, /, *content: Content, **attributes: str | int | None) -> Markup:
    """An element. `class_` is its class, `data_x` its `data-x`; attributes that are None are omitted."""
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
        case str() | int() | float():
            return Markup(html.escape(str(content)))
        case _:
            return Markup("".join(text(part) for part in content))


def joined(parts: Iterable[Content]) -> Markup:
    return Markup("\n".join(text(part) for part in parts))


def html_table(table: Table) -> Markup:
    """With its notes below; its title is for the section around it."""
    shown = table.of_columns(lambda column: not column.is_drawn)
    head = [tag("th", column.title, class_=_classes("words" * column.is_text)) for column in shown.columns]
    looks = [f"{'words ' * column.is_text}{'wide' * column.wraps}".strip() for column in shown.columns]
    lines = [_row(row, looks, has_keys=table.is_sortable) for row in shown.all_rows]
    parts = (tag("thead", tag("tr", head)), tag("tbody", lines))
    made = tag("table", *parts, class_="sortable" if table.is_sortable else None)
    notes = [*table.notes, *(["A click on a heading sorts."] if table.is_sortable else [])]
    return joined([tag("div", made, class_="scroll"), *(tag("p", note, class_="muted") for note in notes)])


def _row(row: TableRow, looks: Sequence[str], *, has_keys: bool) -> Markup:
    cells = []
    for cell, look in zip(row.cells, looks, strict=False):
        key = None if cell.number is None or not has_keys else f"{cell.number!r}"
        detail = None if cell.detail is None else tag("div", cell.detail, class_="detail")
        cells.append(tag("td", cell.text, detail, class_=_classes(look, cell.tone.value), data_key=key))
    return tag("tr", cells, class_=_classes(row.tone.value))


def _classes(*names: str) -> str | None:
    return " ".join(filter(None, names)) or None


def html_facts(facts: Iterable[tuple[str, Content]]) -> Markup:
    """A label and a text on each line."""
    rows = [
        tag("tr", tag("td", name, class_="words"), tag("td", text, class_="words wide"))
        for name, text in facts
    ]
    return tag("table", tag("tbody", rows))


def page(title: str, parts: Iterable[Content]) -> str:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(_STYLE)),
    )
    main = joined(parts)
    script = tag("script", Markup(_SCRIPT)) if 'class="sortable"' in main else None
    body = tag("body", tag("main", main), script)
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def fragment(parts: Iterable[Content]) -> Markup:
    """A part of a page of others, such as a notebook, which keeps its own style."""
    return tag("div", tag("style", Markup(_FRAGMENT_STYLE)), joined(parts), class_="elastune")


def section(title: str, *content: Content) -> Markup:
    return tag("section", tag("h2", title), *content)


def picture(name: str, svg: str | None, png: bytes, caption: str) -> Markup:
    """As SVG if there is one and it is small, otherwise as PNG."""
    if svg is None or len(svg) > _MOST_SVG_BYTES:
        data = base64.b64encode(png).decode("ascii")
        drawn = tag("img", class_="pixels", alt=f"{name}: {caption}", src=f"data:image/png;base64,{data}")
    else:
        drawn = tag("div", Markup(svg), role="img", aria_label=f"{name}: {caption}")
    return tag("figure", drawn, tag("figcaption", caption), id=name)


def card(name: str, value: str, *details: Content, verdict: bool | None = None) -> Markup:
    """A key figure. `verdict`: whether a limit was kept."""
    word = None
    if verdict is not None:
        word = tag("span", "kept" if verdict else "exceeded", class_="good" if verdict else "bad")
    head = (tag("div", name, " ", word, class_="name"), tag("div", value, class_="value"))
    return tag("div", *head, [tag("div", each, class_="detail") for each in details if each], class_="card")


_COLOURS = """
:root {
  --ink: #24292f; --muted: #626b75; --rule: #dadfe4; --paper: #ffffff; --limit: #b3261e; --held: #e9ecef;
  --blue: #0072b2; --good: #1a7f47; --shade: #f6f8fa;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6e9ec; --muted: #9aa4ae; --rule: #363d45; --paper: #15191d; --limit: #ff8a80; --held: #2b3138;
    --blue: #58aee6; --good: #6fcf97; --shade: #1d2227;
  }
}
"""
_FRAME = """
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
main { max-width: 76rem; margin: 0 auto; padding: 2rem 1.25rem 4rem }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .3rem; overflow-wrap: anywhere }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .8rem; padding-bottom: .3rem; border-bottom: 1px solid var(--rule) }
"""
_PARTS = """
* { box-sizing: border-box }
p { margin: .3rem 0; overflow-wrap: anywhere }
.muted, figcaption, .detail { color: var(--muted) }
.good { color: var(--good) }
.bad { color: var(--limit) }
.badge { display: inline-block; border: 1px solid currentColor; border-radius: 1rem; padding: .15rem .8rem }
.badge { font-size: .85rem; font-weight: 500; vertical-align: .3rem; margin-left: .7rem }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)) }
.cards { gap: .8rem; margin: 1.4rem 0 }
.card { background: var(--shade); border-radius: .5rem; padding: .7rem 1rem; break-inside: avoid }
.card .name { color: var(--muted); font-size: .85rem }
.card .name span { font-weight: 600; float: right }
.card .value { font-size: 1.55rem; font-weight: 600 }
.card .detail { font-size: .85rem }
figure { margin: 1.6rem 0; break-inside: avoid }
figcaption { font-size: .88rem; margin-top: .2rem }
figure svg, figure img { width: 100%; height: auto; display: block }
figure svg text { font-family: system-ui, "DejaVu Sans", sans-serif !important }
img.pixels { background: #fff; border-radius: .3rem }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums }
th, td { text-align: right; padding: .28rem .7rem; border-bottom: 1px solid var(--rule) }
th, td { vertical-align: top; white-space: nowrap }
th { color: var(--muted); font-weight: 600 }
.words { text-align: left }
td.wide { white-space: normal; overflow-wrap: anywhere }
td.best { color: var(--good); font-weight: 600 }
.strong { font-weight: 600 }
table.sortable th { cursor: pointer }
table.sortable th:hover { color: var(--ink) }
pre { background: var(--shade); border-radius: .4rem; padding: .8rem 1rem; overflow-x: auto }
pre { font-size: .84rem; line-height: 1.4 }
summary { cursor: pointer }
details { margin: .5rem 0 }
"""
_PRINT = """
@media print {
  body { font-size: 11px }
  main { max-width: none; padding: 0 }
  .scroll, pre { overflow: visible; white-space: pre-wrap }
  h2 { break-after: avoid }
  tr { break-inside: avoid }
}
"""
_STYLE = _COLOURS + _FRAME + _PARTS + _PRINT
# For a part of a page whose colours are not ours: readable on light and on dark.
_FRAGMENT_STYLE = f"""
.elastune {{
  --ink: inherit; --muted: #7c858e; --rule: rgba(128, 128, 128, .35); --limit: #d64541; --good: #2b9a57;
  --shade: rgba(128, 128, 128, .1);
  color: inherit; font: 14px/1.45 system-ui, sans-serif; max-width: 64rem;
  h3 {{ font-size: 1.15rem; margin: .2rem 0 .3rem }}
  table {{ margin: .4rem 0 }}
  {_PARTS}
}}
"""
_SCRIPT = """
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const key = (row, column) => {
    const cell = row.cells[column];
    const number = parseFloat(cell.dataset.key ?? cell.textContent.replace(/[$,]/g, ""));
    return Number.isNaN(number) ? cell.textContent : number;
  };
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    let sign = -1;
    head.addEventListener("click", () => {
      sign = -sign;
      const rows = [...body.rows].sort((a, b) => {
        const x = key(a, column), y = key(b, column);
        return sign * (typeof x === typeof y ? (x < y ? -1 : x > y ? 1 : 0) : typeof x === "number" ? -1 : 1);
      });
      body.append(...rows);
    });
  });
}
"""
