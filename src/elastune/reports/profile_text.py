"""What was measured about a training."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from elastune.reports.table import Column, make_table
from elastune.reports.terminal import fact_table, stacked, terminal_table
from elastune.runs.profiling import Profiled
from elastune.units import format_duration, format_usd, plural


def render_profiled(taken: Profiled, job: Path) -> RenderableType:
    return stacked(_parts(taken, job))


def _parts(taken: Profiled, job: Path) -> Iterator[RenderableType]:
    measured = taken.measurements
    yield Text.assemble((job.stem, "bold"), f", measured in {format_duration(taken.took.jct_seconds)}")
    columns: list[Column[tuple[int, list[float]]]] = [
        Column("slots", lambda each: each[0]),
        Column("iteration", lambda each: statistics.fmean(each[1]), format_duration),
        Column("sd", lambda each: _sd(each[1])),
        Column("speed-up", lambda each: taken.profile.speedup.at(each[0]), lambda ratio: f"{ratio:.2f}"),
        Column("efficiency", lambda each: f"{taken.profile.speedup.at(each[0]) / each[0]:.0%}"),
        Column("measured", lambda each: plural(len(each[1]), "iteration")),
    ]
    yield terminal_table(make_table(columns, measured.typical().items()))
    boots = [
        (f"boot of {plural(count, 'node')}", _told(times)) for count, times in sorted(measured.boot.items())
    ]
    yield fact_table(
        [
            ("configurations", f"differ in speed by {measured.spread:.1%}"),
            ("start-up", _told(measured.startup)),
            ("save", _told(measured.save)),
            *boots,
            ("it cost", format_usd(taken.took.cost)),
        ]
    )
    hint = Text.assemble(
        f"written to {taken.path}; plan with it by ", (f"profile: {taken.path.name}", "bold")
    )
    seconds = [each for times in measured.boot.values() for each in times]
    if seconds:
        hint.append(f" and, in cluster, init: {statistics.fmean(seconds):.1f}s")
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
