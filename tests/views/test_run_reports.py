"""Runs as text: what is drawn, at which width, and what is never cut or lost."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

import elastune
from elastune.runs.campaign import Campaign
from elastune.views.run_tables import difference
from elastune.views.terminal.lists import format_age
from elastune.views.terminal.run import sparkline
from elastune.views.terminal.simulation import render_campaign

EXAMPLE = Path(__file__).parents[2] / "examples" / "synthetic.yaml"
HYPERBAND: dict[str, Any] = {
    "trainable": "synthetic:hypersched",
    "search": {"algorithm": "hyperband", "max_iterations": 27},
    "deadline": "30m",
    "profile": {"iteration": "10s", "speedup": {2: 1.8, 4: 3.2}},
    "cluster": {"slots_per_node": 4, "max_nodes": 16, "price_per_hour": 1000, "init": "10s"},
}


def shown(what: RenderableType, width: int = 100, encoding: str = "utf-8") -> str:
    output = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(width=width, file=output, markup=False, highlight=False)
    console.print(what)
    output.seek(0)
    return output.read()


def widest(text: str) -> int:
    return max(len(line.rstrip()) for line in text.splitlines())


def test_nodes_over_time_are_drawn_as_the_mean_of_each_cell() -> None:
    assert sparkline([(0.0, 0), (10.0, 8), (20.0, 4), (30.0, 0)], 40.0, cells=4) == " █▄ "
    assert sparkline([(0.0, 0), (5.0, 8)], 40.0, cells=4) == "▄███"
    assert sparkline([(0.0, 100), (10.0, 1)], 20.0, cells=2) == "█▁"  # one node among a hundred is seen
    assert sparkline([(0.0, 0)], 40.0) == ""


def test_a_difference_has_a_sign_and_no_negative_zero() -> None:
    assert difference(110.0, 100.0) == "+10.0%"
    assert difference(99.999, 100.0) == "+0.0%"
    assert difference(99.0, None) == difference(99.0, 0.0) == ""


def test_ages_have_one_unit() -> None:
    assert [format_age(s) for s in (0, 59, 60, 7200, 200_000)] == ["now", "now", "1m ago", "2h ago", "2d ago"]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_brackets_have_their_stages_in_one_table_that_fits(width: int) -> None:
    text = shown(render_campaign(elastune.simulate_many(HYPERBAND)), width)
    assert widest(text) <= width
    assert "…" not in text
    table = text.partition("Stages, as bracket.stage\n")[2].partition("\n\n")[0]
    stages = [line.split()[0] for line in table.splitlines()[1:]]
    assert stages == ["3.1", "3.2", "3.3", "3.4", "2.1", "2.2", "2.3", "1.1", "1.2", "0.1", "all"]
    assert ("slot time" in text) == (width >= 100)


def test_the_shares_of_slot_time_are_whole() -> None:
    (run,) = elastune.simulate_many(HYPERBAND).runs
    for shares in [run.standing.shares, *(stage.shares for stage in run.standing.stages)]:
        assert shares is not None
        parts = (shares.booting, shares.starting, shares.training, shares.saving, shares.idle)
        assert sum(parts) == pytest.approx(1.0)
    costs = sum(stage.actual.cost for stage in run.standing.stages)
    assert costs == pytest.approx(run.result.actual.cost)


def test_text_of_users_is_no_markup() -> None:
    def train(config: dict[str, float], iteration: int) -> float:
        raise ValueError("[bold]bad shape [3, 4][/bold]")

    job = {**HYPERBAND, "trainable": train, "metric": "accuracy", "space": {"x": {"float": [0, 1]}}}
    text = shown(render_campaign(elastune.simulate_many(job)))
    assert "ValueError: [bold]bad shape [3, 4][/bold]" in text
    assert "failed: the first 5 trials all failed alike" in text
    assert "none: no trial has a checkpoint" in text


def test_many_runs_show_a_line_for_time_cost_and_best_of_each_policy() -> None:
    campaign: Campaign = elastune.simulate_many(
        EXAMPLE, seeds=2, policies=["rubberband", "asha"], faults="mild"
    )
    text = shown(render_campaign(campaign), 80)
    assert widest(text) <= 80
    assert "[mild faults]" in text
    assert [line.split()[0] for line in text.partition(" kept\n")[2].splitlines()[:8]] == [
        "rubberband", "time", "cost", "best", "asha", "time", "cost", "best",
    ]  # fmt: skip
    assert "not kept (--no-journal)" in text
