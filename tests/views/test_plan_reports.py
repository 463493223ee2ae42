"""Tables and pictures of quotes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import elastune
from elastune.hopping.partitions import Hopping
from elastune.model.cluster import ClusterTerms
from elastune.model.distributions import Constant
from elastune.model.limits import Limits
from elastune.model.profile import Profile, Speedup
from elastune.model.stages import successive_halving
from elastune.planning.problem import Problem
from elastune.planning.quoting import QuoteRequest, make_quote
from elastune.views.figures.plan import draw_quote, save_plot
from elastune.views.terminal.plan import render_quote

JOB: dict[str, Any] = {
    "search": {"algorithm": "sha", "trials": 9, "max_iterations": 9},
    "deadline": "20m",
    "profile": {"iteration": "60s", "speedup": {2: 1.8, 4: 3.2}},
    "cluster": {"slots_per_node": 4, "max_nodes": 8, "price_per_hour": 10},
}


def shown(quote: elastune.Quote) -> str:
    output = io.StringIO()
    Console(width=110, file=output).print(render_quote(quote))
    return output.getvalue()


def test_an_optimal_plan_is_called_optimal_and_a_heuristic_is_not() -> None:
    assert "optimal: no plan that keeps the limits is cheaper" in shown(elastune.plan(JOB))
    assert "nothing is proven" in shown(elastune.plan(JOB, planner="greedy"))


def test_a_gap_is_told_with_the_bound() -> None:
    noise = {"iteration": {"mean": "60s", "sd": "20s"}, "spread": 0.4}
    noisy = {**JOB, "profile": {**JOB["profile"], **noise}}
    assert "no plan that keeps the limits has a mean below $" in shown(elastune.plan(noisy))


def test_too_few_samples_for_the_confidence_are_told() -> None:
    noisy = {**JOB, "profile": {**JOB["profile"], "spread": 0.4}, "confidence": 0.999}
    assert "4,096 samples say little about 99.9%: use --samples 10000" in shown(elastune.plan(noisy))
    assert "say little" not in shown(elastune.plan(noisy, samples=10_000))
    assert "say little" in shown(elastune.plan({**noisy, "confidence": 0.9}, samples=1))
    assert "say little" not in shown(elastune.plan({**JOB, "confidence": 0.999}))


def test_no_limits_means_no_promise() -> None:
    free = {key: value for key, value in JOB.items() if key != "deadline"}
    assert "nothing is promised" in shown(elastune.plan(free))


def test_held_nodes_are_shown_beside_the_used_ones() -> None:
    slow = {**JOB, "cluster": {**JOB["cluster"], "slots_per_node": 1, "init": "10m"}, "deadline": "25m"}
    assert " of " in shown(elastune.plan(slow, planner="static"))


def test_brackets_have_a_table_each_and_a_row_of_the_picture_each() -> None:
    hyperband = {**JOB, "search": {"algorithm": "hyperband", "max_iterations": 9}}
    quote = elastune.plan(hyperband, frontier=True)
    assert all(f"bracket {s}" in shown(quote) for s in range(3))
    labels = [axes.get_ylabel() for axes in draw_quote(quote).axes]
    assert labels[:3] == ["bracket 2\nslots", "bracket 1\nslots", "bracket 0\nslots"]


def test_a_long_frontier_is_thinned_for_people() -> None:
    search = {"algorithm": "sha", "trials": 256, "max_iterations": 256, "eta": 2}
    cluster = {**JOB["cluster"], "max_nodes": 200}
    quote = elastune.plan({**JOB, "search": search, "cluster": cluster, "deadline": "8h"}, frontier=True)
    assert quote.frontier is not None
    assert len(quote.frontier) > 22
    text = shown(quote)
    assert "are left out; --json has all" in text
    assert text.count("chosen") == 1


def test_the_picture_is_the_same_for_the_same_quote(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        save_plot(elastune.plan(JOB, frontier=True, compare=True), tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_page_needs_nothing_but_itself(tmp_path: Path) -> None:
    save_plot(elastune.plan(JOB, frontier=True), tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "mean cost" in page
    assert "<script" not in page
    assert "<link" not in page


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "plan.png").mkdir()
    with pytest.raises(elastune.JobError, match="cannot write there"):
        save_plot(elastune.plan(JOB), tmp_path / "plan.png")


def hopping_quote(**changes: Any) -> elastune.Quote:
    problem = Problem(
        specs=(successive_halving(trials=9, min_iterations=1, max_iterations=9, eta=3),),
        profile=Profile(iteration=Constant(60.0), speedup=Speedup.of({2: 1.9, 4: 3.6})),
        cluster=ClusterTerms(slots_per_node=4, max_nodes=8, price_per_hour=10.0),
        limits=Limits(deadline_s=1200.0),
        hopping=Hopping(partitions=8, **changes),
    )
    return make_quote(problem, QuoteRequest(frontier=True))


def test_where_models_hop_the_table_speaks_of_workers() -> None:
    text = shown(hopping_quote())
    assert "slots" not in text
    head = next(line for line in text.splitlines() if line.startswith("stage"))
    assert head.split("  ")[0] == "stage"
    assert all(word in head for word in ("epochs", "trials are", "workers", "nodes"))
    assert "hopping" in text
    assert "together" in text
    assert "8 partitions; they stay on the workers and the models hop" in text
    assert "8 partitions, each on 2 workers;" in shown(hopping_quote(replicas=2))


def test_where_models_hop_the_picture_has_a_box_per_worker_and_one_for_all_together(tmp_path: Path) -> None:
    quote = hopping_quote()
    axes = draw_quote(quote).axes[0]
    assert axes.get_title().startswith("each box is a worker, or all together")
    boxes = sum(stage.slots if stage.manner == "hopping" else 1 for stage in quote.stages)
    assert len(axes.patches) == boxes + len(quote.stages)  # and a grey one behind each stage
    save_plot(quote, tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert "<th>workers</th>" in page
    assert "slots per trial" not in page
