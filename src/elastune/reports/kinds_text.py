"""What a quote says of looked-up prices, of interruptions, and of one kind of node against the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from elastune.cluster import ClusterTerms
from elastune.planning.kinds import KindQuote, price_source
from elastune.planning.risk import SpotRisk
from elastune.reports.table import Column, Table, Tone, make_table
from elastune.runs.standing import Prices
from elastune.units import format_duration, format_usd, plural

_LEGEND = "lost: nodes taken away in one rehearsal; kept: rehearsals in which the limits were kept"


def format_price(usd: float) -> str:
    """`$12.24`, `$0.526`: list prices have up to four digits that matter."""
    whole, _, digits = f"{usd:,.4f}".rstrip("0").partition(".")
    return f"${whole}.{digits:0<2}"


def tell_price(terms: ClusterTerms | None) -> str | None:
    """A price that was looked up, with its source; None: the job's own, which its author knows."""
    source = None if terms is None else price_source(terms)
    if terms is None or source is None:
        return None
    most = terms.most_price_per_hour
    dearer = "" if most is None else f", at most {format_price(most)} for what may come instead"
    return f"{format_price(terms.price_per_hour)} per node-hour ({source}){dearer}"


def tell_prices(prices: Prices) -> str:
    """What nodes of a run cost, and those that cost something else."""
    told = f"{format_price(prices.usd_per_hour)} per node-hour ({prices.source})"
    for usd, nodes in prices.others:
        told += f", {plural(nodes, 'node')} at {format_price(usd)}"
    return told


def tell_risk(risk: SpotRisk, *, limited: bool = True) -> str:
    """Without limits there is nothing to keep but the end of the search."""
    least, most = (format_duration(seconds) for seconds in risk.jct_seconds_range)
    kept = f"{risk.kept} of {risk.rehearsals}"
    return (
        f"{risk.interruptions_per_hour:g} interruptions per node-hour; in "
        f"{plural(risk.rehearsals, 'rehearsal')} {risk.interruptions:.2g} of them on average, "
        f"{format_duration(risk.jct_seconds)} ({least} to {most}), {format_usd(risk.cost)}, "
        f"{'limits kept' if limited else 'complete'} in {kept}"
    )


def tell_minimum_charge(seconds: float) -> str:
    """For quotes of runs that are shorter than that."""
    return f"a node is charged for at least {format_duration(seconds)} (cluster.minimum_charge)"


def kind_table(kinds: Sequence[KindQuote]) -> Table:
    """All kinds in the order of the job. Time and cost are with interruptions, where there are any."""
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
    columns.append(
        Column("", lambda kind: "chosen" if kind.chosen else "" if kind.keeps else "no", is_text=True)
    )
    return make_table(
        columns,
        kinds,
        tone=lambda kind: Tone.STRONG if kind.chosen else Tone.PLAIN if kind.keeps else Tone.MUTED,
        title="Kinds of nodes",
        notes=(*([_LEGEND] if is_risky else []), *_notes(kinds)),
    )


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
        yield "no kind is as sure to keep the limits as the job wants; the chosen one comes nearest"
