"""The quote of a policy that decides while it runs; and prices, risk and node kinds in all quotes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from elastune.model.cluster import ClusterTerms
from elastune.model.limits import describe_limits
from elastune.planning.quote import KindQuote, SpotRisk, price_source
from elastune.policies.outline import BracketOutline, Outline, RoundOutline
from elastune.views.table import Cell, Column, Table, TableRow, Tone, make_table, stacked, terminal_table
from elastune.wording import format_duration, format_percent, format_usd, plural

if TYPE_CHECKING:
    from elastune.history.status import NodePrices
    from elastune.runs.quotes.policy_quote import PolicyQuote

# Sums of floats are not exact.
_NOTHING_USD = 1e-6
_LEGEND = "lost: nodes taken away in one simulation; kept: simulations in which the limits were kept"


def format_price(usd: float) -> str:
    """`$12.24`, `$0.526`: list prices have up to four decimals."""
    whole, _, digits = f"{usd:,.4f}".rstrip("0").partition(".")
    return f"${whole}.{digits:0<2}"


def describe_price(terms: ClusterTerms | None) -> str | None:
    """A price that was looked up, with its source; None: the price is from the job."""
    source = None if terms is None else price_source(terms)
    if terms is None or source is None:
        return None
    most = terms.most_price_per_hour
    dearer = "" if most is None else f", at most {format_price(most)} for what may come instead"
    return f"{format_price(terms.price_per_hour)} per node-hour ({source}){dearer}"


def describe_prices(prices: NodePrices) -> str:
    """The price of a run's nodes, and of those at other prices."""
    others = "".join(f", {plural(nodes, 'node')} at {format_price(usd)}" for usd, nodes in prices.others)
    return f"{format_price(prices.usd_per_hour)} per node-hour ({prices.source}){others}"


def describe_risk(risk: SpotRisk, *, limited: bool = True) -> str:
    """`limited`: there are limits to keep; otherwise completed searches are counted."""
    least, most = (format_duration(seconds) for seconds in risk.jct_seconds_range)
    kept = f"{risk.kept} of {risk.rehearsals}"
    money = f"{format_usd(risk.cost)}, " if risk.cost else ""
    return (
        f"{risk.interruptions_per_hour:g} interruptions per node-hour; in "
        f"{plural(risk.rehearsals, 'simulation')} {risk.interruptions:.2g} of them on average, "
        f"{format_duration(risk.jct_seconds)} ({least} to {most}), {money}"
        f"{'limits kept' if limited else 'complete'} in {kept}"
    )


def describe_minimum_charge(seconds: float) -> str:
    return f"a node is charged for at least {format_duration(seconds)} (cluster.minimum_charge)"


def kind_table(kinds: Sequence[KindQuote]) -> Table:
    """All kinds in the order of the job. Time and cost include interruptions."""
    is_risky = any(kind.risk is not None for kind in kinds)
    columns: list[Column[KindQuote]] = [
        Column("kind", lambda kind: kind.name, is_text=True),
        Column("per hour", lambda kind: kind.price_per_hour, format_price),
        Column("time", lambda kind: None if kind.cost is None else kind.expected_seconds, format_duration),
        Column("cost", lambda kind: None if kind.cost is None else kind.expected_cost, format_usd),
    ]
    if any(kind.iterations is not None for kind in kinds):
        columns.append(Column("iterations", lambda kind: kind.iterations, lambda count: f"{count:,.0f}"))
    if is_risky:
        columns += [
            Column("lost", lambda kind: f"{kind.risk.interruptions:.2g}" if kind.risk else ""),
            Column("kept", lambda kind: f"{kind.risk.kept} of {kind.risk.rehearsals}" if kind.risk else ""),
        ]
    columns.append(Column("", lambda kind: _verdict(kind)[0], is_text=True))
    notes = (*([_LEGEND] if is_risky else []), *_notes(kinds))
    return make_table(
        columns, kinds, tone=lambda kind: _verdict(kind)[1], title="Kinds of nodes", notes=notes
    )


def _verdict(kind: KindQuote) -> tuple[str, Tone]:
    return ("chosen", Tone.STRONG) if kind.chosen else ("", Tone.PLAIN) if kind.keeps else ("no", Tone.MUTED)


def _notes(kinds: Sequence[KindQuote]) -> Iterator[str]:
    sources: dict[str, list[str]] = {}
    for kind in kinds:
        if kind.price_source is not None:
            sources.setdefault(kind.price_source, []).append(kind.name)
    yield from (f"{', '.join(names)}: {source}" for source, names in sources.items())
    for kind in kinds:
        if kind.why_not:
            yield f"{kind.name}: {kind.why_not}"
    if not any(kind.keeps for kind in kinds):
        yield "no kind keeps the limits with the confidence of the job; the chosen one comes nearest"


def render_policy_quote(quote: PolicyQuote) -> RenderableType:
    parts: list[RenderableType] = [_headline(quote)]
    outline = quote.outline
    if outline is not None:
        tables = [_bracket_table(outline.brackets)] if outline.brackets else []
        tables.append(_round_table(outline))
        parts += [terminal_table(table.without_money() if quote.is_free else table) for table in tables]
        if outline.spends_leftover and not quote.is_free:
            first = f"{plural(outline.extra_trials, 'more trial')} in the first round and, later, "
            first = first if outline.extra_trials else ""
            parts.append(Text(f"money left over goes into {first}trials that are next in line", "dim"))
        parts += [Text(warning, "yellow") for warning in _warnings(outline)]
    if quote.intentions:
        parts.append(Text("\n".join(quote.intentions)))
    parts.append(_totals(quote))
    if quote.kinds:
        parts.append(terminal_table(kind_table(quote.kinds)))
    return stacked(parts)


def _warnings(outline: Outline) -> Iterator[str]:
    if outline.has_useless_gangs:
        yield (
            "by the profile, more slots make this training no faster (profile.speedup), but some trials get "
            "more; with search.max_slots_per_trial: 1 more trials would start"
        )
    if outline.is_hasty:
        yield (
            "the first round is shorter than an iteration on the fewest slots: trials would be compared "
            "before they have a value; raise search.min_round to an iteration or two"
        )


def _headline(quote: PolicyQuote) -> Text:
    given = describe_limits(quote.limits)
    text = Text.assemble(("The best model", "bold"), f" for {given}" if given else "")
    if not given:
        text.append(" (no deadline and no budget: nothing is promised)")
    text.append(f"\n{quote.choice}", "dim")
    price = describe_price(quote.cluster)
    return text if price is None else text.append(f"\n{price}", "dim")


def _bracket_table(brackets: tuple[BracketOutline, ...]) -> Table:
    columns: list[Column[tuple[int, BracketOutline]]] = [
        Column("bracket", lambda each: each[0]),
        Column("slots/trial", lambda each: each[1].slots_per_trial),
        Column("trials", lambda each: each[1].trials),
        Column("slot minutes", lambda each: f"{each[1].slot_seconds / 60:,.1f}"),
        Column("budget", lambda each: each[1].budget_usd, format_usd),
    ]
    return make_table(columns, enumerate(brackets, start=1))


def _round_table(outline: Outline) -> Table:
    several = len({each.track for each in outline.rounds}) > 1
    columns: list[Column[RoundOutline]] = [
        Column("round", lambda each: each.number, total="" if several else "all"),
        Column("trials", lambda each: each.trials),
        Column("of slots", _gangs),
        Column("slots", lambda each: each.slots),
        Column("nodes", lambda each: each.nodes),
        Column("time", lambda each: each.seconds, format_duration, total=outline.seconds),
        Column("cost", lambda each: each.usd, format_usd, total=outline.usd),
    ]
    if several:
        columns.insert(0, Column("bracket", lambda each: each.track + 1, total="all"))
    table = make_table(columns, outline.rounds, has_total=True)
    if outline.around_s <= 0.0 and outline.around_usd <= _NOTHING_USD:
        return table
    around = ["boot, save, idle" if several else "boot, save", *[""] * (len(columns) - 3)]
    around += [format_duration(outline.around_s), format_usd(outline.around_usd)]
    return replace(table, rows=(*table.rows, TableRow(tuple(map(Cell, around)))))


def _gangs(each: RoundOutline) -> str:
    """`8x1 4x2`: eight trials of one slot, four of two."""
    return " ".join(f"{count:,}x{slots}" for slots, count in each.gangs.items())


def _totals(quote: PolicyQuote) -> Text:
    predicted, limits = quote.predicted, quote.limits
    text = Text.assemble(
        "expected to end after ",
        (format_duration(predicted.jct_seconds), "bold"),
        _share(predicted.jct_seconds, limits.deadline_s, "the deadline"),
    )
    if not quote.is_free:
        text.append(" and to cost ")
        text.append(format_usd(predicted.cost), "bold")
        text.append(_share(predicted.cost, limits.budget_usd, "the budget"))
    if quote.is_luck:
        least, most = quote.least, quote.most
        times = f"{format_duration(least.jct_seconds)} to {format_duration(most.jct_seconds)}"
        money = "" if quote.is_free else f" and {format_usd(least.cost)} to {format_usd(most.cost)}"
        simulations = plural(quote.rehearsals, "simulation")
        text.append(f"\n{times}{money} in {simulations}: how far a search goes is random")
    if quote.minimum_charge_s > predicted.jct_seconds and not quote.is_free:
        text.append(f"; {describe_minimum_charge(quote.minimum_charge_s)}")
    trials, nodes = plural(round(quote.trials), "trial"), plural(quote.peak_nodes, "node")
    text.append(f"\nabout {trials} on at most {nodes}")
    if quote.stop_when is not None:
        text.append(f"\nor earlier, as soon as a model has {quote.stop_when}; the numbers are without that")
    count = (limits.deadline_s is not None) + (limits.budget_usd is not None)
    hard, end = ("both limits are", "them") if count > 1 else ("the limit is", "it")
    promise = f"\n{hard} hard: the run ends before {end}, with the best model so far" if count else ""
    text.append(f", by simulations on unknown curves{promise}", "dim")
    if quote.risk is not None:
        text.append(f"\nspot: {describe_risk(quote.risk, limited=bool(count))}")
    return text


def _share(value: float, limit: float | None, name: str) -> str:
    return "" if limit is None else f" ({format_percent(value / limit)} of {name})"
