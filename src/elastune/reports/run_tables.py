"""The tables of a run's page: stages, trials, failures, notes, the job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from elastune.core.events import Config
from elastune.place import TrialId
from elastune.reports.hopping_text import ROUND_COLUMNS, round_cells, tell_hopping
from elastune.reports.markup import Cell, Content, Markup, table, tag
from elastune.reports.stage_names import stage_name
from elastune.runs.history.hopping import Hopping
from elastune.runs.history.reading import Memoir
from elastune.runs.history.trials import TrialCourse
from elastune.runs.standing import Shares
from elastune.spec.mode import Mode
from elastune.units import format_duration, format_usd, plural

_ACTIVITIES = ("booting", "starting", "training", "saving", "idle")
_MOST_TRIALS = 50
_MOST_PARAMETERS = 8
_MOST_REMARKS = 200
_MOST_FAILURES = 20
_MOST_ROUNDS = 200


def stage_table(memoir: Memoir) -> Markup:
    """Planned against real, and what became of the slot time."""
    standing = memoir.status.standing
    planned = any(stage.planned is not None for stage in standing.stages)
    head = [
        "stage",
        "nodes",
        "time",
        *(["planned"] if planned else []),
        "cost",
        *(["planned"] if planned else []),
    ]
    rows: list[list[Content]] = []
    for stage in standing.stages:
        row: list[Content] = [stage_name(stage, standing.brackets), stage.nodes]
        row.append(format_duration(stage.actual.jct_seconds))
        if planned:
            row.append("" if stage.planned is None else format_duration(stage.planned.seconds))
        row.append(format_usd(stage.actual.cost))
        if planned:
            row.append("" if stage.planned is None else format_usd(stage.planned.cost))
        rows.append([*row, *_share_cells(stage.shares)])
    if len(standing.stages) > 1:
        predicted, actual = standing.predicted, standing.actual
        times: list[Content] = [format_duration(actual.jct_seconds)]
        costs: list[Content] = [format_usd(actual.cost)]
        if planned:
            times.append("" if predicted is None else format_duration(predicted.jct_seconds))
            costs.append("" if predicted is None else format_usd(predicted.cost))
        rows.append(["all", "", *times, *costs, *_share_cells(standing.shares)])
    return table([*head, *_ACTIVITIES], rows)


def _share_cells(shares: Shares | None) -> Iterator[str]:
    for name in _ACTIVITIES:
        share = 0.0 if shares is None else getattr(shares, name)
        yield f"{share:.0%}" if share >= 0.005 else "–"


def hopping_tables(hopping: Hopping) -> Iterator[Content]:
    """The figures in words, then a line for each round."""
    facts = [
        tag("tr", tag("td", name, class_="words"), tag("td", told, class_="words wide"))
        for name, told in tell_hopping(hopping)
    ]
    yield tag("table", tag("tbody", facts))
    shown = hopping.rounds[:_MOST_ROUNDS]
    rows = [list(round_cells(number, each)) for number, each in enumerate(shown, 1)]
    yield tag("h3", "Rounds")
    yield table(ROUND_COLUMNS, rows)
    if len(hopping.rounds) > len(shown):
        yield tag("p", f"{len(hopping.rounds) - len(shown):,} more rounds are not shown.", class_="muted")
    yield tag(
        "p",
        "Busy: of the time for which workers were up, the part in which they trained or evaluated. "
        "Above bound: by how much the round took longer than its busiest worker and its longest trial need.",
        class_="muted",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    course: TrialCourse
    best: float | None
    gangs: int
    most_slots: int
    slot_s: float


def trial_table(memoir: Memoir) -> Iterator[Content]:
    """The best first; how many are left out is told."""
    lines = _ranked(memoir)
    shown = lines[:_MOST_TRIALS]
    names = list(dict.fromkeys(name for line in shown for name in line.course.config))
    columns = names[:_MOST_PARAMETERS]
    standing = memoir.status.standing
    best = None if standing.best is None else standing.best.trial
    has_forks = any(line.course.parent is not None for line in shown)
    head = [
        "trial",
        f"best {standing.metric}",
        "last",
        "iterations",
        "slot time",
        "gangs" if standing.hopping is None else "visits",
        "most slots",
        *columns,
        "crashes",
        *(["forked from"] if has_forks else []),
    ]
    rows = [_trial_cells(line, columns, is_best=line.course.trial == best) for line in shown]
    yield table(head, rows, sortable=True)
    told = []
    if len(lines) > len(shown):
        told.append(f"{len(lines) - len(shown):,} more trials are not shown")
    if len(names) > len(columns):
        told.append(f"{plural(len(names) - len(columns), 'more hyperparameter')} not shown")
    yield tag("p", "; ".join([*told, "a click on a heading sorts"]).capitalize() + ".", class_="muted")


def _trial_cells(line: _Line, columns: list[str], *, is_best: bool) -> list[Cell | Content]:
    course = line.course
    last = course.kept[-1] if course.kept else None
    cells: list[Cell | Content] = [
        Cell(f"{course.trial}{' ★' if is_best else ''}", course.trial, "best" if is_best else None),
        Cell("" if line.best is None else f"{line.best:.5g}", line.best),
        Cell("" if last is None else f"{last:.5g}", last),
        Cell(f"{len(course.kept):,}", len(course.kept)),
        Cell(format_duration(line.slot_s), line.slot_s),
        line.gangs,
        line.most_slots,
        *(_parameter(course.config, name) for name in columns),
        Cell(len(course.crashes) or "", len(course.crashes)),
    ]
    if course.parent is not None:
        cells.append(Cell(f"{course.parent} after {course.inherited:,}", course.parent))
    return cells


def _parameter(config: Config, name: str) -> Cell:
    value = config.get(name, "")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Cell(str(value))
    return Cell(f"{value:.4g}" if isinstance(value, float) else f"{value}", value)


def _ranked(memoir: Memoir) -> list[_Line]:
    mode = memoir.terms.mode
    slot_s: dict[TrialId, float] = {}
    gangs: dict[TrialId, int] = {}
    most: dict[TrialId, int] = {}
    for gang in memoir.history.gangs:
        slot_s[gang.trial] = slot_s.get(gang.trial, 0.0) + (gang.until_s - gang.from_s) * len(gang.gang)
        gangs[gang.trial] = gangs.get(gang.trial, 0) + 1
        most[gang.trial] = max(most.get(gang.trial, 0), len(gang.gang))
    choose = max if mode is Mode.MAX else min
    lines = [
        _Line(
            course=course,
            best=choose(course.kept) if course.kept else None,
            gangs=gangs.get(number, 0),
            most_slots=most.get(number, 0),
            slot_s=slot_s.get(number, 0.0),
        )
        for number, course in memoir.history.trials.items()
    ]
    sign = -1.0 if mode is Mode.MAX else 1.0
    return sorted(lines, key=lambda line: (line.best is None, sign * (line.best or 0.0), line.course.trial))


def failure_list(memoir: Memoir) -> Iterator[Content]:
    """Trials that failed alike, the most frequent first, with the whole error of the first of them."""
    failures = memoir.status.standing.failures
    for failure in failures[:_MOST_FAILURES]:
        crashes = memoir.history.trials[TrialId(failure.trial)].crashes
        trace = crashes[-1].error.strip() if crashes else failure.error
        told = f"{plural(failure.trials, 'trial')}, the first is {failure.trial}: "
        if trace == failure.error:
            yield tag("p", told, tag("code", failure.error))
        else:
            yield tag("details", tag("summary", told, tag("code", failure.error)), tag("pre", trace))
    if len(failures) > _MOST_FAILURES:
        yield tag("p", f"{len(failures) - _MOST_FAILURES} more kinds of error are not shown.", class_="muted")


def remark_list(memoir: Memoir) -> Iterator[Content]:
    remarks = memoir.history.remarks
    if not remarks:
        return
    rows: list[list[Cell | Content]] = [
        [Cell(format_duration(each.at_s)), each.topic, Cell(each.text, style="wide")]
        for each in remarks[:_MOST_REMARKS]
    ]
    yield table(["time", "about", "what"], rows, left=(1, 2))
    if len(remarks) > _MOST_REMARKS:
        yield tag("p", f"{len(remarks) - _MOST_REMARKS:,} more notes are not shown.", class_="muted")


def job_text(memoir: Memoir) -> str:
    """As YAML, without what was left open."""
    told = {key: value for key, value in memoir.job.items() if value is not None}
    return yaml.safe_dump(told, sort_keys=False, allow_unicode=True, width=110)
