"""What came of simulated runs: one in full, many in a few lines per policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from elastune.core import Ending
from elastune.job import Job
from elastune.job.choice import choose, choose_policy
from elastune.reports.hopping_text import hopping_parts
from elastune.reports.standing_text import (
    Formatter,
    facts,
    failure_table,
    promise_table,
    remark_table,
    stage_table,
    verdict,
)
from elastune.reports.tables import FirstThatFits, fact_table, number_table, stacked, titled
from elastune.runs.campaign import Campaign
from elastune.runs.overview import Overview
from elastune.runs.standing import Standing, is_many
from elastune.runs.summary import Figures, PolicySummary
from elastune.spec.mode import Mode
from elastune.units import format_confidence, format_duration, format_usd, plural

_MOST_REMARKS = 8
_ENDINGS = {
    Ending.COMPLETE: "complete",
    Ending.TARGET: "reached the target",
    Ending.DEADLINE: "stopped at the deadline",
    Ending.BUDGET: "stopped at the budget",
    Ending.STOPPED: "stopped by request",
    Ending.FAILED: "failed: no trial is left, or no node could be had",
}


def render_campaign(campaign: Campaign) -> RenderableType:
    """Nothing but where it is kept, if no run came to its end."""
    overview = campaign.overview
    several = overview.asked > 1 and campaign.runs
    parts = list(render_overview(overview) if several else _one(campaign) if campaign.runs else ())
    return stacked([*parts, _cut(campaign, overview) if campaign.interrupted else _where(campaign, overview)])


def render_overview(overview: Overview) -> Iterator[RenderableType]:
    """Several runs: figures by policy, each against the first, and how they ended."""
    summaries = overview.summaries
    seeds = overview.seeds
    what = plural(len(seeds), "seed") + (f" ({seeds[0]} to {seeds[-1]})" if len(seeds) > 1 else "")
    headline = Text.assemble((overview.name, "bold"), f", simulated: {what}")
    if len(overview.runs) < overview.asked:
        headline.append(f", {len(overview.runs):,} of {plural(overview.asked, 'run')}", "yellow")
    headline.append(tell_faults(overview.faults, "  [{}]"), "dim")
    level = format_confidence(summaries[0].limits.confidence)
    best = f"best: the {summaries[0].metric_name} of the best model ({summaries[0].mode.value})"
    headline.append(f"\n{best}; {level}: quantile of the prediction; se: standard error", "dim")
    yield headline
    yield FirstThatFits(_figures_table(summaries, sd=True), _figures_table(summaries, sd=False))
    if any(summary.against is not None for summary in summaries):
        yield _against_table(summaries)
    yield _outcomes(overview.seeds, summaries)


def policy_reason(job: Job, policy: str) -> str:
    return str(choose(job, None if policy == choose_policy(job) else policy))


def tell_ending(ending: Ending) -> str:
    return _ENDINGS[ending]


def tell_faults(faults: str | None, within: str = ", {}") -> str:
    """Nothing if there were none; `within` has a place for the words."""
    if faults in (None, "none"):
        return ""
    return within.format(f"faults {faults}" if "=" in str(faults) else f"{faults} faults")


def _one(campaign: Campaign) -> Iterator[RenderableType]:
    run, setup = campaign.runs[0], campaign.contestants[0].setup
    standing = run.standing
    headline = Text.assemble(
        (setup.job.name, "bold"), ", simulated: ", (tell_ending(run.result.ending), "bold")
    )
    headline.append(f"  [seed {run.result.seed}{tell_faults(campaign.faults)}]", "dim")
    headline.append(f"\npolicy {policy_reason(setup.job, setup.policy)}")
    yield headline
    yield from account(standing, "simulated")


def account(standing: Standing, so_far: str) -> Iterator[RenderableType]:
    """All about one run below its headline. `so_far` is what the real numbers are called."""
    yield promise_table(standing, so_far)
    if standing.conceded:
        yield Text(f"gave way: the {' and the '.join(standing.conceded)}", "yellow")
    yield facts(standing)
    yield from hopping_parts(standing)
    yield stage_table(standing)
    if standing.failures:
        yield failure_table(standing.failures)
    if standing.remarks:
        count = len(standing.remarks)
        title = "Notes" if count <= _MOST_REMARKS else f"Notes, the first {_MOST_REMARKS} of {count:,}"
        yield remark_table(standing.remarks[:_MOST_REMARKS], title)


def _figures_table(summaries: Sequence[PolicySummary], *, sd: bool) -> Table:
    """Three rows for each policy, under its name."""
    limits = summaries[0].limits
    level = format_confidence(limits.confidence)
    spread = ("se", "sd") if sd else ("se",)
    columns = ("", "predicted", level, "mean", *spread, "min", "max", "limit", "kept")
    table = number_table(columns, left=("",), gap=1)
    for column in table.columns[1:-1]:
        column.min_width = 7
    for summary in summaries:
        expected, promised = summary.predicted, summary.promised
        table.add_row(Text(summary.policy, "bold"))
        table.add_row(
            "  time",
            "" if expected is None else format_duration(expected.jct_seconds),
            "" if promised is None else format_duration(promised.jct_seconds),
            *_figure_cells(summary.jct_seconds, format_duration, sd=sd),
            "none" if limits.deadline_s is None else format_duration(limits.deadline_s),
            _share_kept(summary.kept_deadline, len(summary.seeds)),
        )
        table.add_row(
            "  cost",
            "" if expected is None else format_usd(expected.cost),
            "" if promised is None else format_usd(promised.cost),
            *_figure_cells(summary.cost, format_usd, sd=sd),
            "none" if limits.budget_usd is None else format_usd(limits.budget_usd),
            _share_kept(summary.kept_budget, len(summary.seeds)),
        )
        cells = ["none"] * (5 if sd else 4)
        if summary.metric is not None:
            cells = list(_figure_cells(summary.metric, _show_metric, sd=sd))
        table.add_row("  best", "", "", *cells)
    return table


def _figure_cells(figures: Figures, show: Formatter, *, sd: bool) -> Iterator[str]:
    yield show(figures.mean)
    yield _show_error(figures.se, show)
    if sd:
        yield "" if figures.sd is None else show(figures.sd)
    yield show(figures.min)
    yield show(figures.max)


def _against_table(summaries: Sequence[PolicySummary]) -> RenderableType:
    """The difference to the first policy, seed by seed: what is luck for both cancels out."""
    table = number_table(("", "time", "se ", "cost", "se  ", "best", "se   "), left=("",))
    for summary in summaries[1:]:
        against = summary.against
        if against is None:
            table.add_row(summary.policy, *["none"] * 6)
            continue
        table.add_row(
            summary.policy,
            *_difference_cells(against.jct_seconds, format_duration),
            *_difference_cells(against.cost, format_usd),
            *_difference_cells(against.metric, _show_metric),
        )
    return titled(f"Against {summaries[0].policy} on the same seeds", table)


def _difference_cells(figures: Figures | None, show: Formatter) -> Iterator[str]:
    if figures is None:
        yield from ("none", "")
        return
    yield f"{'-' if figures.mean < 0 else '+'}{show(abs(figures.mean))}"
    yield _show_error(figures.se, show)


def _show_error(se: float | None, show: Formatter) -> str:
    """Of the error of a metric two digits are enough."""
    return "" if se is None else f"{se:.2g}" if show is _show_metric else show(se)


def _show_metric(value: float) -> str:
    return f"{value:.4g}"


def _share_kept(kept: int | None, runs: int) -> Text:
    if kept is None:
        return Text("")
    return Text(f"{kept / runs:.0%}", verdict(kept == runs).style)


def _outcomes(seeds: Sequence[int], summaries: Sequence[PolicySummary]) -> RenderableType:
    """How the runs ended, what was noted, and which policy won on how many seeds."""
    rows = fact_table()
    for summary in summaries:
        ends = ", ".join(f"{count} {tell_ending(Ending(end))}" for end, count in summary.endings.items())
        told = ends
        if summary.failed_trials:
            told += f"; {summary.failed_trials:,} of {plural(summary.trials, 'trial')} failed"
            told += " (beware)" if is_many(summary.failed_trials, summary.trials) else ""
        if summary.remarks:
            topics = ", ".join(f"{topic} in {count}" for topic, count in summary.remarks.items())
            told += f"; notes: {topics}"
        rows.add_row(summary.policy, told)
    wins = _wins(seeds, summaries)
    if wins:
        rows.add_row("best model", "; ".join(f"{name} on {plural(count, 'seed')}" for name, count in wins))
    return titled("How they ended", rows)


def _wins(seeds: Sequence[int], summaries: Sequence[PolicySummary]) -> list[tuple[str, int]]:
    """On how many seeds each policy found the best model; equals share nothing."""
    if len(summaries) < 2:
        return []
    won: Counter[str] = Counter()
    for seed in seeds:
        found = {s.policy: s.best_by_seed[seed] for s in summaries if seed in s.best_by_seed}
        if found:
            top = max(found.values()) if summaries[0].mode is Mode.MAX else min(found.values())
            leaders = [policy for policy, value in found.items() if value == top]
            won[leaders[0] if len(leaders) == 1 else "equal"] += 1
    return won.most_common()


def _where(campaign: Campaign, overview: Overview) -> RenderableType:
    if campaign.folder is None:
        return Text("not kept (--no-journal)", "dim")
    if overview.asked > 1:
        return where_several(overview, again="look again")
    run = campaign.results[0].run or ""
    rows = fact_table()
    rows.add_row("run", run)
    rows.add_row("folder", f"{campaign.folder.path}")
    rows.add_row("look again", f"elastune status {run}")
    return rows


def where_several(overview: Overview, *, again: str | None = None) -> Table:
    """Where the runs are, and how to see one of them. `again`: what to call the way back to this table."""
    rows = fact_table()
    first, last = overview.runs[0], overview.runs[-1]
    rows.add_row("runs", f"{first} to {last}" if first != last else first)
    if overview.folder is not None:
        rows.add_row("folder", f"{overview.folder.path}")
    if again is not None:
        rows.add_row(again, f"elastune status {first.partition('.')[0]}")
    rows.add_row("see one", f"elastune status {first}")
    return rows


def _cut(campaign: Campaign, overview: Overview) -> RenderableType:
    """After Ctrl-C: what is complete, and where the run under way stopped."""
    rows = fact_table()
    done, asked, cut = len(campaign.runs), overview.asked, campaign.cut
    stood = ""
    if cut is not None:
        stood = f"after {format_duration(cut.now_s)} of virtual time, {plural(cut.events, 'event')}"
    if asked == 1:
        rows.add_row("interrupted", stood or "before it began")
    else:
        rows.add_row("interrupted", f"{done:,} of {plural(asked, 'run')} are complete")
        rows.add_row("under way", f"{cut.run} {stood}" if cut is not None else "none")
    if campaign.folder is None:
        rows.add_row("kept", "nothing (--no-journal)")
        return rows
    rows.add_row("kept", f"all up to there, in {campaign.folder.path}")
    if done:
        rows.add_row("look again", f"elastune status {overview.runs[0].partition('.')[0]}")
    if cut is not None:
        rows.add_row("" if done else "look again", f"elastune status {cut.run}")
    return rows
