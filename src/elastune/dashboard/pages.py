"""The pages: a frame with places that the scripts fill. No text of a run is in a script or a tag."""

from __future__ import annotations

from elastune.dashboard.guard import Access
from elastune.journal.run_folders import FoundRun
from elastune.views.html.markup import Content, Markup, tag

# Pages without plots.
_PLAIN = frozenset({"runs"})


def _page(access: Access, title: str, script: str, *body: Content, present: str) -> str:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="elastune-token", content="" if access.read_only else access.change_token),
        tag("meta", name="elastune-asking-token", content=access.change_token),
        tag("title", f"{title} · Elastune"),
        tag("link", rel="icon", href="/static/icon.svg", type="image/svg+xml"),
        tag("link", rel="stylesheet", href="/static/dashboard.css"),
    )
    names = ("parts", script) if script in _PLAIN else ("parts", "plots", script)
    scripts = [tag("script", src=f"/static/{name}.js", defer="") for name in names]
    bar = tag(
        "header", _navigation(present), tag("span", "read-only", class_="badge") if access.read_only else ""
    )
    whole = tag("body", bar, tag("main", *body), tag("div", id="toasts"), *scripts)
    return f'<!doctype html>\n<html lang="en">{head}{whole}</html>'


def _navigation(present: str) -> Markup:
    links = {"/": "Runs", "/compare": "Compare", "/ask": "Ask for a quote"}
    shown = [
        tag("a", text, href=href, class_="present" if href == present else None)
        for href, text in links.items()
    ]
    return tag("nav", tag("a", "Elastune", href="/", class_="brand"), *shown)


def runs_page(access: Access) -> str:
    search = tag("input", id="search", type="search", placeholder="Search runs", aria_label="Search runs")
    row = tag("div", search, tag("span", id="summary", class_="muted"), class_="row")
    return _page(access, "Runs", "runs", row, tag("div", id="runs"), present="/")


def run_page(access: Access, found: FoundRun) -> str:
    record = found.record
    tabs = ("Overview", "Curves", "Slots", "Trials", "Learned", "Nodes", "Log", "Job")
    buttons = [tag("button", name, data_tab=name.lower(), type="button") for name in tabs]
    panels = [tag("section", id=name.lower(), class_="tab") for name in tabs]
    body = [
        tag("div", tag("h1", record.name), id="title", class_="title"),
        tag("div", id="trouble"),
        tag("div", id="reading"),
        tag("div", id="steer", class_="row"),
        tag("div", *buttons, class_="tabs", role="tablist"),
        *panels,
    ]
    return _page(
        access,
        f"{record.name} {record.run}",
        "run",
        tag("div", *body, id="run", data_run=record.run),
        present="",
    )


def compare_page(access: Access) -> str:
    return _page(access, "Compare", "compare", tag("div", id="compare"), present="/compare")


def ask_page(access: Access) -> str:
    return _page(access, "Ask", "ask", tag("div", id="ask"), present="/ask")


def error_page(text: str) -> str:
    link = tag("link", rel="stylesheet", href="/static/dashboard.css")
    head = tag("head", tag("meta", charset="utf-8"), tag("title", "Elastune"), link)
    body = tag("main", tag("h1", "This cannot be shown"), tag("p", text), tag("a", "All runs", href="/"))
    return f'<!doctype html>\n<html lang="en">{head}{tag("body", body)}</html>'
