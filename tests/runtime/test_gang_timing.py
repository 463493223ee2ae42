"""When the iterations of a simulated gang end, and how it stops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.model.distributions import Constant, Normal
from elastune.model.ids import NodeId
from elastune.providers.simulated_faults import NodeFaults
from elastune.runtime.simulated.cloud import Faults
from tests.runtime.workshop import T0, Workshop, lease, profile, seats

REVOKE = do.Revoke(trial=T0, generation=1)
PAUSE = do.Pause(trial=T0, generation=1)
SAVE = do.Pause(trial=T0, generation=1, stay=True)
STOP = do.Stop(trial=T0, generation=1)


def three(config: Mapping[str, float]) -> Iterator[float]:
    yield from (1.0, 2.0, 3.0)


def nothing(config: Mapping[str, float]) -> Iterator[float]:
    yield from ()


def breaks(config: Mapping[str, float], iteration: int) -> float:
    if iteration == 3:
        raise ZeroDivisionError("at the third")
    return 1.0


def diverges(config: Mapping[str, float], iteration: int) -> float:
    return float("nan") if iteration == 2 else 1.0


def test_a_lease_is_startup_iterations_and_save() -> None:
    shop = Workshop(profile(startup_s=4.0, save_s=3.0))
    shop.tell(lease(3))
    shop.tell(PAUSE, at_s=40.0)
    assert shop.log() == [
        (4.0, "trial 0 trains"),
        (34.0, "trial 0 waits, reached 1..3"),
        (43.0, "trial 0 is saved"),
    ]
    assert [row.at_s for event in shop.heard if isinstance(event, ev.LeaseEnded) for row in event.rows] == [
        14.0,
        24.0,
        34.0,
    ]


def test_a_gang_that_stays_goes_on_without_a_start() -> None:
    shop = Workshop(profile(startup_s=4.0, save_s=3.0, transfer_s=2.0))
    shop.tell(lease(2))
    shop.tell(SAVE, at_s=30.0)
    shop.tell(lease(4, after=2), at_s=100.0)
    shop.tell(PAUSE, at_s=130.0)
    assert shop.log() == [
        (4.0, "trial 0 trains"),
        (24.0, "trial 0 waits, reached 1..2"),
        (35.0, "trial 0 is saved and stays"),
        (120.0, "trial 0 waits, reached 3..4"),
        (135.0, "trial 0 is saved"),
    ]


def test_a_gang_that_is_stopped_amid_its_save_is_not_heard_of_again() -> None:
    shop = Workshop(profile(save_s=3.0))
    shop.tell(lease(1))
    shop.tell(SAVE, at_s=20.0)
    shop.tell(STOP, at_s=21.0)
    assert shop.log() == [(0.0, "trial 0 trains"), (10.0, "trial 0 waits, reached 1..1")]


def test_a_checkpoint_travels_only_if_there_is_one() -> None:
    shop = Workshop(profile(startup_s=4.0, save_s=3.0, transfer_s=2.0))
    shop.tell(lease(3, after=2))
    shop.tell(PAUSE, at_s=20.0)
    assert shop.log() == [
        (6.0, "trial 0 trains"),
        (16.0, "trial 0 waits, reached 3..3"),
        (25.0, "trial 0 is saved"),
    ]


def test_a_gang_is_as_fast_as_its_profile_says() -> None:
    shop = Workshop(profile(speedup={2: 1.6, 4: 2.5}))
    shop.tell(lease(2, gang=seats(4)))
    assert shop.ends_s() == [4.0, 8.0]


def test_a_scattered_gang_takes_1_77_times_as_long() -> None:
    shop = Workshop(profile(speedup={2: 2.0, 4: 4.0}))
    shop.tell(lease(1, gang=seats(4, on=2)))
    assert shop.ends_s() == [4.425]


def test_a_gang_that_needs_two_nodes_is_not_scattered() -> None:
    shop = Workshop(profile(speedup={2: 2.0, 4: 4.0, 8: 8.0}))
    shop.tell(lease(1, gang=seats(8, on=2)))
    assert shop.ends_s() == [1.25]


def test_a_gang_is_as_slow_as_its_slowest_node() -> None:
    shop = Workshop(faults=Faults(nodes=NodeFaults(straggler=0.5, straggler_factor=3.0)))
    shop.tell(do.RequestNodes(request=1, count=4))
    shop.body.step(shop._hear)
    slow = [shop.body.cloud.provider.slowdown(NodeId(f"n{i}")) for i in range(4)]
    assert sorted(set(slow)) == [1.0, 3.0], "the seed should give both kinds"
    fast, straggler = slow.index(1.0), slow.index(3.0)
    for nodes, expected in [([fast], 10.0), ([straggler], 30.0), ([fast, straggler], 30.0)]:
        gang = tuple(slot._replace(node=NodeId(f"n{node}")) for node in nodes for slot in seats(4))
        pace = shop.body._latencies.gang(T0, 1, gang)
        assert pace.iterations_s(1) == [expected]


def test_no_iteration_begins_that_is_expected_to_end_too_late() -> None:
    shop = Workshop()
    shop.tell(lease(9, until_s=35.0))
    assert shop.log() == [(0.0, "trial 0 trains"), (30.0, "trial 0 waits, time 1..3")]


def test_an_iteration_that_ends_at_the_last_moment_counts() -> None:
    shop = Workshop()
    shop.tell(lease(9, until_s=40.0))
    assert shop.ends_s() == [10.0, 20.0, 30.0, 40.0]


def test_a_lease_too_short_for_one_iteration_ends_at_once() -> None:
    shop = Workshop(profile(startup_s=4.0))
    shop.tell(lease(9, until_s=13.0))
    assert shop.log() == [(4.0, "trial 0 trains"), (4.0, "trial 0 waits, time")]


def test_a_revocation_acts_at_the_end_of_the_iteration() -> None:
    shop = Workshop()
    shop.tell(lease(9))
    shop.tell(REVOKE, at_s=13.0)
    assert shop.log() == [
        (0.0, "trial 0 trains"),
        (13.0, "trial 0 reports 1..1"),
        (20.0, "trial 0 waits, revoked 2..2"),
    ]


def test_a_revocation_between_two_iterations_acts_at_once() -> None:
    shop = Workshop()
    shop.tell(lease(9))
    shop.tell(REVOKE, at_s=20.0)
    assert shop.log()[-1] == (20.0, "trial 0 waits, revoked 1..2")


def test_a_revocation_can_be_taken_back() -> None:
    shop = Workshop()
    shop.tell(lease(4))
    shop.tell(REVOKE, at_s=13.0)
    shop.tell(lease(4), at_s=15.0)
    assert shop.log()[-1] == (40.0, "trial 0 waits, reached 2..4")


def test_a_longer_lease_goes_on_without_a_pause() -> None:
    shop = Workshop()
    shop.tell(lease(2))
    shop.tell(lease(4), at_s=15.0)
    assert shop.ends_s() == [10.0, 20.0, 30.0, 40.0]


def test_a_gang_that_waited_goes_on_from_now() -> None:
    shop = Workshop()
    shop.tell(lease(1))
    shop.tell(lease(3, after=1), at_s=17.0)
    assert shop.ends_s() == [10.0, 27.0, 37.0]


def test_a_shorter_lease_stops_after_the_iteration_under_way() -> None:
    shop = Workshop()
    shop.tell(lease(9))
    shop.tell(lease(1), at_s=23.0)
    assert shop.log()[-1] == (30.0, "trial 0 waits, reached 1..3")


def test_a_gang_that_is_stopped_says_no_more() -> None:
    shop = Workshop()
    shop.tell(lease(9))
    shop.tell(STOP, at_s=13.0)
    assert shop.log() == [(0.0, "trial 0 trains")]


def test_a_gang_that_is_stopped_while_it_starts_never_trains() -> None:
    shop = Workshop(profile(startup_s=5.0))
    shop.tell(lease(9))
    shop.tell(STOP, at_s=3.0)
    assert shop.log() == []


def test_orders_to_a_gang_that_is_gone_do_nothing() -> None:
    shop = Workshop()
    shop.tell(lease(1, generation=2))
    shop.tell(REVOKE, PAUSE, STOP, at_s=3.0)
    assert shop.log() == [(0.0, "trial 0 trains"), (10.0, "trial 0 waits, reached 1..1")]


def test_a_training_that_returns_ends_its_lease() -> None:
    shop = Workshop(train=three)
    shop.tell(lease(9))
    assert shop.log() == [(0.0, "trial 0 trains"), (30.0, "trial 0 waits, returned 1..3")]


def test_a_training_that_ends_where_its_lease_ends_has_reached_it() -> None:
    shop = Workshop(train=three)
    shop.tell(lease(3))
    assert shop.log()[-1] == (30.0, "trial 0 waits, reached 1..3")
    shop.tell(lease(9, after=3), at_s=30.0)
    assert shop.log()[-1] == (30.0, "trial 0 waits, returned")


def test_a_training_without_an_iteration_returns_at_once() -> None:
    shop = Workshop(train=nothing)
    shop.tell(lease(9))
    assert shop.log()[-1] == (0.0, "trial 0 waits, returned")


def test_a_training_that_raises_crashes_after_the_iterations_before() -> None:
    shop = Workshop(train=breaks)
    shop.tell(lease(9))
    assert shop.log() == [(0.0, "trial 0 trains"), (20.0, "trial 0 crashes 1..2")]
    crash = shop.heard[-1]
    assert isinstance(crash, ev.TrialCrashed)
    assert crash.error.endswith("ZeroDivisionError: at the third")
    assert shop.body.gangs == {}


def test_a_crash_beyond_the_lease_does_not_happen() -> None:
    shop = Workshop(train=breaks)
    shop.tell(lease(2))
    assert shop.log()[-1] == (20.0, "trial 0 waits, reached 1..2")


def test_a_crash_that_would_come_too_late_does_not_happen() -> None:
    shop = Workshop(train=breaks)
    shop.tell(lease(9, until_s=25.0))
    assert shop.log()[-1] == (20.0, "trial 0 waits, time 1..2")


def test_a_metric_that_is_no_number_is_reported_when_it_happens() -> None:
    shop = Workshop(train=diverges)
    shop.tell(lease(9))
    assert shop.log()[1] == (20.0, "trial 0 reports 1..2")


def test_an_injected_crash_happens_in_the_first_lease() -> None:
    shop = Workshop(faults=Faults(crash=1.0))
    shop.tell(lease(5))
    shop.log()
    crash = shop.heard[-1]
    assert isinstance(crash, ev.TrialCrashed)
    assert crash.error == "an injected fault"
    assert len(crash.rows) < 5


def test_a_retried_gang_has_luck_of_its_own() -> None:
    """Of many generations about half crash, each at an iteration of its own."""
    shop = Workshop(faults=Faults(crash=0.5))
    luck = [shop.body._crashes.after(T0, lease(9, generation=g)) for g in range(200)]
    crashes = [after for after in luck if after is not None]
    assert 70 < len(crashes) < 130
    assert set(crashes) == set(range(9))


def test_noise_differs_from_gang_to_gang_and_not_from_run_to_run() -> None:
    noisy = profile()
    noisy = type(noisy)(iteration=Normal(10.0, 2.0), speedup=noisy.speedup, spread=0.2, save=Constant(1.0))

    def ends(generation: int, seed: int = 0) -> list[float]:
        shop = Workshop(noisy, seed=seed)
        shop.tell(lease(4, generation=generation))
        return shop.ends_s()

    assert ends(1) == ends(1)
    assert ends(1) != ends(2)
    assert ends(1) != ends(1, seed=1)


@pytest.mark.parametrize("cut", [13.0, 20.0, 27.5])
def test_an_iteration_takes_as_long_however_the_lease_is_cut(cut: float) -> None:
    """Drawing the noise of a longer lease does not change what was drawn before."""
    noisy = type(profile())(iteration=Normal(10.0, 3.0), speedup=profile().speedup)
    whole, parts = Workshop(noisy), Workshop(noisy)
    whole.tell(lease(6))
    parts.tell(lease(9))
    parts.tell(lease(6), at_s=cut)
    assert whole.ends_s() == parts.ends_s()


def test_a_crash_beyond_a_revocation_is_still_to_come() -> None:
    """Worked out beyond the stop, it did not happen; after another lease it happens in its iteration."""

    def breaks_late(config: Mapping[str, float], iteration: int) -> float:
        if iteration == 5:
            raise ZeroDivisionError("at the fifth")
        return 1.0

    shop = Workshop(profile(), breaks_late)
    shop.tell(lease(20))
    shop.tell(REVOKE, at_s=15.0)
    shop.tell(lease(20, after=2), at_s=25.0)
    told = [message for _, message in shop.log()]
    assert told[2:] == ["trial 0 waits, revoked 2..2", "trial 0 crashes 3..4"]
