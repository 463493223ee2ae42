"""Saves in the background: regularly, and when a row is the best so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from elastune.core import commands as do
from elastune.hopping.partitions import DataTerms
from elastune.model.checkpoint_rule import CheckpointRule
from elastune.model.metric import Mode
from elastune.runtime.simulated.latency import Visits
from tests.core.harness import make_terms
from tests.runtime.workshop import T0, Workshop, falling, lease, profile


def bumpy(config: Mapping[str, float], iteration: int) -> float:
    return [0.0, 5.0, 4.0, 6.0, 3.0, 5.0][iteration - 1]


def test_regular_checkpoints_are_told_when_they_are_durable() -> None:
    shop = Workshop(profile(save_s=2.0), train=falling, checkpoint_every_s=25.0)
    shop.tell(lease(7))
    assert shop.log() == [
        (0.0, "trial 0 trains"),
        (32.0, "trial 0 reports 1..3, saved 3"),
        (62.0, "trial 0 reports 4..6, saved 6"),
        (70.0, "trial 0 waits, reached 7..7"),
    ]


def test_by_default_every_half_minute_or_ten_saves() -> None:
    for save_s, first in [(0.0, 3), (3.0, 3), (6.0, 6)]:
        shop = Workshop(profile(save_s=save_s), train=falling, checkpoint_every_s=None)
        shop.tell(lease(8))
        assert shop.log()[1] == (10.0 * first + save_s, f"trial 0 reports 1..{first}, saved {first}")


def test_saving_in_the_background_takes_no_time_of_training() -> None:
    shop = Workshop(profile(save_s=5.0), checkpoint_every_s=10.0)
    shop.tell(lease(3))
    assert shop.ends_s() == [10.0, 20.0, 30.0]


def test_a_new_best_is_saved_and_told_with_the_next_report() -> None:
    shop = Workshop(train=bumpy)
    shop.tell(lease(6, keep_above=None))
    assert shop.log() == [(0.0, "trial 0 trains"), (60.0, "trial 0 waits, reached 1..6, saved 1,2,4")]


def test_only_what_beats_the_best_of_all_trials_is_saved() -> None:
    shop = Workshop(train=bumpy)
    shop.tell(lease(6, keep_above=5.0))
    assert shop.log()[-1] == (60.0, "trial 0 waits, reached 1..6, saved 4")


def test_the_least_is_best_where_the_mode_is_min() -> None:
    shop = Workshop(train=bumpy, terms=make_terms(mode=Mode.MIN))
    shop.tell(lease(6, keep_above=4.5))
    assert shop.log()[-1] == (60.0, "trial 0 waits, reached 1..6, saved 1")


def test_saves_take_at_most_a_tenth_of_the_time() -> None:
    shop = Workshop(profile(iteration_s=1.0, save_s=2.0), checkpoint_every_s=5.0)
    shop.tell(lease(45, keep_above=None))
    assert shop.log() == [
        (0.0, "trial 0 trains"),
        (23.0, "trial 0 reports 1..23, saved 1,21"),
        (43.0, "trial 0 reports 24..43, saved 41"),
        (45.0, "trial 0 waits, reached 44..45"),
    ]


def test_a_later_lease_raises_the_bar_for_a_new_best() -> None:
    shop = Workshop()
    shop.tell(lease(6, keep_above=None))
    shop.tell(lease(6, keep_above=4.0), at_s=25.0)
    assert shop.log()[-1] == (60.0, "trial 0 waits, reached 1..6, saved 1,2,5,6")


def test_a_save_that_is_not_durable_when_the_gang_dies_is_lost() -> None:
    shop = Workshop(profile(save_s=15.0), train=falling, checkpoint_every_s=10.0)
    shop.tell(lease(9))
    shop.tell(do.Stop(trial=T0, generation=1), at_s=24.0)
    assert shop.log() == [(0.0, "trial 0 trains")]


def test_work_beyond_a_revocation_leaves_no_checkpoint() -> None:
    shop = Workshop(profile(save_s=1.0), checkpoint_every_s=10.0)
    shop.tell(lease(9, keep_above=None))
    shop.tell(do.Revoke(trial=T0, generation=1), at_s=15.0)
    shop.tell(do.Pause(trial=T0, generation=1), at_s=30.0)
    assert shop.log() == [
        (0.0, "trial 0 trains"),
        (11.0, "trial 0 reports 1..1, saved 1"),
        (20.0, "trial 0 waits, revoked 2..2"),
        (31.0, "trial 0 is saved"),
    ]


def kept(visits: Visits, *done: int, after: int = 0, of: int = 6) -> list[int]:
    """After which of these visits, each to its own partition, the state is durable."""
    durable = []
    for visit in (do.Visit(partition=each, done=each, of=of) for each in done):
        course = visits.plan(
            replace(lease(1, after=after), visit=visit), visit, slowdown=1.0, measured_s=90.0
        )
        visits.ended(course)
        durable += [visit.done] if course.kept else []
    return durable


def test_where_models_hop_training_that_is_not_durable_counts() -> None:
    """Six visits of 15 s; starting takes longer than that, and is no training."""
    for save_s, expected in [(0.0, [1, 3, 5]), (4.5, [2, 5])]:
        rule = CheckpointRule(mode=Mode.MAX, save_s=save_s)
        visits = Visits(profile(startup_s=60.0), DataTerms(rows=(1.0,) * 6), seed=0, rule=rule)
        assert kept(visits, *range(6)) == expected
        assert kept(visits, *range(6), after=1) == expected


def test_a_model_that_goes_back_to_its_durable_state_has_nothing_unsaved() -> None:
    visits = Visits(profile(), DataTerms(rows=(1.0,) * 6), seed=0, rule=CheckpointRule(mode=Mode.MAX))
    assert kept(visits, 0, 1, 2) == [1]
    assert kept(visits, 2, 3) == [3]
    assert kept(visits, 4, 0, 1) == [1]


def test_the_state_between_training_and_evaluation_is_durable() -> None:
    data = DataTerms(rows=(1.0,) * 5, validation_rows=(1.0,), evaluation_share=0.1)
    visits = Visits(profile(), data, seed=0, rule=CheckpointRule(mode=Mode.MAX, every_s=1_000.0))
    assert kept(visits, *range(6)) == [4, 5]
