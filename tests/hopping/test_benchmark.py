"""The benchmark on tiny settings: it runs, and what it says has the shape that it should have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.hopper import replicas, rounds, schedules
from benchmarks.hopper.measuring import Scope, measure
from benchmarks.hopper.settings import CNN_MFLOPS, Setting, paper_settings

FEW = Scope(epochs=3, seeds=2, solved=1, limit_s=1.0)
SMALL = Setting(configs=6, workers=4, mixed=True)


def test_the_costs_are_those_of_the_paper() -> None:
    """Section 5.4: 35 networks, mean 5939 and standard deviation 5671 MFLOPs before rounding."""
    assert len(CNN_MFLOPS) == 35
    assert abs(np.mean(CNN_MFLOPS) - 5939) < 5
    assert abs(np.std(CNN_MFLOPS) - 5671) < 5


def test_the_settings_are_those_of_the_paper() -> None:
    assert len(list(paper_settings())) == 8


def test_no_ratio_is_below_the_bound() -> None:
    for setting in (SMALL, replace(SMALL, mixed=False)):
        measured = measure(setting, FEW)
        runs = [*measured.listed, *measured.all_randomized, *measured.solved]
        assert min(run.ratio for run in runs) >= 1 - 1e-9
        assert max(run.ratio for run in measured.listed) < 1.05


def test_the_report_has_a_table_and_a_figure() -> None:
    measured = [measure(setting, FEW) for setting in (SMALL, replace(SMALL, mixed=False))]
    assert len(schedules._table(measured, FEW).rows) == 2
    assert schedules._draw(measured).axes


def test_replicas_save_time() -> None:
    table = replicas.run(epochs=2, sizes=(SMALL,)).tables[0]
    assert [row[2] for row in table.rows] == [1, 2, 3]
    assert table.rows[0][-1] == 1.0
    assert all(isinstance(row[-1], float) and row[-1] < 1.0 for row in table.rows[1:])


@pytest.mark.slow
def test_rounds_are_full_and_quotes_hold() -> None:
    brackets, policies, quotes = rounds.measure(rounds.Scope(jobs=2, max_iterations=3)).tables
    assert brackets.rows[0][1] == brackets.rows[0][2], "planned and simulated"
    assert {row[2] for row in policies.rows} == {1.0}
    assert quotes.rows[0][-1] == 0
