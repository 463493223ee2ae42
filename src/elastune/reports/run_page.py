"""The page of one run: promise against reality first, then pictures, then tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from elastune.core import Ending
from elastune.providers.rays import Farewell
from elastune.reports.farewell_text import farewell_words
from elastune.reports.kinds_text import tell_prices
from elastune.reports.markup import Content, Markup, joined, tag
from elastune.reports.page import card, page, section
from elastune.reports.run_tables import (
    failure_list,
    hopping_tables,
    job_text,
    remark_list,
    stage_table,
    trial_table,
)
from elastune.reports.simulation_text import policy_reason, tell_ending, tell_faults
from elastune.runs.history.reading import Memoir
from elastune.runs.listing import RunState
from elastune.runs.standing import Prices, Standing
from elastune.units import format_confidence, format_duration, format_percent, format_usd, plural

Show = Callable[[float], str]


def run_page(memoir: Memoir, pictures: Mapping[str, Markup]) -> str:
    """`pictures` in the order in which they are shown."""
    record = memoir.found.record
    return page(f"{record.name}, run {record.run}", _parts(memoir, pictures))


def _parts(memoir: Memoir, pictures: Mapping[str, Markup]) -> Iterator[Content]:
    standing = memoir.status.standing
    yield _header(memoir)
    yield tag("div", list(_cards(memoir)), class_="cards")
    if standing.conceded:
        yield tag("p", f"Gave way: the {' and the '.join(standing.conceded)}.", class_="bad")
    yield _best(standing)
    yield section("What happened", *pictures.values())
    if standing.hopping is not None:
        yield section("How the models hopped", *hopping_tables(standing.hopping))
    if standing.stages:
        yield section("Stages", stage_table(memoir))
    if memoir.history.trials:
        yield section("Trials", *trial_table(memoir))
    if standing.failures:
        failed = sum(failure.trials for failure in standing.failures)
        yield section(f"Failures: {plural(failed, 'trial')}", *failure_list(memoir))
    notes = list(remark_list(memoir))
    if notes:
        yield section("Notes", *notes)
    yield section("The job", tag("pre", job_text(memoir)))
    yield tag("p", f"Drawn from the journal {memoir.found.journal}.", class_="muted")


def _header(memoir: Memoir) -> Markup:
    record, status = memoir.found.record, memoir.status
    state, tone = _state(memoir)
    facts = [
        f"run {record.run}",
        f"seed {record.seed}",
        f"{record.body.value}{tell_faults(status.faults, ' with {}')}",
        f"{record.created_utc:%Y-%m-%d %H:%M} UTC",
    ]
    return joined(
        [
            tag("h1", record.name, tag("span", state, class_=f"badge {tone}")),
            tag("p", " · ".join(facts), class_="muted"),
            tag("p", f"Policy {policy_reason(status.job, status.standing.policy)}.", class_="muted"),
            tag("p", _mishaps(memoir), class_="muted"),
            _prices(status.standing.prices),
            _machines(status.farewell),
        ]
    )


def _prices(prices: Prices | None) -> Markup | None:
    return None if prices is None else tag("p", f"Price: {tell_prices(prices)}.", class_="muted")


def _machines(farewell: Farewell | None) -> Markup | None:
    if farewell is None:
        return None
    words = farewell_words(farewell)
    return tag("p", f"Machines: {words}.", class_="bad" if farewell.left else "muted")


def _state(memoir: Memoir) -> tuple[str, str]:
    status = memoir.status
    ending = status.standing.ending
    if ending is not None:
        tones = {Ending.COMPLETE: "good", Ending.TARGET: "good", Ending.FAILED: "bad"}
        return tell_ending(ending).partition(":")[0], tones.get(ending, "muted")
    if status.state is RunState.RUNNING:
        return "running", "muted"
    return f"interrupted after {plural(status.standing.events, 'event')}", "bad"


def _mishaps(memoir: Memoir) -> str:
    """Whatever went wrong, counted; a good day is told, too."""
    history = memoir.history
    lost = sum(life.lost for life in history.nodes)
    never_up = sum(
        life.ready_s is None and life.ended_s is not None and not life.lost for life in history.nodes
    )
    refused = sum(refusal.nodes for refusal in history.refusals)
    down_s = sum(outage.down_s for outage in history.outages)
    told = [
        f"{plural(count, noun)} {what}"
        for count, noun, what in (
            (lost, "node", "lost"),
            (refused, "node", "refused"),
            (never_up, "node", "given back before coming up"),
        )
        if count
    ]
    told += [plural(history.crashes, "crash").replace("crashs", "crashes")] if history.crashes else []
    if history.outages:
        told.append(f"Elastune down {len(history.outages)}× for {format_duration(down_s)} in all")
    return (
        f"What went wrong: {', '.join(told)}."
        if told
        else "Nothing went wrong: no node lost, no trial crashed."
    )


def _cards(memoir: Memoir) -> Iterator[Markup]:
    standing, history = memoir.status.standing, memoir.history
    limits, actual = standing.limits, standing.actual
    over = standing.ending is not None
    for name, key, show, limit, kept in (
        ("Time", "jct_seconds", format_duration, limits.deadline_s, standing.keeps_deadline),
        ("Cost", "cost", format_usd, limits.budget_usd, standing.keeps_budget),
    ):
        real = getattr(actual, key)
        yield card(
            name if over else f"{name} so far",
            show(real),
            *_expectations(standing, key, real, show),
            None if limit is None else f"{'deadline' if name == 'Time' else 'budget'} {show(limit)}",
            verdict=kept if over or kept is False else None,
        )
    best = standing.best
    yield card(
        f"Best {standing.metric}",
        "none" if best is None else f"{best.metric:.5g}",
        "no trial has a checkpoint"
        if best is None
        else f"trial {best.trial}, after {plural(best.iterations, 'iteration')}",
        None if not history.best else f"found after {format_duration(history.best[-1].at_s)}",
    )
    phases = ", ".join(f"{count:,} {phase}" for phase, count in standing.phases.items())
    yield card("Trials", f"{standing.trials:,}", phases, f"{plural(standing.iterations, 'iteration')} in all")
    peak = max(nodes for _, nodes in standing.growth)
    shares = standing.shares
    trained = None if shares is None else f"{format_percent(shares.training)} of the slot time trained"
    yield card("Nodes at once", f"{peak}", f"{plural(len(history.nodes), 'node')} in all", trained)


def _expectations(standing: Standing, key: str, real: float, show: Show) -> Iterator[str]:
    """What was predicted, by how much it was missed, and what had been promised."""
    if standing.predicted is None:
        return
    expected: float = getattr(standing.predicted, key)
    missed = f" ({real / expected - 1:+.1%})" if expected and standing.ending is not None else ""
    yield f"predicted {show(expected)}{missed}"
    if standing.promised is not None:
        level = format_confidence(standing.limits.confidence)
        yield f"{level} quantile {show(getattr(standing.promised, key))}"


def _best(standing: Standing) -> Markup | None:
    best = standing.best
    if best is None or not best.config:
        return None
    rows = [
        tag("tr", tag("td", name, class_="words"), tag("td", tag("code", f"{value!r}"), class_="words"))
        for name, value in best.config.items()
    ]
    return section("The best configuration", tag("table", tag("tbody", rows)))
