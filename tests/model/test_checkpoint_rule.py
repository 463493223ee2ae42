"""When a training trial saves by itself."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from elastune.model.checkpoint_rule import CheckpointRule, Saves
from elastune.model.metric import Inequality, Mode, Target

RULE = CheckpointRule(mode=Mode.MAX)
TARGET = Target(metric="score", comparison=Inequality.AT_LEAST, value=0.9)


def saved(
    rule: CheckpointRule, values: Iterable[float | None], *, save_s: float, step_s: float = 1.0
) -> list[float]:
    """When saves of `save_s` begin, if an iteration ends every `step_s`."""
    saves, times = Saves(best=None, regular_s=0.0), []
    for count, value in enumerate(values, start=1):
        now_s = count * step_s
        if value is not None and rule.is_due(saves, value, now_s):
            times.append(now_s)
            saves = rule.end(rule.begin(saves, value, now_s), save_s)
    return times


def test_a_new_best_is_saved_at_once_and_anything_every_half_minute() -> None:
    assert saved(RULE, [1.0] * 70, save_s=0.5) == [1.0, 30.0, 60.0]
    assert saved(RULE, range(5), save_s=0.0) == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_the_job_says_how_often_but_saves_take_at_most_a_tenth_of_the_time() -> None:
    often = CheckpointRule(mode=Mode.MAX, every_s=5.0)
    assert saved(often, [1.0] * 50, save_s=0.1) == [1.0, *range(5, 51, 5)]
    assert saved(often, [1.0] * 50, save_s=2.0) == [1.0, 21.0, 41.0]
    assert saved(often, range(50), save_s=2.0) == [1.0, 21.0, 41.0]


def test_before_the_first_save_its_expected_time_counts() -> None:
    slow = CheckpointRule(mode=Mode.MAX, save_s=6.0)
    saves = Saves(best=1.0, regular_s=0.0)
    assert not slow.is_due(saves, 0.0, 59.0)
    assert slow.is_due(saves, 0.0, 60.0)
    assert slow.is_due(saves, 2.0, 1.0)


def test_nothing_is_saved_while_a_save_is_being_written() -> None:
    saves = RULE.begin(Saves(best=None, regular_s=0.0), 1.0, 1.0)
    assert not RULE.is_due(saves, 2.0, 100.0)
    assert RULE.is_due(RULE.end(saves, 9.0), 2.0, 100.0)
    assert not RULE.is_due(RULE.end(saves, 9.0), 2.0, 90.0)


def test_a_model_that_reaches_the_target_is_saved_in_any_case() -> None:
    rule = CheckpointRule(mode=Mode.MAX, target=TARGET)
    saves = rule.begin(Saves(best=None, regular_s=0.0), 0.5, 1.0)
    assert not rule.is_due(saves, 0.8, 2.0)
    assert rule.is_due(saves, 0.9, 2.0)
    assert not rule.is_due(rule.raise_best(saves, 0.95), 0.9, 2.0), "a better one is saved already"


def test_a_best_that_was_not_saved_does_not_raise_the_bar() -> None:
    saves = RULE.end(RULE.begin(Saves(best=None, regular_s=0.0), 1.0, 1.0), 1.0)
    assert not RULE.is_due(saves, 3.0, 5.0)
    assert RULE.is_due(saves, 2.0, 11.0)


def test_the_bar_is_raised_and_never_lowered() -> None:
    saves = Saves(best=2.0, regular_s=0.0)
    assert RULE.raise_best(saves, 3.0).best == 3.0
    assert RULE.raise_best(saves, 1.0) is RULE.raise_best(saves, None) is saves
    assert CheckpointRule(mode=Mode.MIN).raise_best(saves, 1.0).best == 1.0


def test_what_is_no_number_is_never_saved() -> None:
    for value in (None, math.nan, math.inf, -math.inf):
        assert not RULE.is_due(Saves(best=None, regular_s=0.0), value, 1_000.0)


def test_between_visits_training_that_is_not_durable_counts() -> None:
    assert not RULE.is_visit_due(29.0, None, training_ends=False)
    assert RULE.is_visit_due(30.0, None, training_ends=False)
    assert not RULE.is_visit_due(39.0, 4.0, training_ends=False)
    assert RULE.is_visit_due(0.0, 4.0, training_ends=True)
    assert not CheckpointRule(mode=Mode.MAX, save_s=4.0).is_visit_due(39.0, None, training_ends=False)


@given(
    values=st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=80),
    every_s=st.sampled_from([1.0, 5.0, 30.0]),
    save_s=st.sampled_from([0.0, 0.5, 2.0, 8.0]),
)
def test_saves_are_at_least_ten_times_their_length_apart(
    values: list[int | None], every_s: float, save_s: float
) -> None:
    times = saved(CheckpointRule(mode=Mode.MIN, every_s=every_s, save_s=save_s), values, save_s=save_s)
    assert all(later - earlier >= 10 * save_s for earlier, later in itertools.pairwise(times))


def test_a_slot_process_imports_it_without_the_core() -> None:
    code = (
        "import sys, elastune.runtime.ray.slot, elastune.runtime.ray.visitor;"
        "print([name for name in ('elastune.core', 'scipy', 'ray') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
