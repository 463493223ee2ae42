"""Forecasts of leaders, made again from what the journal had by then."""

from __future__ import annotations

import pytest

from elastune.history.forecasts import checked_forecasts
from elastune.history.recorder import History, history_of
from elastune.history.trials import BestStep, HistoryTerms, MetricPoints, TrialHistory
from elastune.journal.writer import MemoryJournal
from elastune.model.ids import TrialId
from elastune.model.metric import Mode
from elastune.runs.simulation import Simulation, unnamed
from elastune.setup.run_setup import prepare
from tests.runs.checked_run import SAMPLES, job_of


def run_of(curves: list[list[float]], best: list[BestStep]) -> History:
    """An iteration takes ten seconds, and all trials begin at once."""
    trials = {
        TrialId(number): TrialHistory(
            trial=TrialId(number),
            config={},
            points=MetricPoints(
                [10.0 * at for at in range(1, len(values) + 1)], list(range(1, len(values) + 1)), values
            ),
            kept=values,
        )
        for number, values in enumerate(curves)
    }
    return History(
        nodes=(), gangs=(), trials=trials, money=(), best=tuple(best), stages=(), remarks=(), refusals=(),
        outages=(), ending=None, end_s=100.0, events=0,
    )  # fmt: skip


def test_a_forecast_knows_only_what_was_known_by_then() -> None:
    losses = [[1.0, 0.8, 0.7, 0.6, 0.1], [1.1, 0.9], [1.2, 1.0], [1.3, 1.1]]
    history = run_of(losses, [BestStep(20.0, 0.8, TrialId(0), 2)])
    first, *_ = checked_forecasts(history, Mode.MIN)
    assert (first.at_s, first.trial, first.iteration, first.best) == (20.0, TrialId(0), 2, 0.8)
    assert first.until_iteration == 5
    assert 0.1 < first.forecast < 0.8  # four trials gained 0.2 in the first doubling
    assert first.spread > 0.0
    assert first.came == pytest.approx(0.1)
    assert first.error == pytest.approx(0.1 - first.forecast)


def test_what_is_not_trained_further_is_not_checked_and_nothing_twice() -> None:
    history = run_of([[0.5, 0.6, 0.7]], [BestStep(10.0, 0.5, TrialId(0), 1)])
    assert [each.iteration for each in checked_forecasts(history, Mode.MAX)] == [1, 2]


def test_the_leaders_of_a_run_are_checked() -> None:
    changes = {"deadline": 1200.0, "budget": 24.0, "search": {"algorithm": "forecast", "sampler": "random"}}
    setup, journal = prepare(job_of(**changes), samples=SAMPLES), MemoryJournal()
    simulation = Simulation(setup, seed=0, journal=journal, record=unnamed(setup))
    simulation.run()
    terms = HistoryTerms.of(simulation.core.state.terms)
    checked = checked_forecasts(history_of(journal.read(simulation.record.run), terms), terms.mode)
    assert len(checked) > 3
    assert all(each.came >= each.best and each.until_iteration > each.iteration for each in checked)
