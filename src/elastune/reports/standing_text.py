"""The parts in which one run is shown, whether it is over or not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from elastune.core.events import Config
from elastune.reports.tables import WiderIfRoom, fact_table, number_table, titled
from elastune.runs.remarks import Failure, Remark
from elastune.runs.result import BestTrial
from elastune.runs.standing import Shares, StageStanding, Standing
from elastune.units import format_confidence, format_duration, format_usd, plural

Formatter = Callable[[float], str]

_BARS = " ▁▂▃▄▅▆▇█"
_SPARK_CELLS = 48
_BAR_CELLS = 20
# Told apart without colours, too.
_ACTIVITIES = (
    ("booting", "boot", "▒", "yellow"),
    ("starting", "start", "▓", "cyan"),
    ("training", "train", "█", "green"),
    ("saving", "save", "▞", "blue"),
    ("idle", "idle", "·", "dim"),
)
_MOST_FAILURES = 5


def promise_table(standing: Standing, so_far: str) -> Table:
    """Time and money: predicted, real, and allowed. `so_far` is what the real numbers are called."""
    limits, predicted, promised = standing.limits, standing.predicted, standing.promised
    over = standing.ending is not None
    level = format_confidence(limits.confidence)
    table = number_table(
        ("", "predicted", f"{level} quantile", so_far, "difference", "limit", " "), left=("", " ")
    )
    rows = (
        ("time", "jct_seconds", format_duration, limits.deadline_s, standing.keeps_deadline),
        ("cost", "cost", format_usd, limits.budget_usd, standing.keeps_budget),
    )
    for name, key, show, limit, kept in rows:
        real = getattr(standing.actual, key)
        expected = None if predicted is None else getattr(predicted, key)
        table.add_row(
            name,
            "" if expected is None else show(expected),
            "" if promised is None else show(getattr(promised, key)),
            Text(show(real), style="bold"),
            "" if not over else difference(real, expected),
            "none" if limit is None else show(limit),
            verdict(kept) if over or kept is False else _left(limit, real, show),
        )
    return table


def verdict(kept: bool | None) -> Text:
    return Text("") if kept is None else Text("kept", "green") if kept else Text("exceeded", "bold red")


def difference(real: float, expected: float | None) -> str:
    return "" if not expected else f"{real / expected - 1:+.1%}".replace("-0.0%", "+0.0%")


def _left(limit: float | None, real: float, show: Formatter) -> str:
    return "" if limit is None else f"{show(limit - real)} left"


def facts(standing: Standing) -> Table:
    """The best model, the trials, the cluster."""
    rows = fact_table()
    rows.add_row("best", tell_best(standing.best, standing.metric))
    trials = ", ".join(f"{count:,} {phase}" for phase, count in standing.phases.items())
    told = f"{standing.trials:,}" + (f": {trials}" if trials else "")
    rows.add_row("trials", f"{told}; {plural(standing.iterations, 'iteration')} in all")
    peak = max(nodes for _, nodes in standing.growth)
    if peak:
        line = Text(sparkline(standing.growth, standing.actual.jct_seconds))
        line.append(f"  at most {peak} at once")
        rows.add_row("nodes", line)
    if standing.down_s:
        times = sum(remark.down_s > 0.0 for remark in standing.remarks)
        down = f"down {plural(times, 'time')}, {format_duration(standing.down_s)} in all"
        rows.add_row("driver", f"{down}; the run's clock stood still, nodes that it held were billed")
    for warning in standing.warnings:
        rows.add_row("beware", Text(warning, "bold yellow"))
    return rows


def tell_best(best: BestTrial | None, metric: str) -> Text:
    if best is None:
        return Text("none: no trial has a checkpoint")
    text = Text.assemble(f"{metric} ", (f"{best.metric:.5g}", "bold green"))
    text.append(f" after {plural(best.iterations, 'iteration')}: trial {best.trial}")
    text.append(f" ({tell_config(best.config)})" if best.config else "", "dim")
    return text


def tell_config(config: Config) -> str:
    def show(value: object) -> str:
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    return ", ".join(f"{name}={show(value)}" for name, value in config.items())


def sparkline(growth: Sequence[tuple[float, int]], end_s: float, cells: int = _SPARK_CELLS) -> str:
    """Nodes over the run, each cell the mean of its span; what is there at all is seen."""
    peak = max(nodes for _, nodes in growth)
    if not peak or end_s <= 0.0:
        return ""
    held = [0.0] * cells
    width = end_s / cells
    for (begin, nodes), (until, _) in itertools.pairwise([*growth, (end_s, 0)]):
        for cell in range(int(begin / width), min(cells, int(until / width) + 1)):
            overlap = min(until, (cell + 1) * width) - max(begin, cell * width)
            held[cell] += max(0.0, overlap) / width * nodes
    top = len(_BARS) - 1
    return "".join(_BARS[max(round(each / peak * top), int(each > 0.0))] for each in held)


def stage_table(standing: Standing) -> RenderableType:
    """Planned against real, and what became of the slot time."""
    return titled(
        "Stages" if len(standing.brackets) < 2 else "Stages, as bracket.stage",
        WiderIfRoom(_stages(standing, bars=True), _stages(standing, bars=False)),
    )


def _stages(standing: Standing, *, bars: bool) -> Table:
    planned = any(stage.planned is not None for stage in standing.stages)
    columns = ["stage", "nodes", "time", "cost"]
    if planned:
        columns = ["stage", "nodes", "time", "planned", "cost", "planned"]
    columns += [short for _, short, _, _ in _ACTIVITIES]
    table = number_table([*columns, "slot time"] if bars else columns, left=("slot time",), gap=1)
    for column in table.columns:
        column.min_width = 7 if column.header in {"time", "planned", "cost"} else 5
    for stage in standing.stages:
        cells = _stage_cells(stage, standing.brackets, planned=planned)
        table.add_row(*cells, *_share_cells(stage.shares, bars=bars))
    if len(standing.stages) > 1:
        predicted, actual = standing.predicted, standing.actual
        times = [format_duration(actual.jct_seconds)]
        costs = [format_usd(actual.cost)]
        if planned:
            times.append("" if predicted is None else format_duration(predicted.jct_seconds))
            costs.append("" if predicted is None else format_usd(predicted.cost))
        table.add_row("all", "", *times, *costs, *_share_cells(standing.shares, bars=bars), style="bold")
    return table


def _stage_cells(stage: StageStanding, brackets: Sequence[str], *, planned: bool) -> Iterator[str]:
    several = len(brackets) > 1
    number = f"{stage.stage + 1}" if stage.is_over else f"{stage.stage + 1}…"
    yield f"{brackets[stage.bracket].removeprefix('bracket ')}.{number}" if several else number
    yield f"{stage.nodes}"
    yield format_duration(stage.actual.jct_seconds)
    if planned:
        yield "" if stage.planned is None else format_duration(stage.planned.seconds)
    yield format_usd(stage.actual.cost)
    if planned:
        yield "" if stage.planned is None else format_usd(stage.planned.cost)


def _share_cells(shares: Shares | None, *, bars: bool) -> Iterator[Text | str]:
    if shares is None:
        yield from [""] * (len(_ACTIVITIES) + bars)
        return
    for name, _, _, _ in _ACTIVITIES:
        share = getattr(shares, name)
        yield f"{share:.0%}" if share >= 0.005 else "-"
    if bars:
        yield _share_bar(shares)


def _share_bar(shares: Shares) -> Text:
    """Cells by cumulated rounding, so that they always fill the bar."""
    bar, sum_, filled = Text(" "), 0.0, 0
    for name, _, glyph, style in _ACTIVITIES:
        sum_ += getattr(shares, name)
        upto = round(sum_ * _BAR_CELLS)
        bar.append(glyph * (upto - filled), style)
        filled = upto
    return bar


def failure_table(failures: Sequence[Failure]) -> RenderableType:
    rows = number_table(("trials", "first", "error"), left=("error",))
    rows.columns[-1].no_wrap, rows.columns[-1].overflow = False, "fold"
    for failure in failures[:_MOST_FAILURES]:
        rows.add_row(f"{failure.trials}", f"{failure.trial}", Text(failure.error))
    more = len(failures) - _MOST_FAILURES
    title = f"Failed: {plural(sum(failure.trials for failure in failures), 'trial')}"
    return titled(f"{title} ({more} more kinds of error)" if more > 0 else title, rows)


def remark_table(remarks: Sequence[Remark], title: str) -> RenderableType:
    rows = Table.grid(padding=(0, 2))
    rows.add_column(justify="right", style="dim", no_wrap=True)
    rows.add_column(no_wrap=True)
    rows.add_column()
    for remark in remarks:
        rows.add_row(format_duration(remark.at_s), remark.topic, remark.text)
    return titled(title, rows)
