"""The paper's experiments on reduced grids: they run, and no planner beats a better one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.paper import data_price, end_to_end, init_latency, job_size, stragglers
from benchmarks.paper.__main__ import EXPERIMENTS
from benchmarks.paper.setting import MINUTE, Point
from benchmarks.planning import quality
from benchmarks.planning.contestants import CONTESTANTS, fresh_case
from benchmarks.reporting import Report, Table, silently
from elastune.model.cluster import Billing

ROUNDING = 1 + 1e-9


def keeps_order(points: Sequence[Point]) -> bool:
    """Wherever there are plans: static costs no less than greedy, and greedy no less than exact."""
    costs = [[point.usd(name) for name in ("exact", "greedy", "static")] for point in points]
    plans = [[cost for cost in row if cost is not None] for row in costs]
    return any(plans) and all(
        cheap <= dear * ROUNDING for row in plans for cheap, dear in itertools.pairwise(row)
    )


def test_table_3_is_the_plan_of_exact_by_20_minutes() -> None:
    quote = end_to_end.measure(deadlines_min=(20,))[20]
    assert quote.optimal
    assert [stage.slots_per_trial for stage in quote.stages] == [1, 2, 4, 8]
    assert [stage.nodes_held for stage in quote.stages] == [8, 5, 3, 2]


def test_the_epoch_time_is_the_one_that_gives_the_static_time_of_table_2() -> None:
    static = end_to_end.measure(deadlines_min=(20,))[20].static
    assert static is not None
    assert static.peak_nodes == 6
    assert static.jct_seconds == pytest.approx(19 * MINUTE + 24, abs=0.5)


@pytest.mark.parametrize("epoch_s", [101.0, 105.0, 110.0])
def test_the_plan_of_table_3_does_not_hang_on_the_exact_epoch_time(epoch_s: float) -> None:
    case = fresh_case(end_to_end.problem_with(20.0, epoch_s))
    exact, static = CONTESTANTS["exact"](case), CONTESTANTS["static"](case)
    assert exact is not None
    assert static is not None
    assert [stage.nodes_held for stage in exact.plan.stages] == [8, 5, 3, 2]
    assert static.plan.peak_nodes == 6


def test_planners_keep_their_order_in_the_end_to_end_job() -> None:
    quotes = end_to_end.measure(deadlines_min=(20, 40))
    points = [
        Point(group=(), x=deadline, answers=quote.comparison or {}) for deadline, quote in quotes.items()
    ]
    assert keeps_order(points)


def test_with_stragglers_planners_keep_their_order_and_nodes_cost_more_than_functions() -> None:
    points = stragglers.measure(sigmas=(10,))
    assert keeps_order(points)
    usd = {point.group: point.usd("static") or 0.0 for point in points}
    for noise in (stragglers.PER_ITERATION, stragglers.PER_TRIAL):
        assert usd[noise, "instance"] > usd[noise, "function"]


def test_planners_keep_their_order_at_any_data_price() -> None:
    assert keeps_order(data_price.measure(prices=(0.0, 0.16)))
    assert keeps_order(data_price.measure_deadlines(deadlines_min=(8.0, 20.0)))


def test_planners_keep_their_order_at_any_job_size() -> None:
    assert keeps_order(job_size.measure(trials=(8, 64), deadlines_min=(20, 10)))


def test_planners_keep_their_order_at_any_init_latency() -> None:
    assert keeps_order(
        init_latency.measure(laws=(init_latency.LETTER,), inits_s=(1, 100), deadlines_min=(150, 160))
    )
    assert keeps_order(
        init_latency.measure(laws=(init_latency.EXTRAPOLATED,), inits_s=(10,), deadlines_min=(90,))
    )


def test_no_plan_is_as_fast_as_the_deadlines_of_figure_12_ask_for() -> None:
    assert init_latency.fastest_min(init_latency.LETTER, 1.0) == pytest.approx(146.8, abs=0.1)
    (point,) = init_latency.measure(laws=(init_latency.LETTER,), inits_s=(1,), deadlines_min=(140,))
    assert set(point.answers.values()) == {None}


def test_the_extrapolated_law_keeps_the_measured_points() -> None:
    flat, extended = (init_latency.SPEEDUPS[law] for law in (init_latency.LETTER, init_latency.EXTRAPOLATED))
    assert extended.points[: len(flat.points)] == flat.points
    assert [round(extended.at(n), 2) for n in (16, 32, 64)] == [8.34, 11.04, 13.18]


@pytest.mark.parametrize("billing", Billing)
def test_no_planner_beats_the_optimum_on_random_jobs(billing: Billing) -> None:
    ratios = quality.measure(jobs=12, seed=7, billing=billing)
    assert min(min(values) for values in ratios.values()) >= 1 / ROUNDING
    for static, letter, ours in zip(ratios["static"], ratios["greedy-letter"], ratios["greedy"], strict=True):
        assert letter <= static * ROUNDING
        assert ours <= static * ROUNDING


def test_a_report_is_written_as_csv_markdown_and_png(tmp_path: Path) -> None:
    table = Table(name="t", title="Title", header=("what", "$"), rows=(("a", 1.5), ("b", None)), note="Note.")
    files = Report(tables=(table,)).write(tmp_path)
    assert [file.name for file in files] == ["t.csv", "t.md"]
    lines = ["**Title**", "", "| what | $ |", "| --- | ---: |", "| a | 1.50 |", "| b | – |", "", "Note.", ""]
    assert files[0].read_text(encoding="utf-8") == "what,$\na,1.5\nb,\n"
    assert files[1].read_text(encoding="utf-8") == "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_leaves_tables_and_figures(name: str, tmp_path: Path) -> None:
    files = EXPERIMENTS[name](silently).write(tmp_path)
    assert {file.suffix for file in files} == {".csv", ".md", ".png"}
    assert all(0 < file.stat().st_size < 100_000 for file in files)
