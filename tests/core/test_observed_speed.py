"""Observed speed corrects the profile as far as it exceeds random variation."""

from __future__ import annotations

import pytest

from elastune.core.observed_speed import ObservedSpeed, TrainingSpell
from elastune.model.cluster import ClusterTerms
from elastune.model.distributions import Constant, Empirical, LogNormal, Normal
from elastune.model.ids import TrialId
from elastune.model.profile import Profile, Speedup

PROFILE = Profile(
    iteration=Constant(10.0), speedup=Speedup.of({2: 1.8, 4: 3.0}), startup=Constant(2.0), save=Constant(0.0)
)


def of_others(*spells: tuple[int, float, float]) -> list[TrainingSpell]:
    """Slots, iterations and seconds; each of another trial."""
    return [TrainingSpell(TrialId(number), *spell) for number, spell in enumerate(spells)]


def after(*spells: TrainingSpell) -> ObservedSpeed:
    observed_speed = ObservedSpeed()
    for spell in spells:
        observed_speed.trained(spell)
    return observed_speed


def test_without_experience_the_profile_stands() -> None:
    observation = ObservedSpeed().observation(PROFILE)
    assert observation.profile(PROFILE) == PROFILE
    assert observation.slowdown == 1.0


def test_what_is_as_believed_changes_nothing() -> None:
    learned = after(*of_others((1, 20, 200.0), (2, 18, 100.0))).observation(PROFILE).profile(PROFILE)
    assert learned.iteration.mean == pytest.approx(10.0)
    assert learned.speedup.at(2) == pytest.approx(1.8)
    assert learned.speedup.at(4) == pytest.approx(3.0)


def test_many_slow_iterations_are_believed() -> None:
    observation = after(*of_others((1, 50, 750.0), (1, 50, 750.0))).observation(PROFILE)
    assert observation.slowdown == pytest.approx(1.5, rel=0.01)
    learned = observation.profile(PROFILE)
    assert learned.iteration.mean == pytest.approx(15.0, rel=0.01)
    assert learned.speedup.at(4) == pytest.approx(3.0, rel=0.01)  # slower at every number of slots


def test_a_gang_that_scales_worse_is_told_from_a_slow_machine() -> None:
    """One slot is as fast as was measured, four are no faster than two."""
    spells = of_others(*[(1, 20, 200.0)] * 10, *[(4, 20, 200.0 / 1.8)] * 10)
    learned = after(*spells).observation(PROFILE).profile(PROFILE)
    assert learned.iteration.mean == pytest.approx(10.0, rel=0.03)
    assert learned.speedup.at(4) == pytest.approx(1.8, rel=0.05)


def test_a_size_that_was_not_measured_is_learnt() -> None:
    learned = after(*of_others(*[(8, 20, 200.0 / 5.0)] * 20)).observation(PROFILE).profile(PROFILE)
    assert learned.iteration.mean / learned.speedup.at(8) == pytest.approx(2.0, rel=0.05)


def test_where_configurations_differ_much_a_few_of_them_tell_little() -> None:
    wide = Profile(iteration=Constant(10.0), speedup=PROFILE.speedup, spread=0.5)
    one = after(*of_others((1, 100, 1500.0))).observation(wide)
    many = after(*of_others(*[(1, 100, 1500.0)] * 100)).observation(wide)
    assert one.slowdown == pytest.approx(1.1, abs=0.05)
    assert 1.45 < many.slowdown < 1.75  # the mean of a log-normal whose median they are
    assert one.luck > many.luck


def test_gangs_that_still_train_count() -> None:
    trial = TrialId(0)
    observed_speed = after(TrainingSpell(trial, 1, 10, 100.0))
    observation = observed_speed.observation(PROFILE, running=[TrainingSpell(trial, 1, 90.0, 1800.0)])
    assert observation.slowdown > 1.8
    assert observed_speed.observation(PROFILE).slowdown == 1.0  # and are not remembered


def test_latencies_that_come_once_move_towards_what_is_seen() -> None:
    observed_speed = ObservedSpeed()
    for _ in range(9):
        observed_speed.startup.add(6.0)
        observed_speed.save.add(4.0)
        observed_speed.boot.add(40.0)
    observation = observed_speed.observation(PROFILE)
    learned = observation.profile(PROFILE)
    assert learned.startup == Constant(5.0)  # three of 2 s, nine of 6 s
    assert learned.save == Constant(3.0)
    terms = ClusterTerms(slots_per_node=1, max_nodes=1, price_per_hour=1.0, init=LogNormal(20.0, 5.0))
    init = observation.cluster(terms).init
    assert init.mean == pytest.approx(35.0)
    assert init.sd / init.mean == pytest.approx(0.25)


@pytest.mark.parametrize(
    "iteration", [Constant(10.0), Normal(10.0, 1.0), LogNormal(10.0, 1.0), Empirical((9.0, 10.0, 11.0))]
)
def test_noise_stays_what_it_is_in_relation(iteration: LogNormal) -> None:
    profile = Profile(iteration=iteration, speedup=PROFILE.speedup)
    learned = after(*of_others(*[(1, 100, 2000.0)] * 10)).observation(profile).profile(profile).iteration
    assert learned.mean == pytest.approx(2 * iteration.mean, rel=0.02)
    assert learned.sd / learned.mean == pytest.approx(iteration.sd / iteration.mean, rel=1e-6)


def test_a_slow_trial_is_told_from_slow_machines_and_keeps_its_speed_on_other_slots() -> None:
    """Trial 3 takes twice as long as the others, on one slot and on four."""
    spells = [TrainingSpell(TrialId(trial), 1, 20, 200.0 * (2 if trial == 3 else 1)) for trial in range(9)]
    spells += [TrainingSpell(TrialId(trial), 4, 20, 200.0 / 3 * (2 if trial == 3 else 1)) for trial in (3, 4)]
    wide = Profile(iteration=LogNormal(10.0, 0.5), speedup=PROFILE.speedup, spread=0.4)
    observation = after(*spells).observation(wide)
    speeds = {trial: speed.factor for trial, speed in observation.speeds.items()}
    assert speeds[TrialId(3)] / speeds[TrialId(4)] == pytest.approx(2.0, rel=0.05)
    assert observation.profile(wide).speedup.at(4) == pytest.approx(3.0, rel=0.05)
    assert observation.speeds[TrialId(3)].spread < 0.05  # what was seen of it is known


def test_trials_that_differ_are_noticed_though_the_profile_has_no_spread() -> None:
    spells = [TrainingSpell(TrialId(i), 1, 20, 200.0 * factor) for i, factor in enumerate((1, 1, 1, 1, 3))]
    speeds = after(*spells).observation(PROFILE).speeds
    assert speeds[TrialId(4)].factor / speeds[TrialId(0)].factor == pytest.approx(3.0, rel=0.1)
