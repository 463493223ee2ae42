"""The quote of a policy that decides while it runs, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rich.console import RenderableType
from rich.text import Text

from elastune.planning.wording import tell_limits
from elastune.policies.outline import BracketOutline, Outline, RoundOutline
from elastune.reports.kinds_text import kind_table, tell_minimum_charge, tell_price, tell_risk
from elastune.reports.table import Cell, Column, Row, Table, make_table
from elastune.reports.terminal import stacked, terminal_table
from elastune.runs.quoting import PolicyQuote
from elastune.units import format_duration, format_percent, format_usd, plural

# Sums of floats are not exact.
_NOTHING_USD = 1e-6


def render_policy_quote(quote: PolicyQuote) -> RenderableType:
    parts: list[RenderableType] = [_headline(quote)]
    outline = quote.outline
    if outline is not None:
        if outline.brackets:
            parts.append(terminal_table(_bracket_table(outline.brackets)))
        parts.append(terminal_table(_round_table(outline)))
        if outline.spends_leftover:
            first = f"{plural(outline.extra_trials, 'more trial')} in the first round and, later, " * bool(
                outline.extra_trials
            )
            parts.append(Text(f"money left over goes into {first}trials that are next in line", "dim"))
        parts += [Text(warning, "yellow") for warning in _warnings(outline)]
    parts.append(_totals(quote))
    if quote.kinds:
        parts.append(terminal_table(kind_table(quote.kinds)))
    return stacked(parts)


def _warnings(outline: Outline) -> Iterator[str]:
    if outline.has_useless_gangs:
        yield (
            "the profile says that more slots make this training no faster (profile.speedup), yet some "
            "trials get more; with search.max_slots_per_trial: 1 more trials would start"
        )
    if outline.is_hasty:
        yield (
            "the first round is shorter than an iteration on the fewest slots: trials would be compared "
            "before they have a value; raise search.min_round to an iteration or two"
        )


def _headline(quote: PolicyQuote) -> Text:
    given = tell_limits(quote.limits)
    text = Text.assemble(("The best model", "bold"), f" for {given}" if given else "")
    if not given:
        text.append(" (no deadline and no budget: nothing is promised)")
    text.append(f"\n{quote.choice}", "dim")
    price = tell_price(quote.cluster)
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
    return replace(table, rows=(*table.rows, Row(tuple(map(Cell, around)))))


def _gangs(each: RoundOutline) -> str:
    """`8x1 4x2`: eight trials of one slot, four of two."""
    return " ".join(f"{count:,}x{slots}" for slots, count in each.gangs.items())


def _totals(quote: PolicyQuote) -> Text:
    predicted, limits = quote.predicted, quote.limits
    text = Text.assemble(
        "expected to end after ",
        (format_duration(predicted.jct_seconds), "bold"),
        _share(predicted.jct_seconds, limits.deadline_s, "the deadline"),
        " and to cost ",
        (format_usd(predicted.cost), "bold"),
        _share(predicted.cost, limits.budget_usd, "the budget"),
    )
    if quote.is_luck:
        least, most = quote.least, quote.most
        times = f"{format_duration(least.jct_seconds)} to {format_duration(most.jct_seconds)}"
        money = f"{format_usd(least.cost)} to {format_usd(most.cost)}"
        text.append(
            f"\n{times} and {money} in {plural(quote.rehearsals, 'rehearsal')}: how far it goes is luck"
        )
    if quote.minimum_charge_s > predicted.jct_seconds:
        text.append(f"; {tell_minimum_charge(quote.minimum_charge_s)}")
    text.append(
        f"\nabout {plural(round(quote.trials), 'trial')} on at most {plural(quote.peak_nodes, 'node')}"
    )
    if quote.stop_when is not None:
        text.append(f"\nor earlier, as soon as a model has {quote.stop_when}; the numbers are without that")
    count = (limits.deadline_s is not None) + (limits.budget_usd is not None)
    hard = (
        "",
        "\nthe limit is hard: the run ends before it",
        "\nboth limits are hard: the run ends before them",
    )[count]
    promise = f"{hard}, with the best model so far" if hard else ""
    text.append(f", by rehearsals on unknown curves{promise}", "dim")
    if quote.risk is not None:
        text.append(f"\nspot: {tell_risk(quote.risk, limited=bool(count))}")
    return text


def _share(value: float, limit: float | None, name: str) -> str:
    return "" if limit is None else f" ({format_percent(value / limit)} of {name})"
