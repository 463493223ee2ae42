"""A quote as a picture: the cluster over time, as in RubberBand's Figure 1, and time against money."""

from __future__ import annotations

import html
import importlib.util
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastune.errors import JobError
from elastune.planning import BracketQuote, Forecast, Quote
from elastune.units import format_duration, format_percent, format_usd, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".html")
# Okabe and Ito's palette: told apart by everyone.
_STAGE_COLOURS = ("#0072B2", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
_HELD, _INK, _LIMIT = "#D9D9D9", "#333333", "#B00020"
_MOST_BOXES = 64


def check_plot_file(path: Path) -> None:
    """Complain before the planning starts, not after it."""
    if path.suffix.lower() not in FORMATS:
        raise JobError(f"--plot is '{path}'; expected a file that ends in {', '.join(FORMATS)}")
    if not path.absolute().parent.is_dir():
        raise JobError(f"--plot is '{path}'; the folder '{path.absolute().parent}' does not exist")
    if importlib.util.find_spec("matplotlib") is None:
        raise JobError("--plot needs matplotlib: pip install 'elastune[plot]'")


def save_plot(quote: Quote, path: Path) -> None:
    """Write the picture in the format that the file's ending names."""
    figure = draw_quote(quote)
    try:
        if path.suffix.lower() == ".html":
            path.write_text(_page(quote, figure), encoding="utf-8")
        else:
            figure.savefig(path, dpi=150, metadata=_no_date(path.suffix))
    except OSError as error:
        raise JobError(f"--plot is '{path}'; cannot write there: {error.strerror}") from None


def draw_quote(quote: Quote) -> Figure:
    """One row per bracket on the left, the frontier on the right where it was asked for."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    rows, columns = len(quote.brackets), 2 if quote.frontier else 1
    figure = Figure(figsize=(7.0 + 5.0 * (columns - 1), max(4.2, 1.2 + 2.2 * rows)), layout="constrained")
    grid = figure.add_gridspec(rows, columns, width_ratios=(1.4, 1)[:columns])
    shared: Axes | None = None
    for row, bracket in enumerate(quote.brackets):
        axes = figure.add_subplot(grid[row, 0], sharex=shared)
        shared = shared or axes
        _draw_cluster(axes, quote, bracket)
    if shared is not None:
        figure.axes[-1].set_xlabel("mean time since start (minutes)")
    if quote.frontier:
        _draw_frontier(figure.add_subplot(grid[:, 1]), quote)
    figure.suptitle(_title(quote), fontsize=11, color=_INK)
    return figure


def _title(quote: Quote) -> str:
    level = format_percent(quote.problem.limits.confidence)
    return (
        f"{quote.planner}: mean {format_usd(quote.cost)}, mean finish {format_duration(quote.jct_seconds)} "
        f"({level} quantile {format_duration(quote.jct_quantile_seconds)})"
    )


def _draw_cluster(axes: Axes, quote: Quote, bracket: BracketQuote) -> None:
    per_node = quote.problem.cluster.slots_per_node
    start = 0.0
    for index, stage in enumerate(bracket.stages):
        minutes = stage.seconds / 60
        held = stage.nodes_held * per_node
        colour = _STAGE_COLOURS[index % len(_STAGE_COLOURS)]
        axes.bar(start, held, minutes, align="edge", color=_HELD, edgecolor="white", linewidth=0.8)
        gangs = stage.slots // stage.slots_per_trial
        height = stage.slots_per_trial if gangs <= _MOST_BOXES else stage.slots
        for level in range(gangs if gangs <= _MOST_BOXES else 1):
            edge = 0.6 if height > 0 and gangs <= _MOST_BOXES else 0
            axes.bar(
                start, height, minutes, bottom=level * height, align="edge",
                color=colour, edgecolor="white", linewidth=edge,
            )  # fmt: skip
        axes.annotate(
            f"{stage.trials} × {stage.iterations}",
            (start + minutes / 2, held), xytext=(0, 3), textcoords="offset points",
            ha="center", va="bottom", fontsize=8, color=_INK,
        )  # fmt: skip
        start += minutes
    if quote.static is not None and quote.planner != "static" and len(quote.brackets) == 1:
        _outline_static(axes, quote.static, per_node)
    deadline = quote.problem.limits.deadline_s
    if deadline is not None:
        axes.axvline(deadline / 60, color=_LIMIT, linewidth=1.2, linestyle="--")
        axes.annotate(
            "deadline", (deadline / 60, 1), xycoords=("data", "axes fraction"), xytext=(-3, -3),
            textcoords="offset points", ha="right", va="top", fontsize=8, color=_LIMIT,
        )  # fmt: skip
    name = f"{bracket.name}\n" if len(quote.brackets) > 1 else ""
    axes.set_ylabel(f"{name}slots", color=_INK)
    nodes = axes.secondary_yaxis("right", functions=(_scale(1 / per_node), _scale(per_node)))
    nodes.set_ylabel("nodes", color=_INK)
    axes.margins(x=0.02, y=0.12)
    axes.spines["top"].set_visible(False)
    axes.set_title(
        "each box is a gang; grey is held idle; labels are trials × iterations", fontsize=8, color=_INK
    )


def _outline_static(axes: Axes, static: Forecast, per_node: int) -> None:
    """The best fixed cluster, as a frame around what it pays for."""
    height, width = static.peak_nodes * per_node, static.jct_seconds / 60
    axes.plot([0, width, width], [height, height, 0], color=_INK, linewidth=1, linestyle=(0, (4, 3)))
    axes.annotate(
        f"static: {plural(static.peak_nodes, 'node')}, {format_usd(static.cost)}",
        (width, height), xytext=(-4, 3), textcoords="offset points",
        ha="right", va="bottom", fontsize=8, color=_INK,
    )  # fmt: skip


def _scale(factor: float) -> Callable[[Any], Any]:
    return lambda value: value * factor


def _draw_frontier(axes: Axes, quote: Quote) -> None:
    points = quote.frontier or ()
    minutes = [point.jct_seconds / 60 for point in points]
    costs = [point.cost for point in points]
    axes.step(minutes, costs, where="post", color=_STAGE_COLOURS[0], linewidth=1.4, label="best plans")
    if len(points) <= 200:
        axes.plot(minutes, costs, "o", color=_STAGE_COLOURS[0], markersize=3)
    others = dict(quote.comparison or {"static": quote.static})
    others.pop(quote.planner, None)
    for marker, (name, other) in zip("sD^v", others.items(), strict=False):
        if other is not None:
            axes.plot(other.jct_seconds / 60, other.cost, marker, color="#777777", markersize=6, label=name)
    axes.plot(
        quote.jct_seconds / 60,
        quote.cost,
        "*",
        color=_STAGE_COLOURS[5],
        markersize=14,
        label=f"chosen ({quote.planner})",
    )
    limits = quote.problem.limits
    if limits.deadline_s is not None:
        axes.axvline(limits.deadline_s / 60, color=_LIMIT, linewidth=1.2, linestyle="--", label="deadline")
    if limits.budget_usd is not None:
        axes.axhline(limits.budget_usd, color=_LIMIT, linewidth=1.2, linestyle=":", label="budget")
    if minutes and max(minutes) > 20 * min(minutes):
        axes.set_xscale("log")
    if costs and min(costs) > 0 and max(costs) > 10 * min(costs):
        axes.set_yscale("log")
    axes.set_xlabel("mean finish (minutes)")
    axes.set_ylabel("mean cost ($)")
    axes.set_title("time against money", fontsize=9, color=_INK)
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)


def _page(quote: Quote, figure: Figure) -> str:
    """A page that needs nothing but itself."""
    drawing = io.StringIO()
    figure.savefig(drawing, format="svg", metadata=_no_date(".svg"))
    svg = drawing.getvalue()
    head = (
        "stage",
        "trials",
        "iterations",
        "slots per trial",
        "slots",
        "nodes held",
        "mean time",
        "mean cost",
    )
    rows = [
        (
            f"{bracket.name} / {number}" if len(quote.brackets) > 1 else f"{number}",
            stage.trials, stage.iterations, stage.slots_per_trial, stage.slots, stage.nodes_held,
            format_duration(stage.seconds), format_usd(stage.cost),
        )
        for bracket in quote.brackets
        for number, stage in enumerate(bracket.stages, start=1)
    ]  # fmt: skip
    level = format_percent(quote.problem.limits.confidence)
    summary = (
        f"Mean {format_usd(quote.cost)} and {format_duration(quote.jct_seconds)}; {level} quantile "
        f"{format_usd(quote.cost_quantile)} and {format_duration(quote.jct_quantile_seconds)}; "
        f"at most {plural(quote.peak_nodes, 'node')} at once."
    )
    return _PAGE.format(
        title=html.escape(_title(quote)),
        summary=html.escape(summary),
        drawing=svg[svg.index("<svg") :],
        table=_html_table(head, rows),
    )


def _html_table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    cells = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    lines = ("".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) for row in rows)
    return f"<table><tr>{cells}</tr>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _no_date(suffix: str) -> dict[str, Any]:
    """The same quote gives the same file."""
    return {"Date": None} if suffix.lower() == ".svg" else {"Software": None}


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #222 }}
body {{ margin: 2rem auto; max-width: 70rem; padding: 0 1rem }}
svg {{ max-width: 100%; height: auto }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; margin-top: 1rem }}
th, td {{ text-align: right; padding: .3rem .8rem; border-bottom: 1px solid #ddd }}
th {{ font-weight: 600; color: #555 }}
</style></head>
<body><h1>{title}</h1><p>{summary}</p>{drawing}{table}</body></html>
"""
