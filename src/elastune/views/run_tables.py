"""The tables of one run, for terminals and pages: prediction, stages, rounds, trials, failures, notes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from elastune.history.forecasts import CheckedForecast
from elastune.history.gangs import GangLife
from elastune.history.hopping import HoppingFigures, RoundFigures
from elastune.history.notes import Failure, RunNote
from elastune.history.result import Estimate
from elastune.history.status import RunStatus, Shares, StageStatus, keeps
from elastune.history.trials import TrialHistory
from elastune.model.configuration import FlatConfiguration, flattened
from elastune.model.ids import TrialId
from elastune.model.limits import Limits
from elastune.model.metric import Mode
from elastune.runs.reading import RunReport
from elastune.views.table import Cell, Column, Piece, Table, TableRow, Tone, Value, make_table
from elastune.wording import format_confidence, format_duration, format_usd, plural

Formatter = Callable[[float], str]

_BAR_CELLS = 20
# Distinguishable without colours, too.
_ACTIVITIES = (
    ("booting", "boot", "▒", "yellow"),
    ("starting", "start", "▓", "cyan"),
    ("training", "train", "█", "green"),
    ("saving", "save", "▞", "blue"),
    ("idle", "idle", "·", "dim"),
)
_MOST_TRIALS = 50
_MOST_PARAMETERS = 8


@dataclass(frozen=True, slots=True)
class Measure:
    """Time or cost: its name, format and limit. `key` is its field in estimates."""

    name: str
    key: str
    show: Formatter
    limit_name: str
    limit_key: str

    def text(self, estimate: Estimate | None) -> str:
        return "" if estimate is None else self.show(getattr(estimate, self.key))

    def limit(self, limits: Limits) -> float | None:
        limit: float | None = getattr(limits, self.limit_key)
        return limit

    def limit_text(self, limits: Limits) -> str:
        limit = self.limit(limits)
        return "none" if limit is None else self.show(limit)

    def kept(self, standing: RunStatus) -> bool | None:
        """None: there is no such limit, or the run is not over and has not exceeded it."""
        kept = keeps(getattr(standing.actual, self.key), self.limit(standing.limits))
        return kept if standing.ending is not None or kept is False else None

    def difference(self, standing: RunStatus) -> str:
        """The actual value against the predicted one, once the run is over."""
        expected = None if standing.ending is None else getattr(standing.predicted, self.key, None)
        return difference(getattr(standing.actual, self.key), expected)


TIME = Measure("time", "jct_seconds", format_duration, "deadline", "deadline_s")
COST = Measure("cost", "cost", format_usd, "budget", "budget_usd")


def measures_of(standing: RunStatus) -> tuple[Measure, ...]:
    """Time and, unless nothing costs anything, cost."""
    return (TIME,) if standing.is_free else (TIME, COST)


def difference(actual: float, expected: float | None) -> str:
    return "" if not expected else f"{actual / expected - 1:+.1%}".replace("-0.0%", "+0.0%")


def promise_table(standing: RunStatus, so_far: str) -> Table:
    """Time and cost: predicted, actual and limit. `so_far` is the heading of the actual values."""
    limits = standing.limits

    def outcome(each: Measure) -> Value:
        limit, kept = each.limit(limits), each.kept(standing)
        if kept is not None:
            return Cell("kept", Tone.GOOD) if kept else Cell("exceeded", Tone.BAD)
        return None if limit is None else f"{each.show(limit - getattr(standing.actual, each.key))} left"

    columns: list[Column[Measure]] = [
        Column("", lambda each: each.name, is_text=True),
        Column("predicted", lambda each: each.text(standing.predicted)),
        Column(f"{format_confidence(limits.confidence)} quantile", lambda each: each.text(standing.promised)),
        Column(so_far, lambda each: each.text(standing.actual), tone=Tone.STRONG),
        Column("difference", lambda each: each.difference(standing)),
        Column("limit", lambda each: each.limit_text(limits)),
        Column(" ", outcome, is_text=True),
    ]
    return make_table(columns, measures_of(standing))


def stage_name(stage: StageStatus, brackets: Sequence[str], *, long: bool = False) -> str:
    """`2`, or `3.2` for the second stage of bracket 3; `long`: `stage 2`; `2…` is not over."""
    number = f"{stage.stage + 1}" if stage.is_over else f"{stage.stage + 1}…"
    if stage.bracket < len(brackets) and len(brackets) > 1:
        number = f"{brackets[stage.bracket].removeprefix('bracket ')}.{number}"
    elif stage.bracket:
        number = f"{stage.bracket}.{number}"
    return f"stage {number}" if long else number


def stage_table(standing: RunStatus) -> Table:
    """Planned against actual, and the use of the slot time."""
    brackets, stages = standing.brackets, standing.stages
    is_planned = any(stage.planned is not None for stage in stages)

    def pair(measure: Measure, planned_key: str) -> Iterator[Column[StageStatus]]:
        def actual(each: StageStatus | RunStatus) -> float:
            return float(getattr(each.actual, measure.key))

        yield Column(measure.name, actual, measure.show, actual(standing), min_width=7)
        if is_planned:
            total = getattr(standing.planned, measure.key, None)
            yield Column("planned", planned(planned_key), measure.show, total, min_width=7)

    def planned(key: str) -> Callable[[StageStatus], Value]:
        return lambda each: getattr(each.planned, key, None)

    bar: Column[StageStatus] = Column(
        "slot time", lambda each: _share_bar(each.shares), total=_share_bar(standing.shares), is_text=True,
        leaves=1, is_drawn=True,
    )  # fmt: skip
    columns: list[Column[StageStatus]] = [
        Column("stage", lambda each: stage_name(each, brackets), total="all", min_width=5),
        Column("nodes", lambda each: each.nodes, min_width=5),
        *pair(TIME, "seconds"),
        *([] if standing.is_free else pair(COST, "cost")),
        *(_share_column(name, title, standing.shares) for name, title, _, _ in _ACTIVITIES),
        bar,
    ]
    title = "Stages" if len(brackets) < 2 else "Stages, as bracket.stage"
    return make_table(columns, stages, has_total=len(stages) > 1, title=title, gap=1)


def _share_column(name: str, title: str, all_shares: Shares | None) -> Column[StageStatus]:
    def share(shares: Shares | None) -> str:
        value = 0.0 if shares is None else getattr(shares, name)
        return "" if shares is None else f"{value:.0%}" if value >= 0.005 else "-"

    return Column(title, lambda each: share(each.shares), total=share(all_shares), min_width=5)


def _share_bar(shares: Shares | None) -> Cell | None:
    """Cumulative rounding, so that the characters always fill the bar."""
    if shares is None:
        return None
    pieces: list[Piece] = [(" ", "")]
    sum_, filled = 0.0, 0
    for name, _, glyph, style in _ACTIVITIES:
        sum_ += getattr(shares, name)
        upto = round(sum_ * _BAR_CELLS)
        pieces.append((glyph * (upto - filled), style))
        filled = upto
    return Cell("", pieces=tuple(pieces))


def round_table(hopping: HoppingFigures, first: int, last: int) -> Table:
    """The `first` and the `last` rounds, if there are more."""
    columns: list[Column[tuple[int, RoundFigures]]] = [
        Column("round", lambda each: f"{each[0]}"),
        Column("epoch", lambda each: _epochs(each[1])),
        Column("trials", lambda each: each[1].trials),
        Column("workers", lambda each: each[1].workers),
        Column("time", lambda each: each[1].seconds, format_duration),
        Column("busy", lambda each: each[1].utilisation, lambda share: f"{share:.0%}"),
        Column("above bound", lambda each: each[1].gap, lambda gap: f"{max(0.0, gap):.1%}"),
        Column("visits", lambda each: each[1].visits if each[1].manner == "hopping" else each[1].manner),
        Column("repeated", lambda each: each[1].repeated or None),
    ]
    rounds = list(enumerate(hopping.rounds, 1))
    more = len(rounds) - first - last
    if more <= 0:
        return make_table(columns, rounds, title="Rounds", gap=1)
    table = make_table(columns, [*rounds[:first], *rounds[len(rounds) - last :]], gap=1)
    rows = (*table.rows[:first], TableRow((Cell("…"),)), *table.rows[first:])
    return replace(table, rows=rows, title=f"Rounds, {more:,} of {len(rounds):,} left out")


def _epochs(each: RoundFigures) -> str:
    first, last = each.first_iteration, each.last_iteration
    return f"{first}" if first == last else f"{first}-{last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedTrial:
    """A trial with its best value and its gangs."""

    history: TrialHistory
    best: float | None
    gangs: tuple[GangLife, ...]

    @property
    def last(self) -> float | None:
        return self.history.kept[-1] if self.history.kept else None

    @property
    def slot_s(self) -> float:
        return sum((gang.until_s - gang.from_s) * len(gang.gang) for gang in self.gangs)

    @property
    def config(self) -> FlatConfiguration:
        return flattened(self.history.config)

    @property
    def most_slots(self) -> int:
        return max((len(gang.gang) for gang in self.gangs), default=0)


def trial_table(run_report: RunReport) -> Table:
    """The best first; notes say how many are left out."""
    ranked = _ranked(run_report)
    shown = ranked[:_MOST_TRIALS]
    standing = run_report.status.standing
    best = None if standing.best is None else standing.best.trial
    names = list(dict.fromkeys(name for each in shown for name in each.config))
    columns: list[Column[RankedTrial]] = [
        Column("trial", lambda each: _trial_cell(each.history.trial, best), is_text=True),
        Column(f"best {standing.metric}", lambda each: each.best, format_metric),
        Column("last", lambda each: each.last, format_metric),
        Column("iterations", lambda each: len(each.history.kept)),
        Column("slot time", lambda each: each.slot_s, format_duration),
        Column("gangs" if standing.hopping is None else "visits", lambda each: len(each.gangs)),
        Column("most slots", lambda each: each.most_slots),
        *(_parameter_column(name) for name in names[:_MOST_PARAMETERS]),
        Column("crashes", lambda each: _crashes_cell(len(each.history.crashes))),
    ]
    if any(each.history.parent is not None for each in shown):
        columns.append(Column("forked from", lambda each: _parent_cell(each.history)))
    notes = []
    if len(ranked) > len(shown):
        notes.append(f"{len(ranked) - len(shown):,} more trials are not shown.")
    if len(names) > _MOST_PARAMETERS:
        notes.append(f"{plural(len(names) - _MOST_PARAMETERS, 'more hyperparameter')} not shown.")
    return make_table(columns, shown, title="Trials", notes=tuple(notes), is_sortable=True)


def _ranked(run_report: RunReport) -> list[RankedTrial]:
    gangs: dict[TrialId, list[GangLife]] = defaultdict(list)
    for gang in run_report.history.gangs:
        gangs[gang.trial].append(gang)
    choose, sign = (max, -1.0) if run_report.terms.mode is Mode.MAX else (min, 1.0)
    trials = [
        RankedTrial(
            history=course, best=choose(course.kept) if course.kept else None, gangs=tuple(gangs[number])
        )
        for number, course in run_report.history.trials.items()
    ]
    return sorted(trials, key=lambda each: (each.best is None, sign * (each.best or 0.0), each.history.trial))


def format_metric(value: float) -> str:
    return f"{value:.5g}"


def _trial_cell(trial: int, best: int | None) -> Cell:
    return Cell(f"{trial} ★", Tone.BEST, trial) if trial == best else Cell(f"{trial}", number=trial)


def _crashes_cell(count: int) -> Cell:
    return Cell(f"{count or ''}", number=count)


def _parent_cell(course: TrialHistory) -> Cell | None:
    if course.parent is None:
        return None
    return Cell(f"{course.parent} after {course.inherited:,}", number=course.parent)


def _parameter_column(name: str) -> Column[RankedTrial]:
    def value(each: RankedTrial) -> Value:
        found = each.config.get(name, "")
        return str(found) if isinstance(found, bool) or not isinstance(found, int | float) else found

    return Column(name, value, lambda found: f"{found:.4g}" if isinstance(found, float) else f"{found}")


def forecast_table(forecasts: Sequence[CheckedForecast], metric: str) -> Table:
    columns: list[Column[CheckedForecast]] = [
        Column("time", lambda each: each.at_s, format_duration),
        Column("leader", lambda each: f"trial {each.trial}", is_text=True),
        Column("iteration", lambda each: each.iteration),
        Column(f"best {metric}", lambda each: each.best, format_metric),
        Column("trained to", lambda each: each.until_iteration),
        Column("forecast", lambda each: each.forecast, format_metric, tone=Tone.STRONG),
        Column("±", lambda each: each.spread, lambda spread: f"{spread:.2g}"),
        Column("came", lambda each: each.came, format_metric, tone=Tone.STRONG),
        Column("error", lambda each: each.error, lambda error: f"{error:+.2g}"),
    ]
    return make_table(columns, forecasts, title="Forecasts against what came")


def failure_table(failures: Sequence[Failure], most: int) -> Table:
    """Trials that failed alike, the most frequent first."""
    columns: list[Column[Failure]] = [
        Column("trials", lambda each: each.trials),
        Column("first", lambda each: f"{each.trial}"),
        Column("error", lambda each: each.error, is_text=True, wraps=True),
    ]
    more = len(failures) - most
    title = f"Failed: {plural(sum(failure.trials for failure in failures), 'trial')}"
    return make_table(
        columns, failures[:most], title=f"{title} ({more} more kinds of error)" if more > 0 else title
    )


def note_table(notes: Sequence[RunNote], most: int, *, last: bool = False) -> Table:
    """The first `most` notes, or the `last` ones."""
    columns: list[Column[RunNote]] = [
        Column("time", lambda each: each.at_s, format_duration, tone=Tone.MUTED),
        Column("about", lambda each: each.topic, is_text=True),
        Column("what", lambda each: each.text, is_text=True, wraps=True),
    ]
    shown = notes[-most:] if last else notes[:most]
    more = f", the {'last' if last else 'first'} {most} of {len(notes):,}" if len(notes) > most else ""
    return make_table(columns, shown, title=f"Notes{more}", has_head=False)
