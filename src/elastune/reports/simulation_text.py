"""What came of simulated runs: one in full, many in a few lines per policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from elastune.core import Ending
from elastune.reports.run_tables import Formatter
from elastune.reports.standing_text import account, policy_reason, tell_ending, tell_faults
from elastune.reports.table import Cell, Column, Table, Tone, make_table
from elastune.reports.terminal import fact_table, stacked, terminal_table, titled
from elastune.runs.campaign import Campaign
from elastune.runs.overview import Overview
from elastune.runs.standing import is_many
from elastune.runs.summary import Against, Figures, PolicySummary
from elastune.spec.mode import Mode
from elastune.units import format_confidence, format_duration, format_usd, plural


def render_campaign(campaign: Campaign) -> RenderableType:
    """Nothing but where it is kept, if no run came to its end."""
    overview = campaign.overview
    several = overview.asked > 1 and campaign.runs
    parts = list(render_overview(overview) if several else _one(campaign) if campaign.runs else ())
    if campaign.interrupted:
        parts.append(fact_table(_cut(campaign, overview)))
    elif campaign.folder is None:
        parts.append(Text("not kept (--no-journal)", "dim"))
    elif overview.asked > 1:
        parts.append(fact_table(where_several(overview, again="look again")))
    else:
        parts.append(fact_table(_where(campaign)))
    return stacked(parts)


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
    yield terminal_table(_figure_table(summaries))
    if any(summary.against is not None for summary in summaries):
        yield terminal_table(_against_table(summaries))
    yield titled("How they ended", fact_table(_outcomes(overview.seeds, summaries)))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """Time, cost or best of a policy; one without figures is but a name."""

    name: str
    show: Formatter = format_duration
    predicted: float | None = None
    promised: float | None = None
    figures: Figures | None = None
    limit: str = ""
    kept: Cell | None = None
    none: str = ""

    def told(self, value: float | None) -> str:
        return "" if value is None else self.show(value)

    def of(self, name: str) -> str:
        """`mean`, `sd`, ... of the figures."""
        return self.none if self.figures is None else self.told(getattr(self.figures, name))

    @property
    def error(self) -> str:
        return self.none if self.figures is None else _show_error(self.figures.se, self.show)


def _figure_table(summaries: Sequence[PolicySummary]) -> Table:
    """Three rows for each policy, under its name."""
    level = format_confidence(summaries[0].limits.confidence)
    columns: list[Column[_Line]] = [
        Column("", lambda line: line.name, is_text=True),
        Column("predicted", lambda line: line.told(line.predicted), min_width=7),
        Column(level, lambda line: line.told(line.promised), min_width=7),
        Column("mean", lambda line: line.of("mean"), min_width=7),
        Column("se", lambda line: line.error, min_width=7),
        Column("sd", lambda line: line.of("sd"), min_width=7, leaves=1),
        Column("min", lambda line: line.of("min"), min_width=7),
        Column("max", lambda line: line.of("max"), min_width=7),
        Column("limit", lambda line: line.limit, min_width=7),
        Column("kept", lambda line: line.kept),
    ]
    lines = [line for summary in summaries for line in _lines(summary)]
    return make_table(
        columns, lines, tone=lambda line: Tone.PLAIN if line.name.startswith(" ") else Tone.STRONG, gap=1
    )


def _lines(summary: PolicySummary) -> Iterator[_Line]:
    limits, runs, predicted, promised = (
        summary.limits,
        len(summary.seeds),
        summary.predicted,
        summary.promised,
    )
    yield _Line(name=summary.policy)
    yield _Line(
        name="  time",
        predicted=None if predicted is None else predicted.jct_seconds,
        promised=None if promised is None else promised.jct_seconds,
        figures=summary.jct_seconds,
        limit="none" if limits.deadline_s is None else format_duration(limits.deadline_s),
        kept=_share_kept(summary.kept_deadline, runs),
    )
    yield _Line(
        name="  cost",
        show=format_usd,
        predicted=None if predicted is None else predicted.cost,
        promised=None if promised is None else promised.cost,
        figures=summary.cost,
        limit="none" if limits.budget_usd is None else format_usd(limits.budget_usd),
        kept=_share_kept(summary.kept_budget, runs),
    )
    yield _Line(name="  best", show=_show_metric, figures=summary.metric, none="none")


def _against_table(summaries: Sequence[PolicySummary]) -> Table:
    """The difference to the first policy, seed by seed: what is luck for both cancels out."""
    columns: list[Column[PolicySummary]] = [
        Column("", lambda each: each.policy, is_text=True),
        *_difference_columns("time", lambda against: against.jct_seconds, format_duration),
        *_difference_columns("cost", lambda against: against.cost, format_usd),
        *_difference_columns("best", lambda against: against.metric, _show_metric),
    ]
    return make_table(columns, summaries[1:], title=f"Against {summaries[0].policy} on the same seeds")


def _difference_columns(
    title: str, of: Callable[[Against], Figures | None], show: Formatter
) -> Iterator[Column[PolicySummary]]:
    def difference(each: PolicySummary) -> str:
        figures = None if each.against is None else of(each.against)
        if figures is None:
            return "none"
        return f"{'-' if figures.mean < 0 else '+'}{show(abs(figures.mean))}"

    def error(each: PolicySummary) -> str:
        figures = None if each.against is None else of(each.against)
        return "" if figures is None else _show_error(figures.se, show)

    yield Column(title, difference)
    yield Column("se", error)


def _show_error(se: float | None, show: Formatter) -> str:
    """Of the error of a metric two digits are enough."""
    return "" if se is None else f"{se:.2g}" if show is _show_metric else show(se)


def _show_metric(value: float) -> str:
    return f"{value:.4g}"


def _share_kept(kept: int | None, runs: int) -> Cell | None:
    return None if kept is None else Cell(f"{kept / runs:.0%}", Tone.GOOD if kept == runs else Tone.BAD)


def _outcomes(seeds: Sequence[int], summaries: Sequence[PolicySummary]) -> Iterator[tuple[str, str]]:
    """How the runs ended, what was noted, and which policy won on how many seeds."""
    for summary in summaries:
        ends = ", ".join(f"{count} {tell_ending(Ending(end))}" for end, count in summary.endings.items())
        told = ends
        if summary.failed_trials:
            told += f"; {summary.failed_trials:,} of {plural(summary.trials, 'trial')} failed"
            told += " (beware)" if is_many(summary.failed_trials, summary.trials) else ""
        if summary.remarks:
            topics = ", ".join(f"{topic} in {count}" for topic, count in summary.remarks.items())
            told += f"; notes: {topics}"
        yield summary.policy, told
    wins = _wins(seeds, summaries)
    if wins:
        yield "best model", "; ".join(f"{name} on {plural(count, 'seed')}" for name, count in wins)


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


def _where(campaign: Campaign) -> Iterator[tuple[str, str]]:
    run = campaign.results[0].run or ""
    yield "run", run
    if campaign.folder is not None:
        yield "folder", f"{campaign.folder.path}"
    yield "look again", f"elastune status {run}"


def where_several(overview: Overview, *, again: str | None = None) -> Iterator[tuple[str, str]]:
    """Where the runs are, and how to see one of them. `again`: what to call the way back to this table."""
    first, last = overview.runs[0], overview.runs[-1]
    yield "runs", f"{first} to {last}" if first != last else first
    if overview.folder is not None:
        yield "folder", f"{overview.folder.path}"
    if again is not None:
        yield again, f"elastune status {first.partition('.')[0]}"
    yield "see one", f"elastune status {first}"


def _cut(campaign: Campaign, overview: Overview) -> Iterator[tuple[str, str]]:
    """After Ctrl-C: what is complete, and where the run under way stopped."""
    done, asked, cut = len(campaign.runs), overview.asked, campaign.cut
    stood = ""
    if cut is not None:
        stood = f"after {format_duration(cut.now_s)} of virtual time, {plural(cut.events, 'event')}"
    if asked == 1:
        yield "interrupted", stood or "before it began"
    else:
        yield "interrupted", f"{done:,} of {plural(asked, 'run')} are complete"
        yield "under way", f"{cut.run} {stood}" if cut is not None else "none"
    if campaign.folder is None:
        yield "kept", "nothing (--no-journal)"
        return
    yield "kept", f"all up to there, in {campaign.folder.path}"
    if done:
        yield "look again", f"elastune status {overview.runs[0].partition('.')[0]}"
    if cut is not None:
        yield "" if done else "look again", f"elastune status {cut.run}"
