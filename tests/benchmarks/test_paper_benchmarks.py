"""The paper's experiments on reduced grids: they run, and no planner beats a better one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

import elastune
from benchmarks.paper import data_price, end_to_end, init_latency, job_size, placement, real, stragglers
from benchmarks.paper.__main__ import EXPERIMENTS
from benchmarks.paper.setting import MINUTE, Point, ask_all
from benchmarks.planning import quality
from benchmarks.planning.contestants import CONTESTANTS, LETTER, STATIC_LETTER, fresh_case
from benchmarks.policies.curves import DATA, NoDataError
from benchmarks.reporting import Report, Table, silently
from benchmarks.runtime.promises import DIGITS
from elastune.job.job import load_job
from elastune.model.cluster import Billing
from tests.thoroughness import most_telling

ROUNDING = 1 + 1e-9


def keeps_order(points: Sequence[Point]) -> bool:
    """Wherever there are plans: static costs no less than greedy, and greedy no less than exact."""
    costs = [[point.usd(name) for name in ("exact", "greedy", "static")] for point in points]
    plans = [[cost for cost in row if cost is not None] for row in costs]
    return any(plans) and all(
        cheap <= dear * ROUNDING for row in plans for cheap, dear in itertools.pairwise(row)
    )


def test_table_3_is_the_plan_of_exact_by_20_minutes() -> None:
    exact = end_to_end.measure(deadlines_min=(20,))[20]["exact"]
    assert exact is not None
    assert exact.optimal
    assert [stage.allocation.slots_per_trial for stage in exact.plan.stages] == [1, 2, 4, 8]
    assert [stage.nodes_held for stage in exact.plan.stages] == [8, 5, 3, 2]


def test_to_the_letter_the_paper_s_greedy_does_not_find_the_plan_of_its_table_3() -> None:
    letter = end_to_end.measure(deadlines_min=(20,))[20][LETTER]
    assert letter is not None
    assert [stage.allocation.slots_per_trial for stage in letter.plan.stages] == [1, 2, 7, 7]
    assert [stage.nodes_held for stage in letter.plan.stages] == [8, 5, 6, 2]


def test_to_the_letter_the_paper_s_greedy_gains_nothing_in_figure_12() -> None:
    (point,) = init_latency.measure(laws=(init_latency.FLAT,), inits_s=(1,), deadlines_min=(150,))
    assert point.usd(LETTER) == point.usd(STATIC_LETTER)
    assert (point.ratio("static") or 0.0) > 10


def test_the_epoch_time_is_the_one_that_gives_the_static_time_of_table_2() -> None:
    static = end_to_end.measure(deadlines_min=(20,))[20][STATIC_LETTER]
    assert static is not None
    assert static.plan.peak_nodes == 6
    assert static.outcome.mean_jct_s == pytest.approx(19 * MINUTE + 24, abs=0.5)


@pytest.mark.parametrize("epoch_s", [101.0, 105.0, 110.0])
def test_the_plan_of_table_3_does_not_hang_on_the_exact_epoch_time(epoch_s: float) -> None:
    case = fresh_case(end_to_end.problem_with(20.0, epoch_s))
    exact, static = CONTESTANTS["exact"](case), CONTESTANTS[STATIC_LETTER](case)
    assert exact is not None
    assert static is not None
    assert [stage.nodes_held for stage in exact.plan.stages] == [8, 5, 3, 2]
    assert static.plan.peak_nodes == 6


def test_planners_keep_their_order_in_the_end_to_end_job() -> None:
    points = [
        Point(group=(), x=deadline, answers=ask_all(end_to_end.problem_with(deadline)))
        for deadline in (20, 40)
    ]
    assert keeps_order(points)


@pytest.mark.slow  # the order is the same code at other values
def test_with_stragglers_planners_keep_their_order_and_nodes_cost_more_than_functions() -> None:
    points = stragglers.measure(sigmas=(10,))
    assert keeps_order(points)
    usd = {point.group: point.usd("static") or 0.0 for point in points}
    for noise in (stragglers.PER_ITERATION, stragglers.PER_TRIAL):
        assert usd[noise, "instance"] > usd[noise, "function"]


@pytest.mark.slow  # the order is the same code at other values
def test_planners_keep_their_order_at_any_data_price() -> None:
    assert keeps_order(data_price.measure(prices=(0.0, 0.16)))
    assert keeps_order(data_price.measure_deadlines(deadlines_min=(8.0, 20.0)))


@pytest.mark.slow  # the order is the same code at other values
def test_planners_keep_their_order_at_any_job_size() -> None:
    assert keeps_order(job_size.measure(trials=(8, 64), deadlines_min=(20, 10)))


@pytest.mark.slow
def test_planners_keep_their_order_at_any_init_latency() -> None:
    assert keeps_order(
        init_latency.measure(laws=(init_latency.FLAT,), inits_s=(1, 100), deadlines_min=(150, 160))
    )
    assert keeps_order(
        init_latency.measure(laws=(init_latency.EXTRAPOLATED,), inits_s=(10,), deadlines_min=(90,))
    )


def test_no_plan_is_as_fast_as_the_deadlines_of_figure_12_ask_for() -> None:
    assert init_latency.fastest_min(init_latency.FLAT, 1.0) == pytest.approx(146.8, abs=0.1)
    (point,) = init_latency.measure(laws=(init_latency.FLAT,), inits_s=(1,), deadlines_min=(140,))
    assert set(point.answers.values()) == {None}


def test_the_extrapolated_law_keeps_the_measured_points() -> None:
    flat, extended = (init_latency.SPEEDUPS[law] for law in (init_latency.FLAT, init_latency.EXTRAPOLATED))
    assert extended.points[: len(flat.points)] == flat.points
    assert [round(extended.at(n), 2) for n in (16, 32, 64)] == [8.34, 11.04, 13.18]


@most_telling("billing", Billing.INSTANCE, Billing.FUNCTION, quick=1)
def test_no_planner_beats_the_optimum_on_random_jobs(billing: Billing) -> None:
    ratios = quality.measure(jobs=12, seed=7, billing=billing)
    assert min(min(values) for values in ratios.values()) >= 1 / ROUNDING
    order = [(STATIC_LETTER, LETTER), ("static", "greedy")]
    if billing is Billing.INSTANCE:  # by function the fastest division is not always the cheapest
        order.append((STATIC_LETTER, "static"))
    for worse, better in order:
        pairs = zip(ratios[worse], ratios[better], strict=True)
        assert all(good <= bad * ROUNDING for bad, good in pairs), (worse, better)


def test_a_report_is_written_as_csv_markdown_and_png(tmp_path: Path) -> None:
    table = Table(name="t", title="Title", header=("what", "$"), rows=(("a", 1.5), ("b", None)), note="Note.")
    files = Report(tables=(table,)).write(tmp_path)
    assert [file.name for file in files] == ["t.csv", "t.md"]
    lines = ["**Title**", "", "| what | $ |", "| --- | ---: |", "| a | 1.50 |", "| b | – |", "", "Note.", ""]
    assert files[0].read_text(encoding="utf-8") == "what,$\na,1.5\nb,\n"
    assert files[1].read_text(encoding="utf-8") == "\n".join(lines)


needs_data = pytest.mark.skipif(
    not (DATA / "scaling").is_dir(), reason=f"{DATA} is absent: the measurements are not part of the project"
)


@given(slots=st.sampled_from([1, 2, 4]), nodes=st.integers(1, 4), seed=st.integers(0, 1000))
def test_placed_gangs_are_on_one_node_and_scattered_ones_share_the_same_slots(
    slots: int, nodes: int, seed: int
) -> None:
    gangs = nodes * 4 // slots
    assert placement.placed(gangs, slots, nodes) == [(slots,)] * gangs
    spreads = placement.scattered(gangs, slots, nodes, Random(seed))
    assert [sum(spread) for spread in spreads] == [slots] * gangs
    assert max(len(spread) for spread in spreads) <= min(slots, nodes)


def test_step_times_between_measured_batches_are_interpolated_and_none_are_made_up() -> None:
    points = {64: 1.0, 129: 2.0, 257: 4.0}
    assert placement.interpolate(points, 129) == 2.0
    assert placement.interpolate(points, 193) == 3.0
    assert placement.interpolate(points, 258) == pytest.approx(4.0, rel=0.01)
    for at in (32, 512):
        with pytest.raises(NoDataError, match=f"a batch of {at} per GPU was not measured; 64 to 257 were"):
            placement.interpolate(points, at)


def test_without_the_measurements_the_ablation_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(NoDataError, match=r"cifar10-placements\.csv is absent"):
        placement.load_step_times("cifar10", tmp_path)


@needs_data
def test_placement_pays_where_the_network_counts() -> None:
    """BERT has the most to exchange per step; one GPU has nothing to place."""
    bert = placement.TRAININGS[-1]
    times = placement.load_step_times(bert.model)
    for slots, least in ((1, 1.0), (2, 1.5), (4, 1.7)):
        own, other = placement.measure_throughput(bert, times, slots, seeds=20)
        assert fmean(own) / fmean(other) >= least
    (minutes, usd), (other_minutes, other_usd) = placement.measure_search(bert, times, seeds=20)
    assert minutes < other_minutes
    assert usd < other_usd


def test_the_table_of_real_runs_has_means_and_says_where_there_was_no_plan() -> None:
    quote = elastune.plan(load_job(DIGITS), planner="static")
    rows = [
        real.RealRow(deadline_s=90.0, planner="static", seed=0, quote=quote, jct_s=80, usd=1.0, accuracy=0.9),
        real.RealRow(deadline_s=90.0, planner="static", seed=1, quote=quote, jct_s=91, usd=1.2, accuracy=0.8),
        real.RealRow(deadline_s=20.0, planner="exact", seed=0, quote=None),
    ]
    static, nothing = real.summary_table(rows, 2).rows
    assert static[:3] == (90, "static", ", ".join(str(stage.nodes_held) for stage in quote.stages))
    assert static[5:] == ("85.5 ± 7.8", "1.100 ± 0.141", "85.0 ± 7.1", "1 of 2")
    assert nothing == (20, "exact", *["no plan"] * 7)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_real_run_is_measured_quoted_and_executed() -> None:
    (row,) = real.measure(seeds=1, deadlines_s=(900.0,), planners=("static",))
    assert row.quote is not None
    assert row.quote.planner == "static"
    assert row.jct_s > 0
    assert row.usd > 0
    assert row.accuracy > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs_data if name == "placement" else ()) for name in EXPERIMENTS]
)
def test_every_experiment_leaves_tables_and_figures(name: str, tmp_path: Path) -> None:
    files = EXPERIMENTS[name](silently).write(tmp_path)
    assert {file.suffix for file in files} == {".csv", ".md", *({".png"} if name != "placement" else ())}
    assert all(0 < file.stat().st_size < 100_000 for file in files)
