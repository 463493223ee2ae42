"""What was measured about a training."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from elastune.reports.tables import fact_table, number_table, stacked
from elastune.runs.profiling import Profiled
from elastune.units import format_duration, format_usd, plural


def render_profiled(taken: Profiled, job: Path) -> RenderableType:
    return stacked(list(_parts(taken, job)))


def _parts(taken: Profiled, job: Path) -> Iterator[RenderableType]:
    measured = taken.measurements
    yield Text.assemble((job.stem, "bold"), f", measured in {format_duration(taken.took.jct_seconds)}")
    table = number_table(("slots", "iteration", "sd", "speed-up", "efficiency", "measured"))
    typical = measured.typical()
    for slots, values in typical.items():
        speedup = taken.profile.speedup.at(slots)
        table.add_row(
            f"{slots}",
            format_duration(statistics.fmean(values)),
            _sd(values),
            f"{speedup:.2f}",
            f"{speedup / slots:.0%}",
            plural(len(values), "iteration"),
        )
    yield table
    rows = fact_table()
    rows.add_row("configurations", f"differ in speed by {measured.spread:.1%}")
    rows.add_row("start-up", _told(measured.startup))
    rows.add_row("save", _told(measured.save))
    for count, values in sorted(measured.boot.items()):
        rows.add_row(f"boot of {plural(count, 'node')}", _told(values))
    rows.add_row("it cost", format_usd(taken.took.cost))
    yield rows
    hint = Text.assemble(
        f"written to {taken.path}; plan with it by ", (f"profile: {taken.path.name}", "bold")
    )
    boots = [seconds for values in measured.boot.values() for seconds in values]
    if boots:
        hint.append(f" and, in cluster, init: {statistics.fmean(boots):.1f}s")
    yield hint


def _told(values: Sequence[float]) -> str:
    if not values:
        return "not measured"
    told = format_duration(statistics.fmean(values))
    return (
        f"{told}, {format_duration(min(values))} to {format_duration(max(values))}"
        if len(values) > 1
        else told
    )


def _sd(values: Sequence[float]) -> str:
    return format_duration(statistics.stdev(values)) if len(values) > 1 else ""
