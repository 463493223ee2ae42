"""A quote for the terminal: stage table, totals, how sure and how good it is, and the alternatives.

Every number says whether it is a mean or a quantile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from elastune.hopping.partitions import Hopping
from elastune.model.billing import bills_nodes
from elastune.model.limits import ROUNDING, Objective
from elastune.planning.quote import (
    BracketQuote,
    Forecast,
    FrontierPoint,
    Quote,
    ReplannedMeans,
    SpeedRange,
    SpotRisk,
    StageQuote,
)
from elastune.views.table import Column, Table, Tone, fact_table, make_table, stacked, terminal_table
from elastune.views.terminal.policy import (
    describe_minimum_charge,
    describe_price,
    describe_risk,
    kind_table,
    render_policy_quote,
)
from elastune.wording import (
    format_confidence,
    format_duration,
    format_percent,
    format_usd,
    plural,
    time_and_money,
)

if TYPE_CHECKING:
    from elastune.runs.quotes.policy_quote import PolicyQuote

MOST_FRONTIER_ROWS = 20


def render_any_quote(quote: Quote | PolicyQuote) -> RenderableType:
    return render_quote(quote) if isinstance(quote, Quote) else render_policy_quote(quote)


def render_quote(quote: Quote) -> RenderableType:
    parts: list[RenderableType] = [_headline(quote)]
    is_free = quote.problem.cluster.is_free
    tables = quoted_stage_tables(quote)
    parts += [terminal_table(each.without_money() if is_free else each) for each in tables]
    parts.append(fact_table(_totals(quote)))
    if quote.kinds:
        parts.append(terminal_table(kind_table(quote.kinds)))
    if quote.comparison is not None:
        parts.append(terminal_table(_planner_table(quote, quote.comparison)))
    if quote.frontier is not None:
        parts.append(terminal_table(_frontier_table(quote, quote.frontier)))
    return stacked(parts)


def _headline(quote: Quote) -> Text:
    limits = quote.problem.limits
    by_cost = quote.objective is Objective.COST and not quote.problem.cluster.is_free
    what = "Cheapest plan" if by_cost else "Fastest plan"
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
    for line in (quote.why, describe_price(quote.problem.cluster)):
        text.append(f"\n{line}" if line else "", style="dim")
    return text


def quoted_stage_table(bracket: BracketQuote, *, title: str = "") -> Table:
    hops = bracket.stages[0].manner is not None
    iterations, each_has, slots = (
        ("epochs", "trials are", "workers") if hops else ("iterations", "slots/trial", "slots")
    )
    columns: list[Column[tuple[int, StageQuote]]] = [
        Column("stage", lambda each: each[0], total="all"),
        Column("trials", lambda each: each[1].trials),
        Column(iterations, lambda each: each[1].iterations),
        Column(each_has, lambda each: each[1].manner or each[1].slots_per_trial),
        Column(slots, lambda each: each[1].slots),
        Column("nodes", lambda each: _describe_nodes(each[1])),
        Column("mean time", lambda each: each[1].seconds, format_duration, total=bracket.jct_seconds),
        Column("mean cost", lambda each: each[1].cost, format_usd, total=bracket.cost),
    ]
    return make_table(columns, enumerate(bracket.stages, start=1), has_total=True, title=title)


def quoted_stage_tables(quote: Quote) -> Iterator[Table]:
    """One for each bracket, titled if there are several."""
    for bracket in quote.brackets:
        yield quoted_stage_table(bracket, title=bracket.name if len(quote.brackets) > 1 else "")


def _describe_nodes(stage: StageQuote) -> str:
    return f"{stage.nodes}" if stage.nodes == stage.nodes_held else f"{stage.nodes} of {stage.nodes_held}"


def _describe_data(hopping: Hopping) -> str:
    parts = plural(hopping.partitions, "partition")
    if hopping.replicas > 1:
        parts += f", each on {hopping.replicas} workers"
    return f"{parts}; they stay on the workers and the models hop"


def _totals(quote: Quote) -> Iterator[tuple[str, str | Text]]:
    limits = quote.problem.limits
    level = format_confidence(limits.confidence)
    late = format_duration(quote.jct_quantile_seconds)
    finish = f"mean {format_duration(quote.jct_seconds)}, {level} quantile {late}"
    if limits.deadline_s is not None:
        finish += f" (deadline {format_duration(limits.deadline_s)})"
    yield "finish", finish
    if not quote.problem.cluster.is_free:
        yield from _costs(quote, level)
    if quote.replanned is not None:
        yield "expected", _describe_replanned(quote.replanned)
    if quote.speeds is not None:
        yield "speed", _describe_speeds(quote.speeds, level)
    if quote.risk is not None:
        yield from _spot(quote, quote.risk, level)
    if quote.stop_when is not None:
        yield "or earlier", f"as soon as a model has {quote.stop_when}; the numbers are without that"
    if quote.problem.hopping is not None:
        yield "data", _describe_data(quote.problem.hopping)
    yield "nodes", f"at most {quote.peak_nodes} at once"
    yield "how good", _how_good(quote)
    if quote.planner != "static" and not quote.problem.cluster.is_free:
        yield "against static", _against_static(quote)
    if quote.is_thinly_sampled:
        enough = math.ceil(10 / (1 - limits.confidence) - 1e-3)
        yield "warning", f"{quote.samples:,} samples say little about {level}: use --samples {enough}"


def _costs(quote: Quote, level: str) -> Iterator[tuple[str, str]]:
    limits, cluster = quote.problem.limits, quote.problem.cluster
    cost = f"mean {format_usd(quote.cost)}, {level} quantile {format_usd(quote.cost_quantile)}"
    if limits.budget_usd is not None:
        cost += f" (budget {format_usd(limits.budget_usd)})"
    yield "cost", cost
    if cluster.minimum_charge_s > quote.jct_seconds and bills_nodes(cluster):
        yield "charges", describe_minimum_charge(cluster.minimum_charge_s)


def _spot(quote: Quote, risk: SpotRisk, level: str) -> Iterator[tuple[str, str | Text]]:
    limits = quote.problem.limits
    limited = limits.deadline_s is not None or limits.budget_usd is not None
    yield "spot", describe_risk(risk, limited=limited)
    if limited and risk.share_kept < limits.confidence:
        text = f"with interruptions the limits are kept less often than {level}: the plan above has none"
        yield "warning", Text(text, "bold yellow")


def _describe_replanned(means: ReplannedMeans) -> str:
    taken = time_and_money(means.jct_seconds, means.cost)
    runs = plural(means.simulations, "simulated run")
    late, usd = (
        f"{show(low)} to {show(high)}"
        for show, (low, high) in ((format_duration, means.jct_seconds_range), (format_usd, means.cost_range))
    )
    usual = f"{late} and {usd}" if means.cost else late
    return (
        f"{taken}: the mean of {runs}, which plan the rest again at each barrier. Depending on which "
        f"trials go on, nine of ten take {usual}"
    )


def _describe_speeds(speeds: SpeedRange, level: str) -> str:
    spread = format_percent(speeds.spread)
    what = f"configurations differ by {spread}, their speed is not known before they train"
    if speeds.known:
        what = f"the {speeds.known} configurations are drawn and their speed is predicted up to {spread}"
    late = format_duration(speeds.jct_quantile_seconds)
    if speeds.cost_quantile:
        late += f" and {format_usd(speeds.cost_quantile)}"
    return (
        f"{what}. The {level} quantiles hold even if the slower ones are the better ones; if speed has "
        f"nothing to do with quality they are {late}. At each barrier the rest is planned again "
        "if the trials that go on differ in speed"
    )


def _how_good(quote: Quote) -> str:
    """With several kinds of nodes: of plans on the chosen one, and what is proven of the others."""
    text, here = _proven(quote), quote.kind
    if here is None or quote.lower_bound is None:
        return text
    least = quote.bound_on_any_kind
    if least is None:
        return f"on {here.name}, {text}"
    if least >= quote.lower_bound * (1 - ROUNDING):
        return f"{text}, on any kind of node"
    show = format_usd if quote.objective is Objective.COST else format_duration
    return f"on {here.name}, {text}; on any kind none below {show(least)}"


def _proven(quote: Quote) -> str:
    if quote.problem.cluster.is_free and quote.objective is Objective.COST:
        return "the fastest of the plans that were tried"
    better = "cheaper" if quote.objective is Objective.COST else "faster"
    limited = quote.problem.limits.deadline_s is not None or quote.problem.limits.budget_usd is not None
    no_plan = "no plan that keeps the limits" if limited else "no plan"
    if quote.optimal:
        return f"optimal: {no_plan} is {better} (latencies are constant)"
    if quote.gap is None or quote.lower_bound is None:
        return "nothing is proven about the distance to the optimum"
    show = format_usd if quote.objective is Objective.COST else format_duration
    bound = f"{no_plan} has a mean below {show(quote.lower_bound)}"
    return f"within {format_percent(quote.gap)} of the optimum: {bound}" if quote.gap >= 5e-4 else bound


def _against_static(quote: Quote) -> str:
    static = quote.static
    if static is None:
        return "no cluster of fixed size was found that keeps the limits"
    nodes = plural(static.peak_nodes, "node")
    one = len(quote.brackets) == 1
    where = f"{nodes} throughout" if one else f"a fixed cluster per bracket, {nodes} in all"
    described = f"{where}: mean {format_usd(static.cost)} in {format_duration(static.jct_seconds)}"
    by_cost = quote.objective is Objective.COST
    here, there = (quote.cost, static.cost) if by_cost else (quote.jct_seconds, static.jct_seconds)
    gain = 1 - here / there if there else 0.0
    if abs(gain) < 5e-4:
        return described
    share = format_percent(gain)
    return f"{described}; this plan {f'saves {share}' if by_cost else f'is {share} faster'}"


def _planner_table(quote: Quote, comparison: Mapping[str, Forecast | None]) -> Table:
    level = format_confidence(quote.problem.limits.confidence)
    by_cost = quote.objective is Objective.COST
    chosen = quote.cost if by_cost else quote.jct_seconds

    def of(show: Callable[[Forecast], str]) -> Callable[[tuple[str, Forecast | None]], str]:
        return lambda each: "none" if each[1] is None else show(each[1])

    def ratio(plan: Forecast) -> str:
        value = plan.cost if by_cost else plan.jct_seconds
        return f"{value / chosen:.2f}x" if chosen else ""

    columns: list[Column[tuple[str, Forecast | None]]] = [
        Column("planner", lambda each: each[0], is_text=True),
        Column("mean time", of(lambda plan: format_duration(plan.jct_seconds))),
        Column(f"{level} time", of(lambda plan: format_duration(plan.jct_quantile_seconds))),
        Column("mean cost", of(lambda plan: format_usd(plan.cost))),
        Column(f"{level} cost", of(lambda plan: format_usd(plan.cost_quantile))),
        Column("cost ratio" if by_cost else "time ratio", of(ratio)),
        Column("most nodes", of(lambda plan: f"{plan.peak_nodes}")),
    ]
    tones = {name: Tone.MUTED if plan is None else Tone.PLAIN for name, plan in comparison.items()}
    tones[quote.planner] = Tone.STRONG
    none = "; none: it finds no plan that keeps them" if None in comparison.values() else ""
    title = f"All planners under the same limits{_on_kind(quote)}{none}"
    table = make_table(columns, comparison.items(), tone=lambda each: tones[each[0]], title=title)
    is_free = quote.problem.cluster.is_free
    return table.of_columns(lambda column: "cost" not in column.title) if is_free else table


def _frontier_table(quote: Quote, frontier: tuple[FrontierPoint, ...]) -> Table:
    shown = list(_thinned(frontier, quote))
    is_free, plans = quote.problem.cluster.is_free, plural(len(frontier), "plan")
    title = f"Time against money{_on_kind(quote)}: {plans} that no other beats in both"
    if is_free:
        title = f"Machines that cost nothing{_on_kind(quote)}: {plans} that no other beats in time"
    if len(frontier) > len(shown):
        title += f" ({len(frontier) - len(shown):,} between these are left out; --json has all)"
    columns: list[Column[FrontierPoint]] = [
        Column("mean time", lambda point: point.jct_seconds, format_duration),
        Column("mean cost", lambda point: point.cost, format_usd),
        Column("most nodes", lambda point: point.peak_nodes),
        Column("", lambda point: "chosen" if _is_chosen(point, quote) else ""),
    ]
    tones = {True: Tone.STRONG, False: Tone.PLAIN}
    table = make_table(columns, shown, tone=lambda point: tones[_is_chosen(point, quote)], title=title)
    return table.without_money() if is_free else table


def _on_kind(quote: Quote) -> str:
    """Planners and plans are compared on one kind of node."""
    return "" if quote.kind is None else f" on {quote.kind.name}"


def _thinned(frontier: tuple[FrontierPoint, ...], quote: Quote) -> Iterator[FrontierPoint]:
    """At most 20 points, and the chosen one; both ends are among them."""
    last = len(frontier) - 1
    steps = min(MOST_FRONTIER_ROWS - 1, last)
    picked = {round(i * last / steps) for i in range(steps + 1)} if steps else {0}
    for index, point in enumerate(frontier):
        if index in picked or _is_chosen(point, quote):
            yield point


def _is_chosen(point: FrontierPoint, quote: Quote) -> bool:
    return (point.jct_seconds, point.cost) == (quote.jct_seconds, quote.cost)
