"""Configurations that differ in speed: the promise holds whichever survive, and quotes know what is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import elastune
from benchmarks.planning.unequal import checked_run, job_for, write_curves
from elastune.api.arguments import as_job
from elastune.core.commands import Ending
from elastune.journal.writer import MemoryJournal
from elastune.model.cluster import ClusterTerms
from elastune.model.distributions import Constant
from elastune.model.profile import Profile, Speedup, TrialSpeed
from elastune.model.stages import Stage
from elastune.planning.prediction.draws import Draws
from elastune.planning.prediction.evaluator import Evaluator
from elastune.planning.prediction.plan import Plan, StagePlan, Workload, allocate
from elastune.planning.prediction.survivors import Survivors
from elastune.runs.simulation import Simulation, unnamed
from elastune.setup.run_setup import RunSetup, prepare


@pytest.mark.parametrize(
    ("slower_is_better", "deadline"),
    [
        pytest.param(False, "15m", marks=pytest.mark.slow),
        pytest.param(False, "25m", marks=pytest.mark.slow),
        (True, "15m"),
        pytest.param(True, "25m", marks=pytest.mark.slow),
    ],
)
def test_a_deadline_is_kept_whether_or_not_the_slower_configurations_survive(
    slower_is_better: bool, deadline: str, tmp_path: Path
) -> None:
    curves = tmp_path / "curves.npz"
    spread = write_curves(curves, slower_is_better=slower_is_better)
    kept = checked_run(prepare(job_for(curves, deadline, spread), samples=256), seeds=12)
    assert kept.complete >= 11 / 12
    assert kept.within_cost >= 11 / 12


FOUR = Workload(
    stages=(Stage(trials=4, iterations=1), Stage(trials=2, iterations=3)),
    profile=Profile(iteration=Constant(10.0), speedup=Speedup.of({}), spread=0.5),
    cluster=ClusterTerms(slots_per_node=1, max_nodes=4, price_per_hour=36.0, minimum_charge_s=0.0),
)


def test_a_trial_has_one_speed_in_all_stages() -> None:
    draws = Draws(FOUR, samples=600, seed=1, survivors=Survivors.SLOWEST)
    first, second = draws.train(0, 0).work_s / 10.0, draws.train(1, 0).work_s / 30.0
    slowest = -np.sort(-first, axis=1)[:, :2]
    assert second == pytest.approx(slowest)
    anyone = Draws(FOUR, samples=600, seed=1).train(1, 0).work_s / 30.0
    among = np.isclose(anyone[:, :, None], first[:, None, :]).any(axis=2)
    assert among.all()


def test_speeds_that_are_known_are_those_of_the_trials() -> None:
    speeds = (TrialSpeed(3.0, 0.0), TrialSpeed(1.0, 0.0), TrialSpeed(0.5, 0.0), TrialSpeed(2.0, 0.0))
    known = replace(FOUR, speeds=speeds)
    draws = Draws(known, samples=600, seed=1)
    assert draws.train(0, 0).work_s[0] == pytest.approx([30.0, 10.0, 5.0, 20.0])
    use = allocate(gangs=4, slots_per_trial=1, slots_per_node=1)
    pair = allocate(gangs=2, slots_per_trial=1, slots_per_node=1)
    plan = Plan((StagePlan(allocation=use, nodes_held=4), StagePlan(allocation=pair, nodes_held=2)))
    outcome = Evaluator(known, draws).evaluate(plan)
    assert outcome.jct_quantile_s(0.95) == pytest.approx(30.0 + 90.0)  # the slowest goes on
    assert outcome.mean_jct_s < 120.0


LEARN = """
def learn(config, iteration):
    return {"score": config["width"] * iteration}
"""


@pytest.fixture
def wide_job(tmp_path: Path) -> elastune.Job:
    """Twice the width takes twice the time, as six measured configurations tell."""
    (tmp_path / "curves.py").write_text(LEARN)
    return as_job(
        {
            "trainable": f"{tmp_path / 'curves.py'}:learn",
            "metric": "score",
            "mode": "max",
            "space": {"width": {"int": [8, 512], "log": True}},
            "search": {"algorithm": "sha", "trials": 9, "min_iterations": 2, "max_iterations": 18, "eta": 3},
            "profile": {
                "iteration": 10,
                "spread": 0.9,
                "speeds": [
                    {"config": {"width": width}, "factor": width / 128}
                    for width in (8, 16, 64, 128, 256, 512)
                ],
            },
            "cluster": {"provider": "simulated", "slots_per_node": 2, "max_nodes": 8, "price_per_hour": 3.6},
            "deadline": "40m",
        }
    )


def simulated(setup: RunSetup, seed: int) -> Simulation:
    run = Simulation(setup, seed=seed, journal=MemoryJournal(), record=unnamed(setup))
    run.run()
    return run


def test_a_quote_knows_the_configurations_that_will_be_drawn(wide_job: elastune.Job) -> None:
    setup = prepare(wide_job, samples=512)
    assert setup.quote is not None
    assert setup.quote.speeds is not None
    assert setup.quote.speeds.known == 9
    assert setup.quote.speeds.spread < 0.3  # of 0.9 without the hyperparameters
    (start,) = setup.quote.problem.starts
    run = simulated(setup, seed=setup.job.seed)
    trials = run.core.state.trials
    widths = [float(str(trials[number].config["width"])) for number in sorted(trials)]
    order = np.argsort([speed.factor for speed in start.speeds])
    assert np.array_equal(order, np.argsort(widths))
    assert run.core.state.ended is Ending.COMPLETE
    assert elastune.plan(setup.job, samples=512).speeds == setup.quote.speeds


def test_other_configurations_than_those_of_the_quote_are_planned_for_when_they_are_drawn(
    wide_job: elastune.Job,
) -> None:
    setup = prepare(wide_job, samples=512)
    journal, record = MemoryJournal(), unnamed(setup)
    run = Simulation(setup, seed=setup.job.seed + 1, journal=journal, record=record)
    run.run()
    assert any("not those of the quote" in str(entry) for entry in journal.read(record.run))
    assert run.core.state.ended is Ending.COMPLETE
