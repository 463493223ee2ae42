"""The results of simulated runs: one in full, many in a few lines per policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from elastune.core.commands import Ending
from elastune.history.result import Estimate
from elastune.history.status import is_many
from elastune.history.summary import Figures, PolicySummary
from elastune.journal.run_commands import command_for
from elastune.model.metric import Mode
from elastune.runs.campaign import Campaign
from elastune.runs.campaign_status import Overview
from elastune.views.run_tables import COST, TIME, Formatter, Measure
from elastune.views.table import (
    Cell,
    Column,
    Table,
    Tone,
    fact_table,
    make_table,
    stacked,
    terminal_table,
    titled,
)  # fmt: skip
from elastune.views.terminal.run import (
    account,
    describe_ending,
    describe_faults,
    describe_outcome,
    policy_reason,
)
from elastune.wording import format_confidence, format_duration, plural


def _show_metric(value: float) -> str:
    return f"{value:.4g}"


_BEST = Measure("best", "metric", _show_metric, "", "")


def render_campaign(campaign: Campaign) -> RenderableType:
    """If no run is complete, only where it is kept."""
    overview = campaign.overview
    several = overview.asked > 1 and campaign.runs
    parts = list(render_overview(overview) if several else _one(campaign) if campaign.runs else ())
    if campaign.interrupted:
        parts.append(fact_table(_interruption(campaign, overview)))
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
    headline.append(describe_faults(overview.faults, "  [{}]"), "dim")
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
    outcome = describe_outcome(run.standing)
    headline = Text.assemble((setup.job.name, "bold"), ", simulated: ", (outcome, "bold"))
    headline.append(f"  [seed {run.result.seed}{describe_faults(campaign.faults)}]", "dim")
    headline.append(f"\npolicy {policy_reason(setup.job, setup.policy)}")
    yield headline
    yield from account(run.standing, "simulated")


def _figure_table(summaries: Sequence[PolicySummary]) -> Table:
    """Three rows for each policy, under its name."""
    level = format_confidence(summaries[0].limits.confidence)
    columns: list[Column[_Line]] = [
        Column("", lambda line: line.name, is_text=True),
        Column("predicted", lambda line: line.text(line.summary.predicted), min_width=7),
        Column(level, lambda line: line.text(line.summary.promised), min_width=7),
        Column("mean", lambda line: line.figure("mean"), min_width=7),
        Column("se", lambda line: line.figure("se"), min_width=7),
        Column("sd", lambda line: line.figure("sd"), min_width=7, leaves=1),
        Column("min", lambda line: line.figure("min"), min_width=7),
        Column("max", lambda line: line.figure("max"), min_width=7),
        Column("limit", lambda line: line.limit, min_width=7),
        Column("kept", lambda line: line.kept),
    ]
    measures = [None, *_measures(summaries)]
    lines = [_Line(summary, measure) for summary in summaries for measure in measures]
    return make_table(
        columns, lines, tone=lambda line: Tone.STRONG if line.measure is None else Tone.PLAIN, gap=1
    )


def _measures(summaries: Sequence[PolicySummary]) -> tuple[Measure, ...]:
    """Without cost if no run cost anything."""
    is_free = all(summary.cost.max == 0.0 for summary in summaries)
    return (TIME, _BEST) if is_free else (TIME, COST, _BEST)


@dataclass(frozen=True, slots=True)
class _Line:
    """Time, cost or best of a policy; without a measure it has only its name."""

    summary: PolicySummary
    measure: Measure | None

    @property
    def name(self) -> str:
        return self.summary.policy if self.measure is None else f"  {self.measure.name}"

    def text(self, estimate: Estimate | None) -> str:
        return "" if self.measure in (None, _BEST) else self.measure.text(estimate)

    def figure(self, name: str) -> str:
        """`mean`, `se`, ..., as far as there is one."""
        if self.measure is None:
            return ""
        figures = getattr(self.summary, self.measure.key)
        if figures is None:
            return "none"
        value, show = getattr(figures, name), self.measure.show
        return _show_error(value, show) if name == "se" else "" if value is None else show(value)

    @property
    def limit(self) -> str:
        return "" if self.measure in (None, _BEST) else self.measure.limit_text(self.summary.limits)

    @property
    def kept(self) -> Cell | None:
        summary, runs = self.summary, len(self.summary.seeds)
        kept = {TIME: summary.kept_deadline, COST: summary.kept_budget}.get(self.measure or _BEST)
        return None if kept is None else Cell(f"{kept / runs:.0%}", Tone.GOOD if kept == runs else Tone.BAD)


def _against_table(summaries: Sequence[PolicySummary]) -> Table:
    """The difference to the first policy, seed by seed, so that chance common to both cancels out."""
    columns: list[Column[PolicySummary]] = [
        Column("", lambda each: each.policy, is_text=True),
        *(column for measure in _measures(summaries) for column in _difference_columns(measure)),
    ]
    return make_table(columns, summaries[1:], title=f"Against {summaries[0].policy} on the same seeds")


def _difference_columns(measure: Measure) -> Iterator[Column[PolicySummary]]:
    def figures(each: PolicySummary) -> Figures | None:
        return None if each.against is None else getattr(each.against, measure.key)

    def difference(each: PolicySummary) -> str:
        found = figures(each)
        if found is None:
            return "none"
        return f"{'-' if found.mean < 0 else '+'}{measure.show(abs(found.mean))}"

    def error(each: PolicySummary) -> str:
        found = figures(each)
        return "" if found is None else _show_error(found.se, measure.show)

    yield Column(measure.name, difference)
    yield Column("se", error)


def _show_error(se: float | None, show: Formatter) -> str:
    """The error of a metric has two digits."""
    return "" if se is None else f"{se:.2g}" if show is _show_metric else show(se)


def _outcomes(seeds: Sequence[int], summaries: Sequence[PolicySummary]) -> Iterator[tuple[str, str]]:
    """How the runs ended, what was noted, and which policy won on how many seeds."""
    for summary in summaries:
        ends = ", ".join(f"{count} {describe_ending(Ending(end))}" for end, count in summary.endings.items())
        if summary.failed_trials:
            ends += f"; {summary.failed_trials:,} of {plural(summary.trials, 'trial')} failed"
            ends += " (warning)" if is_many(summary.failed_trials, summary.trials) else ""
        if summary.remarks:
            topics = ", ".join(f"{topic} in {count}" for topic, count in summary.remarks.items())
            ends += f"; notes: {topics}"
        yield summary.policy, ends
    wins = _wins(seeds, summaries)
    if wins:
        yield "best model", "; ".join(f"{name} on {plural(count, 'seed')}" for name, count in wins)


def _wins(seeds: Sequence[int], summaries: Sequence[PolicySummary]) -> list[tuple[str, int]]:
    """On how many seeds each policy found the best model; ties count as "equal"."""
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
        yield "look again", command_for("status", campaign.folder, run)


def where_several(overview: Overview, *, again: str | None = None) -> Iterator[tuple[str, str]]:
    """Where the runs are, and how to see one of them. `again`: what to call the way back to this table."""
    first, last = overview.runs[0], overview.runs[-1]
    yield "runs", f"{first} to {last}" if first != last else first
    if overview.folder is None:
        return
    yield "folder", f"{overview.folder.path}"
    if again is not None:
        yield again, command_for("status", overview.folder, None)
    yield "see one", command_for("status", overview.folder, first)


def _interruption(campaign: Campaign, overview: Overview) -> Iterator[tuple[str, str]]:
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
        yield "look again", command_for("status", campaign.folder, None)
    if cut is not None:
        yield "" if done else "look again", command_for("status", campaign.folder, cut.run)
