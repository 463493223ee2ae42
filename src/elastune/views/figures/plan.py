"""Figures made before a run.

Of a quote: the cluster over time, as in RubberBand's Figure 1, and time against money. Of a profile: the
measured iterations, the speed-up, and what each hyperparameter does to the speed.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastune.errors import JobError
from elastune.hopping.partitions import TrainingMode
from elastune.model.speeds import Influence
from elastune.planning.quote import BracketQuote, Forecast, Quote, StageQuote
from elastune.runs.profiling import Profiled
from elastune.views.figures.figure_style import check_matplotlib
from elastune.views.html.markup import Markup, html_table, page, section, tag
from elastune.views.terminal.plan import quoted_stage_tables
from elastune.wording import format_confidence, format_duration, format_usd, plural, time_and_money

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


FORMATS = (".png", ".svg", ".html")
# Okabe and Ito's palette, safe for colour-blind readers.
_STAGE_COLOURS = ("#0072B2", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
_HELD, _INK, _LIMIT = "#D9D9D9", "#333333", "#B00020"
_MOST_BOXES = 64
_MOST_INFLUENCES = 8


def check_plot_file(path: Path) -> None:
    """Called before the planning starts."""
    if path.suffix.lower() not in FORMATS:
        raise JobError(f"--plot is '{path}'; expected a file that ends in {', '.join(FORMATS)}")
    if not path.absolute().parent.is_dir():
        raise JobError(f"--plot is '{path}'; the folder '{path.absolute().parent}' does not exist")
    check_matplotlib("--plot")


def save_plot(quote: Quote, path: Path) -> None:
    """In the format of the file's suffix."""
    figure = draw_quote(quote)
    try:
        if path.suffix.lower() == ".html":
            path.write_text(_page(quote, figure), encoding="utf-8")
        else:
            figure.savefig(path, dpi=150, metadata=_no_date(path.suffix))
    except OSError as error:
        raise JobError(f"--plot is '{path}'; cannot write there: {error.strerror}") from None


def draw_quote(quote: Quote) -> Figure:
    """One row per bracket on the left, the frontier, if there is one, on the right."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    has_frontier = bool(quote.frontier) and not quote.problem.cluster.is_free
    rows, columns = len(quote.brackets), 2 if has_frontier else 1
    figure = Figure(figsize=(7.0 + 5.0 * (columns - 1), max(4.2, 1.2 + 2.2 * rows)), layout="constrained")
    grid = figure.add_gridspec(rows, columns, width_ratios=(1.4, 1)[:columns])
    unit = _time_unit(quote)
    shared: Axes | None = None
    for row, bracket in enumerate(quote.brackets):
        axes = figure.add_subplot(grid[row, 0], sharex=shared)
        _draw_cluster(axes, quote, bracket, unit)
        if shared is None:
            shared = axes
            axes.set_title(_legend(quote), fontsize=8, color=_INK)
        if row + 1 == rows:
            axes.set_xlabel(f"mean time since start ({unit.name})")
    if has_frontier:
        _draw_frontier(figure.add_subplot(grid[:, 1]), quote, unit)
    figure.suptitle(_title(quote), fontsize=11, color=_INK)
    return figure


def _legend(quote: Quote) -> str:
    if quote.problem.hopping is None:
        return "each box is a gang; grey is held idle; labels are trials × iterations"
    return "each box is a worker, or all together; grey is held idle; labels are trials × epochs"


@dataclass(frozen=True, slots=True)
class _TimeUnit:
    name: str
    seconds: float


def _time_unit(quote: Quote) -> _TimeUnit:
    """A unit that makes the longest time readable."""
    longest = max([quote.jct_seconds, *(point.jct_seconds for point in quote.frontier or ())])
    if longest < 180:
        return _TimeUnit("seconds", 1.0)
    return _TimeUnit("minutes", 60.0) if longest < 4 * 3600 else _TimeUnit("hours", 3600.0)


def _title(quote: Quote) -> str:
    level = format_confidence(quote.problem.limits.confidence)
    money = "" if quote.problem.cluster.is_free else f"mean {format_usd(quote.cost)}, "
    return (
        f"{quote.planner}: {money}mean finish {format_duration(quote.jct_seconds)} "
        f"({level} quantile {format_duration(quote.jct_quantile_seconds)})"
    )


def _draw_cluster(axes: Axes, quote: Quote, bracket: BracketQuote, unit: _TimeUnit) -> None:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    per_node = quote.problem.cluster.slots_per_node
    whole = max(quote.jct_seconds, quote.problem.limits.deadline_s or 0.0) / unit.seconds
    start = 0.0
    for index, stage in enumerate(bracket.stages):
        width = stage.seconds / unit.seconds
        held = stage.nodes_held * per_node
        axes.bar(start, held, width, align="edge", color=_HELD, edgecolor="white", linewidth=0.8)
        _draw_gangs(axes, stage, (start, width), _STAGE_COLOURS[index % len(_STAGE_COLOURS)])
        label = f"{stage.trials} × {stage.iterations}"
        if width > 0.011 * len(label) * whole:  # as wide as its letters
            axes.annotate(
                label,
                (start + width / 2, held), xytext=(0, 3), textcoords="offset points",
                ha="center", va="bottom", fontsize=8, color=_INK,
                bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.7},
            )  # fmt: skip
        start += width
    if quote.static is not None and quote.planner != "static" and len(quote.brackets) == 1:
        _outline_static(axes, quote.static, per_node, unit)
    deadline = quote.problem.limits.deadline_s
    if deadline is not None:
        axes.axvline(deadline / unit.seconds, color=_LIMIT, linewidth=1.2, linestyle="--")
        axes.annotate(
            "deadline", (deadline / unit.seconds, 1), xycoords=("data", "axes fraction"), xytext=(-3, -3),
            textcoords="offset points", ha="right", va="top", fontsize=8, color=_LIMIT,
        )  # fmt: skip
    name = f"{bracket.name}\n" if len(quote.brackets) > 1 else ""
    axes.set_ylabel(f"{name}slots", color=_INK)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    nodes = axes.secondary_yaxis("right", functions=(_scale(1 / per_node), _scale(per_node)))
    nodes.set_ylabel("nodes", color=_INK)
    nodes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(x=0.02, y=0.18)
    axes.set_ylim(bottom=0)
    axes.spines["top"].set_visible(False)


def _draw_gangs(axes: Axes, stage: StageQuote, span: tuple[float, float], colour: str) -> None:
    """A box per gang or worker; one for all if they train together or are too many."""
    start, width = span
    gangs = stage.slots // stage.slots_per_trial
    apart = gangs <= _MOST_BOXES and stage.manner != TrainingMode.TOGETHER.value
    heights = [stage.slots_per_trial] * gangs if apart else [stage.slots]
    bottoms = [level * stage.slots_per_trial for level in range(len(heights))]
    axes.bar(
        [start] * len(heights), heights, width, bottom=bottoms, align="edge",
        color=colour, edgecolor="white", linewidth=0.6 if apart else 0,
    )  # fmt: skip


def _outline_static(axes: Axes, static: Forecast, per_node: int, unit: _TimeUnit) -> None:
    """The best fixed cluster, as a frame."""
    height, width = static.peak_nodes * per_node, static.jct_seconds / unit.seconds
    money = f", {format_usd(static.cost)}" if static.cost else ""
    axes.plot([0, width, width], [height, height, 0], color=_INK, linewidth=1, linestyle=(0, (4, 3)))
    axes.annotate(
        f"static: {plural(static.peak_nodes, 'node')}{money}",
        (width, height), xytext=(-4, -3), textcoords="offset points",
        ha="right", va="top", fontsize=8, color=_INK,
        bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.7},
    )  # fmt: skip


def _scale(factor: float) -> Callable[[Any], Any]:
    return lambda value: value * factor


def _draw_frontier(axes: Axes, quote: Quote, unit: _TimeUnit) -> None:
    points = quote.frontier or ()
    times = [point.jct_seconds / unit.seconds for point in points]
    costs = [point.cost for point in points]
    axes.step(times, costs, where="post", color=_STAGE_COLOURS[0], linewidth=1.4, label="best plans")
    if len(points) <= 200:
        axes.plot(times, costs, "o", color=_STAGE_COLOURS[0], markersize=3)
    others = dict(quote.comparison or {"static": quote.static})
    others.pop(quote.planner, None)
    for marker, (name, other) in zip("sD^v", others.items(), strict=False):
        if other is not None:
            at = (other.jct_seconds / unit.seconds, other.cost)
            axes.plot(*at, marker, color="#777777", markersize=6, label=name)
    chosen = (quote.jct_seconds / unit.seconds, quote.cost)
    axes.plot(*chosen, "*", color=_STAGE_COLOURS[5], markersize=14, label=f"chosen ({quote.planner})")
    limits = quote.problem.limits
    level = format_confidence(limits.confidence)
    if limits.deadline_s is not None:
        label, deadline = f"deadline (for the {level} quantile)", limits.deadline_s / unit.seconds
        axes.axvline(deadline, color=_LIMIT, linewidth=1.2, linestyle="--", label=label)
    if limits.budget_usd is not None:
        label = f"budget (for the {level} quantile)"
        axes.axhline(limits.budget_usd, color=_LIMIT, linewidth=1.2, linestyle=":", label=label)
    if _spans(times, 20):
        axes.set_xscale("log")
        _use_plain_numbers(axes.xaxis)
    if _spans(costs, 10):
        axes.set_yscale("log")
        _use_plain_numbers(axes.yaxis)
    axes.set_xlabel(f"mean finish ({unit.name})")
    axes.set_ylabel("mean cost ($)")
    axes.set_title("time against money", fontsize=9, color=_INK)
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)


def _spans(values: Sequence[float], ratio: float) -> bool:
    return bool(values) and min(values) > 0 and max(values) > ratio * min(values)


def _use_plain_numbers(axis: Axis) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter  # noqa: PLC0415

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _page(quote: Quote, figure: Figure) -> str:
    """A self-contained page."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata=_no_date(".svg"))
    svg = file.getvalue()
    level = format_confidence(quote.problem.limits.confidence)
    summary = (
        f"Mean {time_and_money(quote.jct_seconds, quote.cost)}; {level} quantile "
        f"{time_and_money(quote.jct_quantile_seconds, quote.cost_quantile)}; "
        f"at most {plural(quote.peak_nodes, 'node')} at once."
    )
    parts = [tag("h1", _title(quote)), tag("p", summary), tag("figure", Markup(svg[svg.index("<svg") :]))]
    is_free = quote.problem.cluster.is_free
    shown = (table.without_money() if is_free else table for table in quoted_stage_tables(quote))
    tables = (section(table.title or "Stages", html_table(table)) for table in shown)
    return page(_title(quote), [*parts, *tables])


def _no_date(suffix: str) -> dict[str, Any]:
    """The same quote gives the same file."""
    return {"Date": None} if suffix.lower() == ".svg" else {"Software": None}


def save_profile_plot(taken: Profiled, path: Path) -> None:
    """As .png or .svg, by the file's suffix."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    influences = taken.influences()[:_MOST_INFLUENCES]
    figure = Figure(figsize=(13.5 if influences else 9.0, 3.8), layout="constrained")
    left, right, *others = figure.subplots(1, 3 if influences else 2)
    typical = taken.measurements.typical()
    sizes = list(typical)
    colour = _STAGE_COLOURS[0]
    places = range(len(sizes))
    left.boxplot(list(typical.values()), positions=places, widths=0.5, medianprops={"color": colour})
    left.set_xticks(places, list(map(str, sizes)))
    left.set_ylim(bottom=0.0)
    _name(left, "seconds per iteration", "Time per iteration")
    right.plot(sizes, sizes, "--", color="#999999", label="ideal")
    right.plot(sizes, list(map(taken.profile.speedup.at, sizes)), "o-", color=colour, label="measured")
    right.set_xscale("log", base=2)
    right.set_yscale("log", base=2)
    right.set_xticks(sizes, list(map(str, sizes)))
    right.set_yticks(sizes, list(map(str, sizes)))
    right.legend(frameon=False)
    _name(right, "speed-up", "Speed-up by slots")
    for axes in others:
        _draw_influences(axes, influences)
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise JobError(f"--plot is '{path}'; cannot write there: {error}") from None


def _draw_influences(axes: Axes, influences: Sequence[Influence]) -> None:
    """The strongest on top; paler the less likely it has an effect at all."""
    for place, each in enumerate(reversed(influences)):
        axes.barh(
            place, each.ratio - 1.0, left=1.0, color=_STAGE_COLOURS[0], alpha=0.2 + 0.8 * each.probability
        )
    axes.set_yticks(range(len(influences)), [each.name for each in reversed(influences)])
    axes.axvline(1.0, color="#999999", linewidth=0.8)
    _name(axes, "", "What changes the speed")
    axes.set_xlabel("slowest value, times the fastest (pale: uncertain)")


def _name(axes: Axes, what: str, title: str) -> None:
    axes.set_xlabel("slots")
    axes.set_ylabel(what)
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
