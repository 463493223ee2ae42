"""Luck is numbered, and what is certain is not drawn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from elastune.errors import JobError
from elastune.model.distributions import Array, Constant, LogNormal
from elastune.providers.simulated_faults import Luck, NodeFaults
from tests.providers.clouds import terms

EVERYTHING = NodeFaults(
    lost_per_hour=1.0, noticed_per_hour=1.0, refused=0.5, boot_failure=0.2, straggler=0.3, capacity=5
)
NOISY = terms(queue=LogNormal(10.0, 5.0), init=LogNormal(20.0, 10.0))


class NeverDrawn(Constant):
    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        raise AssertionError("a constant was drawn")


def draws(luck: Luck, number: int) -> tuple[float, ...]:
    return (
        luck.queue_s(number),
        luck.boot_s(number),
        luck.granted(number, 10),
        luck.lost_after_s(number),
        luck.noticed_after_s(number),
        luck.slowdown(number),
    )


def test_draws_do_not_depend_on_the_order_in_which_they_are_asked_for() -> None:
    forth, back = Luck(NOISY, EVERYTHING, seed=7), Luck(NOISY, EVERYTHING, seed=7)
    numbers = range(200)
    upwards = [draws(forth, number) for number in numbers]
    downwards = [draws(back, number) for number in reversed(numbers)]
    assert upwards == downwards[::-1]
    assert len(set(upwards)) == len(upwards)


def test_another_seed_is_another_world() -> None:
    assert draws(Luck(NOISY, EVERYTHING, seed=1), 0) != draws(Luck(NOISY, EVERYTHING, seed=2), 0)


def test_a_fault_more_does_not_change_the_luck_with_the_others() -> None:
    alone, among = Luck(NOISY, NodeFaults(lost_per_hour=1.0), seed=3), Luck(NOISY, EVERYTHING, seed=3)
    assert [alone.lost_after_s(node) for node in range(9)] == [among.lost_after_s(node) for node in range(9)]


def test_without_noise_and_faults_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_generator(seed: Any) -> np.random.Generator:
        raise AssertionError("a random generator was made")

    monkeypatch.setattr(np.random, "default_rng", no_generator)
    luck = Luck(terms(queue=NeverDrawn(3.0), init=NeverDrawn(4.0)), NodeFaults(), seed=0)
    assert draws(luck, 5) == (3.0, 4.0, 10, math.inf, math.inf, 1.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"refused": 1.5}, "refused is 1.5, expected a probability from 0 to 1"),
        ({"boot_failure": -0.1}, "boot_failure is -0.1, expected a probability"),
        ({"straggler": math.nan}, "straggler is nan, expected a probability"),
        ({"lost_per_hour": -1.0}, "lost_per_hour is -1.0, expected 0 or more"),
        ({"noticed_per_hour": math.inf}, "noticed_per_hour is inf, expected 0 or more"),
        ({"notice_s": math.nan}, "notice_s is nan, expected 0 or more"),
        ({"straggler_factor": 0.5}, "straggler_factor is 0.5, expected 1 or more"),
        ({"capacity": -1}, "capacity is -1, expected 0 or more nodes"),
    ],
)
def test_impossible_faults_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError, match=message):
        NodeFaults(**wrong)
