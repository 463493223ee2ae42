"""A quote for the terminal: stage table, totals, how sure and how good it is, and the alternatives.

Every number says whether it is a mean or a quantile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from elastune.cluster.billing import bills_nodes
from elastune.planning import BracketQuote, Forecast, FrontierPoint, Objective, Quote, StageQuote
from elastune.reports.charges import tell_minimum_charge
from elastune.reports.kinds_text import kinds_table, tell_price, tell_risk
from elastune.spec import Hopping
from elastune.units import format_confidence, format_duration, format_percent, format_usd, plural

MOST_FRONTIER_ROWS = 20


def render_quote(quote: Quote) -> RenderableType:
    """Everything that was asked for, top to bottom."""
    parts: list[RenderableType] = [_headline(quote)]
    for bracket in quote.brackets:
        table = _stage_table(bracket)
        parts.append(_titled(bracket.name, table) if len(quote.brackets) > 1 else table)
    parts.append(_totals(quote))
    if quote.kinds:
        parts.append(kinds_table(quote.kinds))
    if quote.comparison is not None:
        parts.append(_comparison_table(quote, quote.comparison))
    if quote.frontier is not None:
        parts.append(_frontier_table(quote, quote.frontier))
    return Group(*[line for part in parts for line in ("", part)][1:])


def _headline(quote: Quote) -> Text:
    limits = quote.problem.limits
    what = "Cheapest plan" if quote.objective is Objective.COST else "Fastest plan"
    text = Text(what, style="bold")
    if limits.deadline_s is not None:
        text.append(f" by a deadline of {format_duration(limits.deadline_s)}")
    if limits.budget_usd is not None:
        text.append(f" {'and' if limits.deadline_s else 'for'} a budget of {format_usd(limits.budget_usd)}")
    if limits.deadline_s is not None or limits.budget_usd is not None:
        text.append(f", {format_confidence(limits.confidence)} sure")
    else:
        text.append(" (no deadline and no budget: nothing is promised)")
    text.append(f"  [{quote.planner}]", style="dim")
    if quote.why:
        text.append(f"\n{quote.why}", style="dim")
    price = tell_price(quote.problem.cluster)
    if price is not None:
        text.append(f"\n{price}", style="dim")
    return text


def _stage_table(bracket: BracketQuote) -> Table:
    hops = bracket.stages[0].manner is not None
    sharing = ("epochs", "trials are", "workers") if hops else ("iterations", "slots/trial", "slots")
    table = _table(("stage", "trials", *sharing, "nodes", "mean time", "mean cost"))
    for number, stage in enumerate(bracket.stages, start=1):
        held = f"{stage.nodes}" if stage.nodes == stage.nodes_held else f"{stage.nodes} of {stage.nodes_held}"
        table.add_row(
            f"{number}",
            f"{stage.trials:,}",
            f"{stage.iterations:,}",
            _sharing(stage),
            f"{stage.slots:,}",
            held,
            format_duration(stage.seconds),
            format_usd(stage.cost),
        )
    table.add_section()
    table.add_row(
        "all",
        "",
        "",
        "",
        "",
        "",
        format_duration(bracket.jct_seconds),
        format_usd(bracket.cost),
        style="bold",
    )
    return table


def _sharing(stage: StageQuote) -> str:
    return f"{stage.slots_per_trial}" if stage.manner is None else stage.manner


def _tell_data(hopping: Hopping) -> str:
    parts = plural(hopping.partitions, "partition")
    if hopping.replicas > 1:
        parts += f", each on {hopping.replicas} workers"
    return f"{parts}; they stay on the workers and the models hop"


def _totals(quote: Quote) -> Table:
    limits = quote.problem.limits
    level = format_confidence(limits.confidence)
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim")
    rows.add_column()
    late = format_duration(quote.jct_quantile_seconds)
    finish = f"mean {format_duration(quote.jct_seconds)}, {level} quantile {late}"
    if limits.deadline_s is not None:
        finish += f" (deadline {format_duration(limits.deadline_s)})"
    cost = f"mean {format_usd(quote.cost)}, {level} quantile {format_usd(quote.cost_quantile)}"
    if limits.budget_usd is not None:
        cost += f" (budget {format_usd(limits.budget_usd)})"
    rows.add_row("finish", finish)
    rows.add_row("cost", cost)
    minimum_s = quote.problem.cluster.minimum_charge_s
    if minimum_s > quote.jct_seconds and bills_nodes(quote.problem.cluster):
        rows.add_row("charges", tell_minimum_charge(minimum_s))
    if quote.risk is not None:
        limited = limits.deadline_s is not None or limits.budget_usd is not None
        rows.add_row("spot", tell_risk(quote.risk, limited=limited))
        if limited and quote.risk.share_kept < quote.problem.limits.confidence:
            sure = format_confidence(quote.problem.limits.confidence)
            told = f"with interruptions the limits are kept less often than {sure}: the plan above has none"
            rows.add_row("beware", Text(told, "bold yellow"))
    if quote.stop_when is not None:
        rows.add_row("or earlier", f"as soon as a model has {quote.stop_when}; the numbers are without that")
    if quote.problem.hopping is not None:
        rows.add_row("data", _tell_data(quote.problem.hopping))
    rows.add_row("nodes", f"at most {quote.peak_nodes} at once")
    rows.add_row("how good", _how_good(quote))
    if quote.planner != "static":
        rows.add_row("against static", _against_static(quote))
    if quote.is_thinly_sampled:
        enough = math.ceil(10 / (1 - limits.confidence) - 1e-3)
        rows.add_row("beware", f"{quote.samples:,} samples say little about {level}: use --samples {enough}")
    return rows


def _how_good(quote: Quote) -> str:
    better = "cheaper" if quote.objective is Objective.COST else "faster"
    limited = quote.problem.limits.deadline_s is not None or quote.problem.limits.budget_usd is not None
    no_plan = "no plan that keeps the limits" if limited else "no plan"
    if quote.optimal:
        return f"optimal: {no_plan} is {better} (latencies are constant)"
    if quote.gap is None or quote.lower_bound is None:
        return "nothing is proven about how far from the optimum it is"
    show = format_usd if quote.objective is Objective.COST else format_duration
    bound = f"{no_plan} has a mean below {show(quote.lower_bound)}"
    return f"within {format_percent(quote.gap)} of the optimum: {bound}" if quote.gap >= 5e-4 else bound


def _against_static(quote: Quote) -> str:
    static = quote.static
    if static is None:
        return "no cluster of fixed size keeps the limits"
    nodes = plural(static.peak_nodes, "node")
    where = (
        f"{nodes} throughout" if len(quote.brackets) == 1 else f"a fixed cluster per bracket, {nodes} in all"
    )
    described = f"{where}: mean {format_usd(static.cost)} in {format_duration(static.jct_seconds)}"
    by_cost = quote.objective is Objective.COST
    here, there = (quote.cost, static.cost) if by_cost else (quote.jct_seconds, static.jct_seconds)
    gain = 1 - here / there if there else 0.0
    if abs(gain) < 5e-4:
        return described
    better = (
        f"this plan saves {format_percent(gain)}"
        if by_cost
        else f"this plan is {format_percent(gain)} faster"
    )
    return f"{described}; {better}"


def _comparison_table(quote: Quote, comparison: Mapping[str, Forecast | None]) -> RenderableType:
    level = format_confidence(quote.problem.limits.confidence)
    by_cost = quote.objective is Objective.COST
    ratio = "cost ratio" if by_cost else "time ratio"
    table = _table(
        ("planner", "mean time", f"{level} time", "mean cost", f"{level} cost", ratio, "most nodes")
    )
    for name, other in comparison.items():
        if other is None:
            table.add_row(name, *["none"] * 6, style="dim")
            continue
        value, chosen = (other.cost, quote.cost) if by_cost else (other.jct_seconds, quote.jct_seconds)
        table.add_row(
            name,
            format_duration(other.jct_seconds),
            format_duration(other.jct_quantile_seconds),
            format_usd(other.cost),
            format_usd(other.cost_quantile),
            f"{value / chosen:.2f}x" if chosen else "",
            f"{other.peak_nodes}",
            style="bold" if name == quote.planner else None,
        )
    none = "; none: it finds no plan that keeps them" if None in comparison.values() else ""
    return _titled(f"All planners under the same limits{none}", table)


def _frontier_table(quote: Quote, frontier: tuple[FrontierPoint, ...]) -> RenderableType:
    shown = list(_thinned(frontier, quote))
    left_out = len(frontier) - len(shown)
    table = _table(("mean time", "mean cost", "most nodes", ""))
    for point in shown:
        chosen = _is_chosen(point, quote)
        table.add_row(
            format_duration(point.jct_seconds),
            format_usd(point.cost),
            f"{point.peak_nodes}",
            "chosen" if chosen else "",
            style="bold" if chosen else None,
        )
    title = f"Time against money: {plural(len(frontier), 'plan')} that no other beats in both"
    if left_out:
        title += f" ({left_out:,} between these are left out; --json has all)"
    return _titled(title, table)


def _thinned(frontier: tuple[FrontierPoint, ...], quote: Quote) -> Iterator[FrontierPoint]:
    """At most so many points, both ends and the chosen one among them."""
    last = len(frontier) - 1
    steps = min(MOST_FRONTIER_ROWS - 1, last)
    picked = {round(i * last / steps) for i in range(steps + 1)} if steps else {0}
    for index, point in enumerate(frontier):
        if index in picked or _is_chosen(point, quote):
            yield point


def _is_chosen(point: FrontierPoint, quote: Quote) -> bool:
    return (point.jct_seconds, point.cost) == (quote.jct_seconds, quote.cost)


def _table(columns: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, justify="left" if column == "planner" else "right", no_wrap=True)
    return table


def _titled(title: str, table: Table) -> Group:
    return Group(Text(title, style="bold"), table)
