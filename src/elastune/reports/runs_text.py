"""The list of runs. Runs that were started together, over seeds or policies, share a line."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from elastune.journal import BrokenFolder
from elastune.reports.tables import FirstThatFits, number_table, stacked, titled
from elastune.runs.listing import RunLine, RunList, RunState
from elastune.units import format_duration, format_usd, plural
from elastune.wording import several

_COLUMNS = (
    "run", "name", "when", "body", "policy", "seed", "faults", "state", "events", "time", "cost", "best",
)  # fmt: skip
_WORDS = ("run", "name", "when", "body", "policy", "faults", "state")
# What is left out where there is no room, step by step.
_IF_ROOM: tuple[tuple[str, ...], ...] = (
    (),
    ("body", "events"),
    ("body", "events", "when"),
    ("body", "events", "when", "seed"),
    ("body", "events", "when", "seed", "faults"),
    ("body", "events", "when", "seed", "faults", "name"),
)
_STYLES = {
    RunState.COMPLETE: "green",
    RunState.TARGET: "green",
    RunState.RUNNING: "cyan",
    RunState.FAILED: "red",
    RunState.INTERRUPTED: "yellow",
    RunState.RESTING: "yellow",
}


def render_runs(listing: RunList, *, apart: bool, now_utc: datetime) -> RenderableType:
    """`apart`: a line for each run, also for those that were started together."""
    parts: list[RenderableType] = []
    if listing.runs:
        parts.append(_table(listing, apart=apart, now_utc=now_utc))
    if listing.broken:
        parts.append(_broken_table(listing.broken))
    if not parts:
        parts.append(Text(f"no runs in {listing.root} yet; `elastune simulate job.yaml` makes one"))
    return stacked(parts)


def _table(listing: RunList, *, apart: bool, now_utc: datetime) -> RenderableType:
    groups = list(_groups(listing.runs, apart=apart))
    table = FirstThatFits(*(_rows(groups, now_utc, without) for without in _IF_ROOM))
    if all(len(group) == 1 for group in groups):
        return table
    hint = "Runs started together share a line with the means of time, cost and best; --all shows each."
    return stacked([table, Text(hint, "dim")])


def _rows(groups: Sequence[Sequence[RunLine]], now_utc: datetime, without: Sequence[str]) -> Table:
    """Faults are a column only if there are any."""
    wide = not without
    calm = all(line.faults in (None, "none") for group in groups for line in group)
    left_out = {*without, "faults"} if calm else set(without)
    columns = [name for name in _COLUMNS if name not in left_out]
    table = number_table(columns, left=_WORDS, gap=2 if wide else 1)
    for column in table.columns:
        if column.header in {"name", "faults"}:
            column.max_width = 30 if wide else 10
            column.overflow = "ellipsis"
    for group in groups:
        cells = dict(zip(_COLUMNS, _cells(group, now_utc), strict=True))
        table.add_row(*(cells[name] for name in columns))
    return table


def _groups(runs: Sequence[RunLine], *, apart: bool) -> Iterator[list[RunLine]]:
    if apart:
        yield from ([line] for line in runs)
        return
    by_folder: dict[Path, list[RunLine]] = {}
    for line in runs:
        by_folder.setdefault(line.folder.path, []).append(line)
    yield from by_folder.values()


def _cells(lines: Sequence[RunLine], now_utc: datetime) -> Iterator[Text | str]:
    newest, oldest = lines[0], lines[-1]
    record = oldest.record
    yield Text(record.run if newest is oldest else _span(record.run, newest.record.run), "bold")
    yield record.name
    yield Text(format_age((now_utc - record.created_utc).total_seconds()), "dim")
    yield record.body.value
    policies = {line.record.policy for line in lines}
    yield record.policy if len(policies) == 1 else f"{len(policies)} policies"
    seeds = sorted({line.record.seed for line in lines})
    yield f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]}-{seeds[-1]}"
    yield "" if oldest.faults in (None, "none") else str(oldest.faults)
    state, count = Counter(line.state for line in lines).most_common(1)[0]
    told = state.value if count == len(lines) else f"{count}/{len(lines)} {state.value}"
    yield Text(told, _STYLES.get(state, ""))
    yield f"{sum(line.events for line in lines):,}"
    yield format_duration(statistics.fmean(line.seconds for line in lines))
    yield _mean([line.cost for line in lines], format_usd)
    yield _mean([line.best for line in lines], lambda best: f"{best:.4g}")


def _span(first: str, last: str) -> str:
    return f"{first}-{last.rpartition('.')[2]}"


def _mean(values: Sequence[float | None], show: Callable[[float], str]) -> str:
    """Nothing where one is not known: the others would be taken for all."""
    known = [value for value in values if value is not None]
    return show(statistics.fmean(known)) if len(known) == len(values) else ""


def format_age(seconds: float) -> str:
    """`3m ago`, in one unit."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit} ago"
    return "now"


def _broken_table(broken: Sequence[BrokenFolder]) -> RenderableType:
    """A folder once, however many of its runs cannot be read."""
    table = number_table(("folder", "why"), left=("folder", "why"))
    for column in table.columns:
        column.no_wrap = False
        column.overflow = "fold"
    reasons: dict[Path, dict[str, None]] = {}
    for each in broken:
        path = each.folder.path
        reason = each.reason.replace(f"{path.absolute()}/", "").replace(f"{path}/", "")
        reasons.setdefault(path, {})[reason] = None
    for path, found in reasons.items():
        table.add_row(path.name, several(found, most=3))
    return titled(f"{plural(len(reasons), 'folder')} cannot be read", table)
