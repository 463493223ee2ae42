"""The quote of a policy that decides while it runs, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from elastune.planning.wording import tell_limits
from elastune.policies.outline import BracketOutline, Outline, RoundOutline
from elastune.reports.charges import tell_minimum_charge
from elastune.reports.kinds_text import kinds_table, tell_price, tell_risk
from elastune.reports.tables import number_table, stacked
from elastune.runs.quoting import PolicyQuote
from elastune.units import format_duration, format_percent, format_usd, plural

# Sums of floats are not exact.
_NOTHING_USD = 1e-6


def render_policy_quote(quote: PolicyQuote) -> RenderableType:
    parts: list[RenderableType] = [_headline(quote)]
    outline = quote.outline
    if outline is not None:
        if outline.brackets:
            parts.append(_brackets(outline.brackets))
        parts.append(_rounds(outline))
        if outline.spends_leftover:
            first = f"{plural(outline.extra_trials, 'more trial')} in the first round and, later, " * bool(
                outline.extra_trials
            )
            parts.append(Text(f"money left over goes into {first}trials that are next in line", "dim"))
        parts += [Text(warning, "yellow") for warning in _warnings(outline)]
    parts.append(_totals(quote))
    if quote.kinds:
        parts.append(kinds_table(quote.kinds))
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


def _brackets(brackets: tuple[BracketOutline, ...]) -> Table:
    table = number_table(("bracket", "slots/trial", "trials", "slot minutes", "budget"))
    for number, bracket in enumerate(brackets, start=1):
        table.add_row(
            f"{number}",
            f"{bracket.slots_per_trial}",
            f"{bracket.trials:,}",
            f"{bracket.slot_seconds / 60:,.1f}",
            format_usd(bracket.budget_usd),
        )
    return table


def _rounds(outline: Outline) -> Table:
    several = len({each.track for each in outline.rounds}) > 1
    first = ("bracket", "round") if several else ("round",)
    table = number_table((*first, "trials", "of slots", "slots", "nodes", "time", "cost"))
    for each in outline.rounds:
        name = (f"{each.track + 1}", f"{each.number}") if several else (f"{each.number}",)
        table.add_row(
            *name,
            f"{each.trials:,}",
            _gangs(each),
            f"{each.slots:,}",
            f"{each.nodes:,}",
            format_duration(each.seconds),
            format_usd(each.usd),
        )
    blank = [""] * (len(table.columns) - 3)
    around = "boot, save" if not several else "boot, save, idle"
    if outline.around_s > 0.0 or outline.around_usd > _NOTHING_USD:
        table.add_row(around, *blank, format_duration(outline.around_s), format_usd(outline.around_usd))
    table.add_row("all", *blank, format_duration(outline.seconds), format_usd(outline.usd), style="bold")
    return table


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
