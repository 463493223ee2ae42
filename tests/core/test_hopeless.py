"""Code that fails in every trial is not tried on all of them."""

from __future__ import annotations

import pytest

from elastune.core import Ending, Phase
from tests.runs.rehearsal import Rehearsal, job_of, rehearse

MANY = {"algorithm": "random", "trials": 40, "max_iterations": 4}


def broken(config: dict[str, float], iteration: int) -> float:
    """Diverges at once, whatever the configuration."""
    return float("nan")


def run_of(trainable: object, **changes: object) -> Rehearsal:
    return rehearse(job_of(trainable, search=MANY, **changes))  # type: ignore[arg-type]


def failed(run: Rehearsal) -> int:
    return sum(trial.phase is Phase.FAILED for trial in run.state.trials.values())


def test_after_some_that_fail_alike_the_run_ends_and_says_why() -> None:
    run = run_of(broken)
    assert run.state.ended is Ending.FAILED
    assert 5 <= failed(run) <= 12  # those that train at the same time may fail, too
    assert "the first 5 trials all failed alike, so the others are not tried" in run.notes("failed")


def test_who_has_had_a_value_is_no_reason_to_give_up() -> None:
    def mostly(config: dict[str, float], iteration: int) -> float:
        return config["x"] if iteration == 1 else float("nan")

    run = run_of(mostly)
    assert failed(run) == 40


def test_failures_that_differ_are_no_reason_to_give_up() -> None:
    def moody(config: dict[str, float], iteration: int) -> float:
        return float("nan") if config["x"] < 0.5 else float("inf")

    run = run_of(moody)
    assert failed(run) == 40


@pytest.mark.parametrize("trials", [1, 4])
def test_few_trials_are_all_tried(trials: int) -> None:
    run = rehearse(job_of(broken, search={**MANY, "trials": trials}))
    assert failed(run) == trials
