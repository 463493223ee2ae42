"""The report of a check for the terminal: a word and a sentence per finding; below it the line, and what to
write there."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table as Grid
from rich.text import Text

from elastune.checks.report import CheckFinding, CheckReport, CheckStatus
from elastune.views.table import stacked
from elastune.wording import format_duration, plural

_STYLES = {
    CheckStatus.FINE: "green",
    CheckStatus.NOTE: "cyan",
    CheckStatus.WARNING: "yellow",
    CheckStatus.FAILED: "bold red",
}


def render_check(report: CheckReport) -> RenderableType:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for finding in report.findings:
        grid.add_row(Text(finding.status.value, _STYLES[finding.status]), _finding(finding))
    return stacked([grid, *_ending(report)])


def _finding(finding: CheckFinding) -> Text:
    first, *others = finding.lines()
    styled = (Text(line, "bold" if _is_place(finding, line) else "") for line in others)
    return Text("\n").join([Text(first), *styled])


def _is_place(finding: CheckFinding, line: str) -> bool:
    return finding.place is not None and line.startswith(str(finding.place))


def _ending(report: CheckReport) -> Iterator[RenderableType]:
    slots = {None: "any number of slots", 1: "one slot"}.get(report.most_slots, f"{report.most_slots} slots")
    verdict = "passed" if report.is_fine else f"{len(report.failures)} failed"
    took = f"{plural(report.iterations, 'iteration')} in {format_duration(report.took_s)}"
    yield Text(f"{report.trainable}: {verdict}; a trial may use {slots}; {took}")
    if report.output is not None:
        yield Text(f"what it printed: {report.output}", "dim")
