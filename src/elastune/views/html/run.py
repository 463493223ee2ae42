"""The page of one run: prediction against result first, then pictures, then tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import yaml

from elastune.core.commands import Ending
from elastune.history.forecasts import checked_forecasts
from elastune.history.hopping import HoppingFigures
from elastune.history.status import RunStatus
from elastune.model.configuration import flattened
from elastune.model.ids import TrialId
from elastune.runs.reading import RunReport
from elastune.runs.run_list import RunState
from elastune.views.html.markup import (
    Content,
    Markup,
    card,
    fragment,
    html_facts,
    html_table,
    joined,
    page,
    section,
    tag,
)  # fmt: skip
from elastune.views.run_tables import (
    Measure,
    forecast_table,
    measures_of,
    note_table,
    round_table,
    stage_table,
    trial_table,
)
from elastune.views.table import Table
from elastune.views.terminal.policy import describe_prices
from elastune.views.terminal.run import (
    describe_ending,
    describe_faults,
    final_check_words,
    hopping_facts,
    policy_reason,
    startup_words,
)
from elastune.wording import format_confidence, format_duration, format_percent, plural

_MOST_FAILURES = 20
_MOST_NOTES = 200
_MOST_ROUNDS = 200
_FORECAST_NOTE = (
    "Forecast: the best value of the leader at that time plus the median gain of each doubling of the "
    "iterations, as the trials of this run had shown it by then; ±: one standard deviation."
)
_ROUND_NOTE = (
    "Busy: the share of the workers' time in which they trained or evaluated. "
    "Above bound: by how much the round took longer than its busiest worker and its longest trial need."
)


def run_page(run_report: RunReport, pictures: Mapping[str, Markup]) -> str:
    record = run_report.found.record
    return page(f"{record.name}, run {record.run}", _parts(run_report, pictures))


def run_summary(run_report: RunReport, pictures: Mapping[str, Markup]) -> str:
    """For a notebook: the first part of the page, and the trials."""
    return fragment(_summary_parts(run_report, pictures))


def _summary_parts(run_report: RunReport, pictures: Mapping[str, Markup]) -> Iterator[Content]:
    record, standing = run_report.found.record, run_report.status.standing
    state, tone = _state(run_report)
    yield tag("h3", record.name, tag("span", state, class_=f"badge {tone}"))
    yield from _troubles(standing)
    yield tag("p", f"Policy {policy_reason(run_report.status.job, standing.policy)}.", class_="muted")
    if standing.startup_s:
        yield tag("p", f"Start-up: {startup_words(standing)}.", class_="muted")
    yield tag("div", list(_cards(run_report)), class_="cards")
    if (facts := _best_facts(standing)) is not None:
        yield from (tag("p", "The best configuration", class_="muted"), facts)
    yield from pictures.values()
    if run_report.history.trials:
        table = replace(trial_table(run_report), is_sortable=False)
        yield tag("details", tag("summary", table.title), html_table(table))
    yield tag("p", f"Run {record.run} in {run_report.found.folder.path}", class_="muted")


def _parts(run_report: RunReport, pictures: Mapping[str, Markup]) -> Iterator[Content]:
    standing = run_report.status.standing
    yield _header(run_report)
    yield tag("div", list(_cards(run_report)), class_="cards")
    if standing.conceded:
        yield tag("p", f"Given up: the {' and the '.join(standing.conceded)}.", class_="bad")
    yield _best(standing)
    yield section("What happened", *pictures.values())
    if standing.hopping is not None:
        yield section("How the models hopped", *_hopping(standing.hopping))
    if standing.stages:
        yield _table_section(stage_table(standing))
    if run_report.history.trials:
        yield _table_section(trial_table(run_report))
    if standing.policy == "forecast":
        yield from _forecasts(run_report)
    if standing.failures:
        failed = sum(failure.trials for failure in standing.failures)
        yield section(f"Failures: {plural(failed, 'trial')}", *_failures(run_report))
    if run_report.history.remarks:
        yield _table_section(note_table(run_report.history.remarks, _MOST_NOTES))
    yield section("The job", tag("pre", _job_text(run_report)))
    yield tag("p", f"Drawn from the journal {run_report.found.journal}.", class_="muted")


def _header(run_report: RunReport) -> Markup:
    record, status = run_report.found.record, run_report.status
    state, tone = _state(run_report)
    facts = [
        f"run {record.run}",
        f"seed {record.seed}",
        f"{record.body.value}{describe_faults(status.faults, ' with {}')}",
        f"{record.created_utc:%Y-%m-%d %H:%M} UTC",
    ]
    policy = f"Policy {policy_reason(status.job, status.standing.policy)}."
    texts = [" · ".join(facts), policy, _mishaps(run_report)]
    if status.standing.startup_s:
        texts.append(f"Start-up: {startup_words(status.standing)}.")
    if status.standing.prices is not None:
        texts.append(f"Price: {describe_prices(status.standing.prices)}.")
    parts = [tag("h1", record.name, tag("span", state, class_=f"badge {tone}"))]
    parts += _troubles(status.standing)
    parts += [tag("p", text, class_="muted") for text in texts]
    check = status.final_check
    if check is not None:
        words = f"Machines: {final_check_words(check, status.folder)}."
        parts.append(tag("p", words, class_="bad" if check.left else "muted"))
    return joined(parts)


def _troubles(standing: RunStatus) -> Iterator[Markup]:
    for text in (standing.cause, standing.shortfall):
        if text is not None:
            yield tag("p", f"{text[:1].upper()}{text[1:]}.", class_="bad")


def _state(run_report: RunReport) -> tuple[str, str]:
    status = run_report.status
    ending = status.standing.ending
    if ending is not None:
        tones = {Ending.COMPLETE: "good", Ending.TARGET: "good", Ending.FAILED: "bad"}
        return describe_ending(ending).partition(":")[0], tones.get(ending, "muted")
    if status.state is RunState.RUNNING:
        return "running", "muted"
    return f"interrupted after {plural(status.standing.events, 'event')}", "bad"


def _mishaps(run_report: RunReport) -> str:
    """What went wrong, counted."""
    history = run_report.history
    lost = sum(life.lost for life in history.nodes)
    not_up = [life for life in history.nodes if life.ready_s is None and not life.lost]
    never_up = sum(life.ended_s is not None for life in not_up)
    refused = sum(refusal.nodes for refusal in history.refusals)
    down_s = sum(outage.down_s for outage in history.outages)
    counts = ((lost, "lost"), (refused, "refused"), (never_up, "released before coming up"))
    found = [f"{plural(count, 'node')} {what}" for count, what in counts if count]
    if history.crashes:
        found.append("1 crash" if history.crashes == 1 else f"{history.crashes:,} crashes")
    if history.outages:
        found.append(f"Elastune down {len(history.outages)}× for {format_duration(down_s)} in all")
    if not found:
        return "Nothing went wrong: no node lost, no trial crashed."
    return f"What went wrong: {', '.join(found)}."


def _cards(run_report: RunReport) -> Iterator[Markup]:
    standing, history = run_report.status.standing, run_report.history
    for each in measures_of(standing):
        limit = each.limit(standing.limits)
        yield card(
            each.name.capitalize() + (" so far" if standing.ending is None else ""),
            each.text(standing.actual),
            *_expectations(standing, each),
            None if limit is None else f"{each.limit_name} {each.show(limit)}",
            verdict=each.kept(standing),
        )
    value, where = "none", "no trial has a checkpoint"
    if (best := standing.best) is not None:
        value, where = (
            f"{best.metric:.5g}",
            f"trial {best.trial}, after {plural(best.iterations, 'iteration')}",
        )
    found = f"found after {format_duration(history.best[-1].at_s)}" if history.best else None
    yield card(f"Best {standing.metric}", value, where, found)
    phases = ", ".join(f"{count:,} {phase}" for phase, count in standing.phases.items())
    yield card("Trials", f"{standing.trials:,}", phases, f"{plural(standing.iterations, 'iteration')} in all")
    peak = max(nodes for _, nodes in standing.growth)
    shares = standing.shares
    trained = None if shares is None else f"{format_percent(shares.training)} of the slot time trained"
    yield card("Nodes at once", f"{peak}", f"{plural(len(history.nodes), 'node')} in all", trained)


def _expectations(standing: RunStatus, each: Measure) -> Iterator[str]:
    """The prediction, the difference to it, and its quantile."""
    if standing.predicted is None:
        return
    missed = each.difference(standing)
    yield f"predicted {each.text(standing.predicted)}" + (f" ({missed})" if missed else "")
    if standing.promised is not None:
        yield f"{format_confidence(standing.limits.confidence)} quantile {each.text(standing.promised)}"


def _best(standing: RunStatus) -> Markup | None:
    facts = _best_facts(standing)
    return None if facts is None else section("The best configuration", facts)


def _best_facts(standing: RunStatus) -> Markup | None:
    best = standing.best
    if best is None or not best.config:
        return None
    return html_facts((name, tag("code", f"{value!r}")) for name, value in flattened(best.config).items())


def _table_section(table: Table) -> Markup:
    return section(table.title, html_table(table))


def _forecasts(run_report: RunReport) -> Iterator[Markup]:
    """What was expected of the leaders that were trained further."""
    checked = checked_forecasts(run_report.history, run_report.terms.mode)
    if checked:
        table = forecast_table(checked, run_report.status.standing.metric)
        yield _table_section(replace(table, notes=(_FORECAST_NOTE,)))


def _hopping(hopping: HoppingFigures) -> Iterator[Content]:
    """The facts, then a row for each round."""
    yield html_facts(hopping_facts(hopping))
    rounds = round_table(hopping, _MOST_ROUNDS - 1, 1)
    yield tag("h3", rounds.title)
    yield html_table(replace(rounds, notes=(_ROUND_NOTE,)))


def _failures(run_report: RunReport) -> Iterator[Content]:
    """Trials that failed alike, the most frequent first, with the whole error of the first of them."""
    failures = run_report.status.standing.failures
    for failure in failures[:_MOST_FAILURES]:
        crashes = run_report.history.trials[TrialId(failure.trial)].crashes
        trace = crashes[-1].error.strip() if crashes else failure.error
        summary = (
            f"{plural(failure.trials, 'trial')}, the first is {failure.trial}: ",
            tag("code", failure.error),
        )
        if trace == failure.error:
            yield tag("p", *summary)
        else:
            yield tag("details", tag("summary", *summary), tag("pre", trace))
    if len(failures) > _MOST_FAILURES:
        yield tag("p", f"{len(failures) - _MOST_FAILURES} more kinds of error are not shown.", class_="muted")


def _job_text(run_report: RunReport) -> str:
    """As YAML, without unset keys."""
    given = {key: value for key, value in run_report.job.items() if value is not None}
    return yaml.safe_dump(given, sort_keys=False, allow_unicode=True, width=110)
