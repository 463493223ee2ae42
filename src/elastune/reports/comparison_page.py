"""The page of several runs: a line for each policy, the pictures, a line for each run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from elastune.reports.markup import Cell, Content, Markup, joined, table, tag
from elastune.reports.page import page, section
from elastune.runs.history.comparison import Comparison, Mean, Party
from elastune.runs.history.series import node_counts
from elastune.spec.mode import Mode
from elastune.units import format_duration, format_usd, plural

_MOST_RUNS = 500


def comparison_page(comparison: Comparison, pictures: Mapping[str, Markup]) -> str:
    return page(f"{comparison.title}: {_what(comparison)}", _parts(comparison, pictures))


def _parts(comparison: Comparison, pictures: Mapping[str, Markup]) -> Iterator[Content]:
    yield _header(comparison)
    yield section("Policies", _party_table(comparison))
    yield section("What happened", *pictures.values())
    yield section("Runs", *_run_table(comparison))


def _what(comparison: Comparison) -> str:
    runs = sum(len(party.runs) for party in comparison.parties)
    return f"{plural(runs, 'run')} compared"


def _header(comparison: Comparison) -> Markup:
    limits = []
    if comparison.deadline_s is not None:
        limits.append(f"deadline {format_duration(comparison.deadline_s)}")
    if comparison.budget_usd is not None:
        limits.append(f"budget {format_usd(comparison.budget_usd)}")
    way = "the largest" if comparison.mode is Mode.MAX else "the smallest"
    return joined(
        [
            tag("h1", comparison.title),
            tag("p", " · ".join([_what(comparison), *limits]), class_="muted"),
            tag("p", f"Best: {way} {comparison.metric} of a model with a checkpoint.", class_="muted"),
        ]
    )


def _party_table(comparison: Comparison) -> Markup:
    head = ["policy", "runs", f"best {comparison.metric}", "time", "cost", "deadline kept", "budget kept"]
    top = _leader(comparison)
    rows: list[list[Cell | Content]] = []
    for party in comparison.parties:
        predicted, runs = party.predicted, len(party.runs)
        time, cost = _mean(party.seconds, format_duration), _mean(party.usd, _show_usd)
        rows.append(
            [
                party.label,
                runs,
                Cell(_mean(party.best, _show_metric), style="best" if party is top else None),
                [time, _detail(None if predicted is None else format_duration(predicted.jct_seconds))],
                [cost, _detail(None if predicted is None else format_usd(predicted.cost))],
                _kept(party.kept_deadline, runs),
                _kept(party.kept_budget, runs),
                ", ".join(f"{count} {word}" for word, count in party.endings.items()),
            ]
        )
    note = tag("p", "Means over the runs, ± one standard error.", class_="muted")
    return joined([table([*head, "how they ended"], rows, left=(0, 7)), note])


def _detail(predicted: str | None) -> Markup | None:
    return None if predicted is None else tag("div", f"predicted {predicted}", class_="detail")


def _show_metric(value: float) -> str:
    return f"{value:.4g}"


def _show_usd(value: float) -> str:
    return f"${value:,.2f}"


def _leader(comparison: Comparison) -> Party | None:
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
        return Cell("no limit", style="muted")
    return Cell(f"{kept} of {runs}", kept / runs, "good" if kept == runs else "bad")


def _run_table(comparison: Comparison) -> Iterator[Content]:
    head = [
        "run",
        "policy",
        "seed",
        f"best {comparison.metric}",
        "time",
        "cost",
        "nodes at once",
        "trials",
        "ended",
    ]
    rows: list[list[Cell | Content]] = []
    for party in comparison.parties:
        for run in party.runs:
            history, best = run.history, run.best
            rows.append(
                [
                    run.record.run,
                    party.label,
                    run.record.seed,
                    Cell("none" if best is None else f"{best:.5g}", best),
                    Cell(format_duration(history.end_s), history.end_s),
                    Cell(format_usd(history.usd), history.usd),
                    max(count.held for count in node_counts(history)),
                    len(history.trials),
                    "interrupted" if history.ending is None else history.ending.value,
                ]
            )
    yield table(head, rows[:_MOST_RUNS], left=(0, 1, 8), sortable=True)
    told = "A click on a heading sorts; `elastune report` with the id of a run draws that run."
    if len(rows) > _MOST_RUNS:
        told = f"{len(rows) - _MOST_RUNS:,} more runs are not shown. {told}"
    yield tag("p", told, class_="muted")
