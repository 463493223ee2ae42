"""Code that fails in every trial is not tried on all of them."""

from __future__ import annotations

import pytest

from elastune.core.commands import Ending
from elastune.core.trials import Phase
from elastune.history.result import Estimate
from elastune.setup.run_setup import prepare
from tests.runs.checked_run import SAMPLES, CheckedRun, checked_run, job_of, run_quickly
from tests.thoroughness import most_telling

MANY = {"algorithm": "random", "trials": 40, "max_iterations": 4}


def broken(config: dict[str, float], iteration: int) -> float:
    """Fails at once, whatever the configuration."""
    raise ValueError(f"the shape is wrong: {config['x']}")


def run_of(trainable: object, **changes: object) -> CheckedRun:
    return checked_run(job_of(trainable, search=MANY, **changes))  # type: ignore[arg-type]


def failed(run: CheckedRun) -> int:
    return sum(trial.phase is Phase.FAILED for trial in run.state.trials.values())


def test_after_some_that_fail_alike_the_run_ends_and_says_why() -> None:
    run = run_of(broken)
    assert run.state.ended is Ending.FAILED
    assert 5 <= failed(run) <= 12  # those that train at the same time may fail, too
    assert "the first 5 trials all failed alike, so the others are not tried" in run.notes("hopeless")


def test_failures_that_differ_are_no_reason_to_give_up() -> None:
    def moody(config: dict[str, float], iteration: int) -> float:
        raise ValueError("low" if config["x"] < 0.5 else "high")

    assert failed(run_of(moody)) == 40


def test_models_that_diverge_are_no_reason_to_give_up() -> None:
    assert failed(run_of(lambda config, iteration: float("nan"))) == 40


def test_what_the_first_have_in_common_may_be_what_is_wrong_with_them() -> None:
    """A grid is in order: all its first points have the same first value."""

    def picky(config: dict[str, object], iteration: int) -> float:
        if config["a"] == "lbfgs":
            raise ValueError("lbfgs needs a closure")
        return 1.0

    space = {"a": {"choice": ["lbfgs", "sgd"]}, "b": {"choice": [1, 2, 3, 4, 5, 6]}}
    run = checked_run(job_of(picky, space=space, search={"algorithm": "grid", "max_iterations": 2}))
    assert run.state.ended is Ending.COMPLETE
    assert failed(run) == 6


@pytest.mark.parametrize("trials", [1, 4])
def test_few_trials_are_all_tried(trials: int) -> None:
    run = checked_run(job_of(broken, search={**MANY, "trials": trials}))
    assert failed(run) == trials


# Later iterations, under every policy.


def in_the_second(config: dict[str, float], iteration: int) -> float:
    """Fails in its second iteration, whatever the configuration."""
    if iteration > 1:
        raise ZeroDivisionError(f"division by zero in epoch {iteration}")
    return config["x"]


def too_large(config: dict[str, float], iteration: int) -> float:
    """Three of ten configurations need too much memory for a second iteration."""
    if iteration > 1 and config["x"] > 0.7:
        raise MemoryError(f"cannot allocate {config['x']} GB")
    return 1.0 - config["x"]


SEARCHES: tuple[dict[str, object], ...] = (
    {"algorithm": "random", "trials": 40, "max_iterations": 9},
    {"algorithm": "random", "trials": 40, "max_iterations": 9, "sampler": "tpe"},
    {"algorithm": "asha", "trials": 40, "max_iterations": 9},
    {"algorithm": "sha", "trials": 27, "max_iterations": 9},
    {"algorithm": "hyperband", "max_iterations": 27},
    {"algorithm": "bohb", "max_iterations": 27},
    {"algorithm": "pbt", "trials": 20, "max_iterations": 9, "interval": 1},
    {"algorithm": "hypersched", "trials": 40, "max_iterations": 9},
    {"algorithm": "seer", "max_iterations": 9},
)
LIMITS = {"deadline": "2h", "budget": 100.0, "cluster__nodes": 6, "cluster__max_nodes": None}


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: str(search["algorithm"]))
def test_a_stage_that_fails_with_one_cause_ends_the_run_whatever_the_policy(search: object) -> None:
    run = checked_run(job_of(in_the_second, search=search, profile__save=0.0, **LIMITS))
    state = run.state
    assert state.ended is Ending.FAILED
    assert state.cause is not None
    assert "iteration 2 failed: ZeroDivisionError: division by zero in epoch 2" in state.cause
    assert state.best is not None
    assert state.best.iteration == 1
    assert failed(run) <= 12 + 12, "those on twelve slots are waited for, and others start meanwhile"


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: str(search["algorithm"]))
@most_telling("seed", *range(4), quick=1)
def test_a_few_configurations_that_crash_do_not_end_a_run(search: object, seed: int) -> None:
    state = run_quickly(prepare(job_of(too_large, search=search, **LIMITS), samples=SAMPLES), seed=seed)
    assert state.ended is not Ending.FAILED
    assert state.cause is None


@pytest.mark.parametrize("raises", [False, True])
def test_models_that_diverge_later_are_no_reason_to_give_up(raises: bool) -> None:
    def diverging(config: dict[str, float], iteration: int) -> float:
        if iteration > 1 and raises:
            raise ValueError("the loss is NaN")
        return config["x"] if iteration == 1 else float("nan")

    run = checked_run(job_of(diverging, search=MANY, **LIMITS))
    assert run.notes("hopeless") == []
    assert failed(run) == 40


def test_a_few_finalists_that_all_crash_make_the_run_fail_when_it_is_over() -> None:
    def last_stage(config: dict[str, float], iteration: int) -> float:
        if iteration > 3:
            raise RuntimeError("the schedule has only 3 epochs")
        return config["x"] + iteration

    search = {"algorithm": "sha", "trials": 9, "min_iterations": 1, "max_iterations": 9, "eta": 3}
    run = checked_run(job_of(last_stage, search=search))
    result = run.result(Estimate(jct_seconds=0.0, cost=0.0))
    assert result.ending is Ending.FAILED
    assert result.cause is not None
    assert result.cause.endswith("began iteration 4 failed: RuntimeError: the schedule has only 3 epochs")
    assert result.best is not None
    assert f"the best model has {result.best.iterations} of 9 iterations" in str(result.shortfall)
    assert result.to_dict()["cause"] == result.cause


def test_finalists_that_crashed_are_told_though_another_is_complete() -> None:
    def unlucky(config: dict[str, float], iteration: int) -> float:
        if iteration > 4 and config["x"] > 0.5:
            raise RuntimeError("out of luck")
        return config["x"] + iteration

    search = {
        "algorithm": "stages",
        "stages": [{"trials": 6, "iterations": 3}, {"trials": 5, "iterations": 6}],
    }
    run = checked_run(job_of(unlucky, search=search))
    assert run.state.ended is Ending.COMPLETE
    crashed = failed(run)
    assert 0 < crashed < 5
    told = str(run.result(Estimate(jct_seconds=0.0, cost=0.0)).shortfall)
    assert told.startswith(f"{crashed} of 5 finalists failed: RuntimeError: out of luck")


# Fail fast.


def test_with_fail_fast_the_first_failure_ends_the_run_at_once() -> None:
    run = checked_run(job_of(too_large, search=MANY, fail_fast=True))
    assert run.state.ended is Ending.FAILED
    assert failed(run) == 1
    assert "failed, and fail_fast is set: MemoryError: cannot allocate" in str(run.state.cause)


def test_a_retried_crash_and_a_diverged_model_are_no_failure_for_fail_fast() -> None:
    diverging = checked_run(job_of(lambda config, iteration: float("nan"), search=MANY, fail_fast=True))
    assert failed(diverging) == 40
    calls: set[float] = set()

    def once(config: dict[str, float], iteration: int) -> float:
        if config["x"] not in calls:
            calls.add(config["x"])
            raise RuntimeError("try again")
        return config["x"]

    run = checked_run(job_of(once, search=MANY, fail_fast=True, retries=1))
    assert run.state.ended is Ending.COMPLETE
