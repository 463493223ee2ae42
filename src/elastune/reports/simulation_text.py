"""What came of simulated runs: one in full, many in a few lines per policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from elastune.core import Ending
from elastune.job import Job
from elastune.reports.standing_text import (
    Formatter,
    facts,
    failure_table,
    promise_table,
    remark_table,
    stage_table,
    verdict,
)
from elastune.reports.tables import fact_table, number_table, stacked, titled
from elastune.runs.campaign import Campaign
from elastune.runs.setup import choose_policy
from elastune.runs.summary import Figures, PolicySummary
from elastune.spec.mode import Mode
from elastune.units import format_confidence, format_duration, format_usd, plural

_MOST_REMARKS = 8
_ENDINGS = {
    Ending.COMPLETE: "complete",
    Ending.DEADLINE: "stopped at the deadline",
    Ending.BUDGET: "stopped at the budget",
    Ending.STOPPED: "stopped by request",
    Ending.FAILED: "failed: no trial is left, or no node could be had",
}


def render_campaign(campaign: Campaign, faults: str) -> RenderableType:
    """`faults` as they were asked for."""
    several = len(campaign.runs) > 1
    return stacked(_several(campaign, faults) if several else _one(campaign, faults))


def policy_reason(job: Job, policy: str) -> str:
    if policy != choose_policy(job):
        return f"{policy}, as asked"
    algorithm = job.search.algorithm
    if policy == algorithm:
        return f"{policy}, because search.algorithm names it"
    return f"{policy}, because a search was declared ({algorithm})"


def tell_ending(ending: Ending) -> str:
    return _ENDINGS[ending]


def _one(campaign: Campaign, faults: str) -> Iterator[RenderableType]:
    run, setup = campaign.runs[0], campaign.contestants[0].setup
    standing = run.standing
    headline = Text.assemble(
        (setup.job.name, "bold"), ", simulated: ", (tell_ending(run.result.ending), "bold")
    )
    headline.append(f"  [seed {run.result.seed}{_told(faults)}]", "dim")
    headline.append(f"\npolicy {policy_reason(setup.job, setup.policy)}")
    yield headline
    yield promise_table(standing, "simulated")
    if standing.conceded:
        yield Text(f"gave way: the {' and the '.join(standing.conceded)}", "yellow")
    yield facts(standing)
    yield stage_table(standing)
    if standing.failures:
        yield failure_table(standing.failures)
    if standing.remarks:
        count = len(standing.remarks)
        title = "Notes" if count <= _MOST_REMARKS else f"Notes, the first {_MOST_REMARKS} of {count:,}"
        yield remark_table(standing.remarks[:_MOST_REMARKS], title)
    yield _where(campaign)


def _several(campaign: Campaign, faults: str) -> Iterator[RenderableType]:
    summaries = campaign.summaries
    seeds = campaign.seeds
    job = campaign.contestants[0].setup.job
    what = plural(len(seeds), "seed") + (f" ({seeds[0]} to {seeds[-1]})" if len(seeds) > 1 else "")
    headline = Text.assemble((job.name, "bold"), f", simulated: {what}")
    headline.append(f"  [{faults} faults]" if _told(faults) else "", "dim")
    level = format_confidence(summaries[0].limits.confidence)
    best = f"best: the {summaries[0].metric_name} of the best model ({summaries[0].mode.value})"
    headline.append(f"\n{best}; {level}: quantile of the prediction", "dim")
    yield headline
    yield _figures_table(summaries)
    yield _outcomes(campaign, summaries)
    yield _where(campaign)


def _figures_table(summaries: Sequence[PolicySummary]) -> Table:
    """Three rows for each policy, under its name."""
    limits = summaries[0].limits
    level = format_confidence(limits.confidence)
    columns = ("", "predicted", level, "mean", "sd", "min", "max", "limit", "kept")
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
            *_figure_cells(summary.jct_seconds, format_duration),
            "none" if limits.deadline_s is None else format_duration(limits.deadline_s),
            _share_kept(summary.kept_deadline, len(summary.seeds)),
        )
        table.add_row(
            "  cost",
            "" if expected is None else format_usd(expected.cost),
            "" if promised is None else format_usd(promised.cost),
            *_figure_cells(summary.cost, format_usd),
            "none" if limits.budget_usd is None else format_usd(limits.budget_usd),
            _share_kept(summary.kept_budget, len(summary.seeds)),
        )
        cells = ["none"] * 4
        if summary.metric is not None:
            cells = list(_figure_cells(summary.metric, lambda value: f"{value:.4g}"))
        table.add_row("  best", "", "", *cells)
    return table


def _figure_cells(figures: Figures, show: Formatter) -> Iterator[str]:
    yield show(figures.mean)
    yield "" if figures.sd is None else show(figures.sd)
    yield show(figures.min)
    yield show(figures.max)


def _share_kept(kept: int | None, runs: int) -> Text:
    if kept is None:
        return Text("")
    return Text(f"{kept / runs:.0%}", verdict(kept == runs).style)


def _outcomes(campaign: Campaign, summaries: Sequence[PolicySummary]) -> RenderableType:
    """How the runs ended, what was noted, and which policy won on how many seeds."""
    rows = fact_table()
    for summary in summaries:
        ends = ", ".join(f"{count} {tell_ending(Ending(end))}" for end, count in summary.endings.items())
        told = ends
        if summary.failed_trials:
            told += f"; {summary.failed_trials:,} of {plural(summary.trials, 'trial')} failed"
        if summary.remarks:
            topics = ", ".join(f"{topic} in {count}" for topic, count in summary.remarks.items())
            told += f"; notes: {topics}"
        rows.add_row(summary.policy, told)
    wins = _wins(campaign, summaries)
    if wins:
        rows.add_row("best model", "; ".join(f"{name} on {plural(count, 'seed')}" for name, count in wins))
    return titled("How they ended", rows)


def _wins(campaign: Campaign, summaries: Sequence[PolicySummary]) -> list[tuple[str, int]]:
    """On how many seeds each policy found the best model; equals share nothing."""
    if len(summaries) < 2:
        return []
    won: Counter[str] = Counter()
    for seed in campaign.seeds:
        found = {s.policy: s.best_by_seed[seed] for s in summaries if seed in s.best_by_seed}
        if found:
            top = max(found.values()) if summaries[0].mode is Mode.MAX else min(found.values())
            leaders = [policy for policy, value in found.items() if value == top]
            won[leaders[0] if len(leaders) == 1 else "equal"] += 1
    return won.most_common()


def _where(campaign: Campaign) -> RenderableType:
    if campaign.folder is None:
        return Text("not kept (--no-journal)", "dim")
    rows = fact_table()
    first = campaign.results[0].run or ""
    last = campaign.results[-1].run
    rows.add_row("run" if first == last else "runs", first if first == last else f"{first} to {last}")
    rows.add_row("folder", f"{campaign.folder.path}")
    rows.add_row("look again", f"elastune status {first}")
    return rows


def _told(faults: str) -> str:
    return "" if faults == "none" else f", {faults} faults"
