"""The page of several runs: a row for each policy, the pictures, a row for each run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from elastune.model.metric import Mode
from elastune.runs.comparison import ComparedRun, Mean, Party, RunComparison
from elastune.runs.reading import node_counts
from elastune.views.html.markup import Content, Markup, html_table, joined, page, section, tag
from elastune.views.run_tables import format_metric
from elastune.views.table import Cell, Column, Table, Tone, make_table
from elastune.wording import format_duration, format_usd, plural

_MOST_RUNS = 500


def comparison_page(comparison: RunComparison, pictures: Mapping[str, Markup]) -> str:
    return page(f"{comparison.title}: {_what(comparison)}", _parts(comparison, pictures))


def _parts(comparison: RunComparison, pictures: Mapping[str, Markup]) -> Iterator[Content]:
    yield _header(comparison)
    yield section("Policies", html_table(party_table(comparison)))
    yield section("What happened", *pictures.values())
    yield section("Runs", html_table(compared_run_table(comparison)))


def _what(comparison: RunComparison) -> str:
    runs = sum(len(party.runs) for party in comparison.parties)
    return f"{plural(runs, 'run')} compared"


def _header(comparison: RunComparison) -> Markup:
    facts = [_what(comparison)]
    if comparison.deadline_s is not None:
        facts.append(f"deadline {format_duration(comparison.deadline_s)}")
    if comparison.budget_usd is not None:
        facts.append(f"budget {format_usd(comparison.budget_usd)}")
    way = "the largest" if comparison.mode is Mode.MAX else "the smallest"
    best = f"Best: {way} {comparison.metric} of a model with a checkpoint."
    texts = (tag("p", text, class_="muted") for text in (" · ".join(facts), best))
    return joined([tag("h1", comparison.title), *texts])


def party_table(comparison: RunComparison) -> Table:
    top = _leader(comparison)

    def best(party: Party) -> Cell:
        text = _mean(party.best, lambda value: f"{value:.4g}")
        return Cell(text, Tone.BEST if party is top else Tone.PLAIN)

    columns: list[Column[Party]] = [
        Column("policy", lambda party: party.label, is_text=True),
        Column("runs", lambda party: len(party.runs)),
        Column(f"best {comparison.metric}", best),
        Column("time", lambda party: _with_predicted(party, party.seconds, "jct_seconds", format_duration)),
        Column("cost", lambda party: _with_predicted(party, party.usd, "cost", format_usd)),
        Column("deadline kept", lambda party: _kept(party.kept_deadline, len(party.runs))),
        Column("budget kept", lambda party: _kept(party.kept_budget, len(party.runs))),
        Column("how they ended", _endings, is_text=True),
    ]
    notes = ("Means over the runs, ± one standard error.",)
    table = make_table(columns, comparison.parties, notes=notes)
    money = ("cost", "budget kept")
    return table if _has_costs(comparison) else table.of_columns(lambda column: column.title not in money)


def _has_costs(comparison: RunComparison) -> bool:
    return any(run.history.usd for party in comparison.parties for run in party.runs)


def _with_predicted(party: Party, mean: Mean, key: str, show: Callable[[float], str]) -> Cell:
    detail = None if party.predicted is None else f"predicted {show(getattr(party.predicted, key))}"
    return Cell(_mean(mean, show), detail=detail)


def _endings(party: Party) -> str:
    return ", ".join(f"{count} {word}" for word, count in party.endings.items())


def _leader(comparison: RunComparison) -> Party | None:
    found = [(party.best.value, party) for party in comparison.parties if party.best is not None]
    if len(found) < 2:
        return None
    choose = max if comparison.mode is Mode.MAX else min
    return choose(found, key=lambda pair: pair[0])[1]


def _mean(mean: Mean | None, show: Callable[[float], str]) -> str:
    if mean is None:
        return "none"
    return show(mean.value) if mean.error is None else f"{show(mean.value)} ± {show(mean.error)}"


def _kept(kept: int | None, runs: int) -> Cell:
    if kept is None:
        return Cell("no limit", Tone.MUTED)
    return Cell(f"{kept} of {runs}", Tone.GOOD if kept == runs else Tone.BAD, kept / runs)


def compared_run_table(comparison: RunComparison) -> Table:
    runs = [(party.label, run) for party in comparison.parties for run in party.runs]
    columns: list[Column[tuple[str, ComparedRun]]] = [
        Column("run", lambda each: each[1].record.run, is_text=True),
        Column("policy", lambda each: each[0], is_text=True),
        Column("seed", lambda each: each[1].record.seed, str),
        Column(f"best {comparison.metric}", lambda each: _best(each[1]), format_metric),
        Column("time", lambda each: each[1].history.end_s, format_duration),
        Column("cost", lambda each: each[1].history.usd, format_usd),
        Column("nodes at once", lambda each: max(count.held for count in node_counts(each[1].history))),
        Column("trials", lambda each: len(each[1].history.trials)),
        Column("ended", lambda each: _ending(each[1]), is_text=True),
    ]
    notes = ["`elastune report` with the id of a run draws that run."]
    if len(runs) > _MOST_RUNS:
        notes.insert(0, f"{len(runs) - _MOST_RUNS:,} more runs are not shown.")
    table = make_table(columns, runs[:_MOST_RUNS], notes=tuple(notes), is_sortable=True)
    return table if _has_costs(comparison) else table.without_money()


def _best(run: ComparedRun) -> float | str:
    return "none" if run.best is None else run.best


def _ending(run: ComparedRun) -> str:
    return "interrupted" if run.history.ending is None else run.history.ending.value
