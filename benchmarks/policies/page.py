"""Writes measured tables into a page: between `<!-- measured: NAME -->` and `<!-- end of measured -->`.

Figures named in the page as `img/policies-NAME.png` are written beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from benchmarks.reporting import Experiment, Report, Table, Track

_SECTION = re.compile(r"(<!-- measured: (?P<name>[a-z-]+) -->\n).*?(<!-- end of measured -->)", re.DOTALL)


def filled(text: str, tables: Mapping[str, Table]) -> str:
    """The page with the tables that there are; the other sections stay as they were."""

    def fill(found: re.Match[str]) -> str:
        table = tables.get(found["name"])
        if table is None:
            return found[0]
        title, _, body = table.to_markdown().partition("\n\n")
        del title  # the page has words of its own
        return f"{found[1]}{body.strip()}\n{found[3]}"

    return _SECTION.sub(fill, text)


def renamed(experiment: Experiment, name: str) -> Experiment:
    """The same experiment, whose tables and figures begin with this name instead of `tables`."""

    def run(track: Track) -> Report:
        report = experiment(track)
        return Report(
            tables=tuple(replace(each, name=_renamed(each.name, name)) for each in report.tables),
            figures={_renamed(each, name): figure for each, figure in report.figures.items()},
        )

    return run


def _renamed(written: str, name: str) -> str:
    return name + written.removeprefix("tables")


def filling(experiment: Experiment, page: Path) -> Experiment:
    """The same experiment, whose report is written into the page, too."""

    def run(track: Track) -> Report:
        report = experiment(track)
        text = page.read_text(encoding="utf-8")
        page.write_text(filled(text, {each.name: each for each in report.tables}), encoding="utf-8")
        for name, figure in report.figures.items():
            path = page.parent / "img" / f"policies-{name}.png"
            if f"img/{path.name}" in text:
                figure.savefig(path, metadata={"Software": None})
        return report

    return run
