"""What a run is expected to take where configurations differ in speed and the rest is planned again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean

import pytest

import elastune
from elastune.api.tuning import prepare_to_run
from elastune.job.job import Job
from elastune.planning.problem import Problem
from elastune.planning.quote import Quote
from elastune.runs.quotes.expected_run import expected_of, replanned_means
from elastune.runs.quotes.policy_quote import PolicyQuote
from elastune.runs.quotes.quoting import with_expectation
from elastune.runs.quotes.replanning import MOST_TRIALS
from elastune.setup.run_setup import SetupPurpose, prepare
from tests.runs.checked_run import SAMPLES, CheckedRun, job_of

WIDTHS = {"width": {"float": [0.5, 2.0]}}


def shuffled(salt: int) -> Callable[[Mapping[str, float], int], float]:
    """Scores that have nothing to do with the speed."""

    def learning(config: Mapping[str, float], iteration: int) -> float:
        return (config["width"] * 7919.0 * (salt + 1)) % 1.0

    return learning


def differing(salt: int = 0, **changes: object) -> Job:
    """An iteration takes `width` times the average, as the profile has measured."""
    speeds = [{"config": {"width": 0.5 + 0.1 * i}, "factor": (0.5 + 0.1 * i) / 1.25} for i in range(16)]
    job = {
        "space": WIDTHS,
        "profile__speeds": speeds,
        "deadline": 400.0,
        "cluster__minimum_charge": 0.0,
        **changes,
    }
    return job_of(shuffled(salt), **job)


@pytest.fixture(scope="module")
def runs() -> list[CheckedRun]:
    """With other survivors in each."""
    runs = [CheckedRun(prepare(differing(salt), samples=SAMPLES), seed=0) for salt in range(24)]
    for run in runs:
        run.run()
    return runs


def test_runs_take_and_cost_what_is_expected_of_them(runs: list[CheckedRun]) -> None:
    expected = expected_of(elastune.plan(differing(), samples=SAMPLES))
    assert expected.jct_seconds == pytest.approx(fmean(run.seconds for run in runs), rel=0.05)
    assert expected.cost == pytest.approx(fmean(run.usd for run in runs), rel=0.05)


def test_nine_of_ten_runs_take_and_cost_what_is_usual(runs: list[CheckedRun]) -> None:
    means = elastune.plan(differing(), samples=SAMPLES).replanned
    assert means is not None
    for (low, high), mean in ((means.jct_seconds_range, means.jct_seconds), (means.cost_range, means.cost)):
        assert low < mean < high
    (soon, late), (cheap, dear) = means.jct_seconds_range, means.cost_range
    assert sum(soon <= run.seconds <= late for run in runs) >= 18
    assert sum(cheap <= run.usd <= dear for run in runs) >= 18


def test_the_same_job_is_expected_to_take_the_same() -> None:
    first, second = (with_expectation(prepare(differing(), samples=SAMPLES)).quote for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.replanned is not None
    assert first.replanned == second.replanned


@pytest.mark.parametrize(
    "job",
    [
        job_of(deadline=400.0),
        job_of(deadline=400.0, profile__spread=0.02),
        differing(search__trials=MOST_TRIALS + 1, deadline="1d"),
    ],
)
def test_a_run_that_keeps_to_its_plan_or_is_very_large_is_expected_to_take_the_plans_means(job: Job) -> None:
    setup = prepare(job, samples=SAMPLES)
    assert setup.quote is not None
    assert replanned_means(setup.quote, setup) is None
    assert expected_of(setup.quote).jct_seconds == setup.quote.jct_seconds
    assert expected_of(setup.quote).cost == setup.quote.cost


TRAINING = """
def train(config, worker, state):
    count = state or 0
    while True:
        count += 1
        yield {"score": config["width"] * count}, lambda: count
"""


def test_a_run_with_a_seed_of_its_own_is_quoted_for_the_configurations_of_that_seed(tmp_path: Path) -> None:
    (tmp_path / "training.py").write_text(TRAINING)
    job = differing(trainable=f"{tmp_path / 'training.py'}:train", cluster__provider="local")
    (seeded,) = problem_of(prepare_to_run(job, seed=7).quote).starts
    same, other = (
        problem_of(prepare(job.model_copy(update={"seed": seed}), purpose=SetupPurpose.RUN).quote).starts[0]
        for seed in (7, job.seed)
    )
    assert seeded.speeds == same.speeds != other.speeds


def problem_of(quote: Quote | PolicyQuote | None) -> Problem:
    assert isinstance(quote, Quote)
    return quote.problem
