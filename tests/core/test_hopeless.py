"""Code that fails in every trial is not tried on all of them."""

from __future__ import annotations

import pytest

from elastune.core.commands import Ending
from elastune.core.trials import Phase
from tests.runs.rehearsal import Rehearsal, job_of, rehearse

MANY = {"algorithm": "random", "trials": 40, "max_iterations": 4}


def broken(config: dict[str, float], iteration: int) -> float:
    """Fails at once, whatever the configuration."""
    raise ValueError(f"the shape is wrong: {config['x']}")


def run_of(trainable: object, **changes: object) -> Rehearsal:
    return rehearse(job_of(trainable, search=MANY, **changes))  # type: ignore[arg-type]


def failed(run: Rehearsal) -> int:
    return sum(trial.phase is Phase.FAILED for trial in run.state.trials.values())


def test_after_some_that_fail_alike_the_run_ends_and_says_why() -> None:
    run = run_of(broken)
    assert run.state.ended is Ending.FAILED
    assert 5 <= failed(run) <= 12  # those that train at the same time may fail, too
    assert "the first 5 trials all failed alike, so the others are not tried" in run.notes("hopeless")


def test_who_has_had_a_value_is_no_reason_to_give_up() -> None:
    def mostly(config: dict[str, float], iteration: int) -> float:
        if iteration > 1:
            raise ValueError
        return config["x"]

    assert failed(run_of(mostly)) == 40


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
    run = rehearse(job_of(picky, space=space, search={"algorithm": "grid", "max_iterations": 2}))
    assert run.state.ended is Ending.COMPLETE
    assert failed(run) == 6


@pytest.mark.parametrize("trials", [1, 4])
def test_few_trials_are_all_tried(trials: int) -> None:
    run = rehearse(job_of(broken, search={**MANY, "trials": trials}))
    assert failed(run) == trials
