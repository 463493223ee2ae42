"""From wishes to gangs."""

from __future__ import annotations

from elastune.core import commands as do
from elastune.core.events import LeaseEnd
from elastune.core.trials import Activity, Phase
from elastune.core.wishes import Advice, Wish, Wishes
from elastune.model.ids import TrialId
from tests.core.harness import (
    Harness,
    gang,
    gangs_of,
    kinds,
    make_terms,
    only,
    open_stage,
    released,
)

T = [TrialId(number) for number in range(6)]
FAR = 100


def training(*wishes: Wish, nodes: tuple[str, ...], trials: int = 3, steady: bool = True) -> Harness:
    """All these gangs train."""
    harness = open_stage(trials=trials, nodes=nodes)
    harness.wish(*wishes, nodes=len(nodes), steady=steady)
    for number in tuple(harness.state.held):
        harness.started(number)
    return harness


class TestSteadyWishes:
    def test_the_best_wish_is_seated_first_and_the_rest_wait(self) -> None:
        harness = open_stage(trials=3)
        harness.wish(Wish(T[2], 2, FAR), Wish(T[0], 2, FAR), Wish(T[1], 2, FAR), nodes=1)
        assert gangs_of(harness) == {2: gang("n0", 0, 1), 0: gang("n0", 2, 3)}
        assert list(harness.state.pools[0].queue) == [1]

    def test_a_gang_that_finds_no_room_is_not_overtaken_by_a_smaller_one(self) -> None:
        harness = open_stage(trials=3)
        harness.wish(Wish(T[0], 3, FAR), Wish(T[1], 2, FAR), Wish(T[2], 1, FAR), nodes=1)
        assert list(gangs_of(harness)) == [0]

    def test_free_slots_go_to_the_next_in_the_queue(self) -> None:
        harness = training(*(Wish(trial, 4, 2) for trial in T[:3]), nodes=("n0",))
        assert kinds(harness.at(20.0).lease_ended(0, 0.1, 0.2)) == ["Pause"]
        assert harness.at(21.0).paused(0) == [
            do.Train(
                trial=T[1],
                generation=1,
                gang=harness.trial(1).gang,
                after_iteration=0,
                until_iteration=2,
                keep_above=0.2,
            )
        ]
        assert gangs_of(harness) == {1: gang("n0", 0, 1, 2, 3)}

    def test_gangs_neither_move_nor_shrink_when_a_better_trial_comes(self) -> None:
        harness = training(Wish(T[0], 2, FAR), Wish(T[1], 2, FAR), nodes=("n0",))
        assert harness.wish(Wish(T[2], 2, FAR), Wish(T[0], 2, FAR), Wish(T[1], 2, FAR), nodes=1) == []
        assert set(gangs_of(harness)) == {0, 1}

    def test_a_trial_that_is_not_named_pauses(self) -> None:
        harness = training(Wish(T[0], 2, FAR), Wish(T[1], 2, FAR), nodes=("n0",))
        assert harness.wish(Wish(T[1], 2, FAR), nodes=1) == [do.Revoke(trial=T[0], generation=1)]
        assert harness.lease_ended(0, 0.5, reason=LeaseEnd.REVOKED) == [do.Pause(trial=T[0], generation=1)]
        harness.paused(0)
        assert harness.trial(0).phase is Phase.PAUSED
        assert harness.trial(0).saved == 1

    def test_a_revocation_is_taken_back_if_the_wish_returns_in_time(self) -> None:
        harness = training(Wish(T[0], 2, FAR), nodes=("n0",))
        harness.wish(nodes=1)
        assert harness.trial(0).revoked
        (train,) = harness.wish(Wish(T[0], 2, FAR), nodes=1)
        assert isinstance(train, do.Train)
        assert (train.generation, harness.trial(0).revoked) == (1, False)

    def test_a_longer_wish_lengthens_the_lease_of_the_present_gang(self) -> None:
        harness = training(Wish(T[0], 2, 5), nodes=("n0",))
        (train,) = harness.wish(Wish(T[0], 2, 9), nodes=1)
        assert isinstance(train, do.Train)
        assert (train.generation, train.until_iteration) == (1, 9)

    def test_another_size_saves_and_starts_anew(self) -> None:
        harness = training(Wish(T[0], 2, FAR), nodes=("n0",))
        assert harness.wish(Wish(T[0], 4, FAR), nodes=1) == [do.Revoke(trial=T[0], generation=1)]
        assert harness.trial(0).phase is Phase.RESIZING
        assert kinds(harness.at(10.0).lease_ended(0, 0.5, reason=LeaseEnd.REVOKED)) == ["Pause"]
        (train,) = harness.at(11.0).paused(0)
        assert isinstance(train, do.Train)
        assert (train.generation, len(train.gang), train.after_iteration) == (2, 4, 1)

    def test_a_gang_that_has_not_begun_just_stops(self) -> None:
        harness = open_stage()
        harness.wish(Wish(T[0], 2, FAR), nodes=1)
        assert harness.wish(nodes=1) == [do.Stop(trial=T[0], generation=1)]
        assert harness.trial(0).phase is Phase.SAMPLED

    def test_a_gang_that_waits_saves_and_one_that_saves_is_left_alone(self) -> None:
        harness = training(Wish(T[0], 2, 1), nodes=("n0",))
        assert kinds(harness.lease_ended(0, 0.5)) == ["Pause"]
        assert harness.trial(0).activity is Activity.SAVING
        assert harness.wish(Wish(T[0], 2, FAR), nodes=1) == []
        assert kinds(harness.paused(0)) == ["Train"]

    def test_a_gang_larger_than_a_node_takes_two(self) -> None:
        harness = open_stage(trials=2, nodes=("n0", "n1"))
        harness.wish(Wish(T[0], 6, FAR), Wish(T[1], 1, FAR), nodes=2)
        assert gangs_of(harness) == {0: (*gang("n0", 0, 1, 2, 3), *gang("n1", 0, 1))}

    def test_a_node_that_is_in_use_goes_when_it_is_empty(self) -> None:
        harness = training(Wish(T[0], 4, 3), nodes=("n0", "n1"))
        assert released(harness.wish(Wish(T[0], 4, 3), nodes=1)) == ["n1"]
        assert released(harness.wish(Wish(T[0], 4, 3), nodes=0)) == []
        harness.lease_ended(0, 0.1, 0.2, 0.3)
        assert released(harness.paused(0)) == ["n0"]

    def test_a_final_wish_finishes_its_trial(self) -> None:
        harness = training(Wish(T[0], 4, 1, final=True), nodes=("n0",))
        harness.lease_ended(0, 0.5)
        harness.paused(0)
        assert harness.trial(0).phase is Phase.FINISHED

    def test_wishes_for_two_pools_use_the_nodes_of_each(self) -> None:
        wishes = Wishes(trials=(Wish(T[0], 1, FAR, 0), Wish(T[1], 1, FAR, 1)), nodes={0: 1, 1: 1})
        harness = Harness(first=Advice(wishes=Wishes(nodes={0: 1, 1: 1}), sample=2))
        harness.sampled(0, 1)
        harness.granted(1, "n0")
        harness.granted(2, "n1")
        harness.ready("n0", "n1")
        harness.advise(Advice(wishes=wishes))
        assert gangs_of(harness) == {0: gang("n0", 0), 1: gang("n1", 0)}


class TestElasticWishes:
    def test_a_better_trial_shrinks_a_worse_one(self) -> None:
        harness = training(Wish(T[0], 4, FAR), nodes=("n0",), steady=False)
        assert len(harness.trial(0).gang) == 4
        assert harness.wish(Wish(T[1], 2, FAR), Wish(T[0], 4, FAR), nodes=1, steady=False) == [
            do.Revoke(trial=T[0], generation=1)
        ]
        harness.at(10.0).lease_ended(0, 0.5, reason=LeaseEnd.REVOKED)
        starts = only(harness.at(11.0).paused(0), do.Train)
        assert {start.trial: len(start.gang) for start in starts if isinstance(start, do.Train)} == {
            0: 2,
            1: 2,
        }

    def test_gangs_move_together_so_that_a_whole_node_is_free(self) -> None:
        """Two gangs of two, on two nodes after others have left; the third wants four slots of one."""
        harness = training(
            *(Wish(trial, 2, FAR) for trial in T[:4]), nodes=("n0", "n1"), trials=5, steady=False
        )
        harness.wish(Wish(T[0], 2, FAR), Wish(T[2], 2, FAR), nodes=2, steady=False)
        for number in (1, 3):
            harness.lease_ended(number, 0.1, reason=LeaseEnd.REVOKED)
            harness.paused(number)
        assert harness.trial(0).gang[0].node != harness.trial(2).gang[0].node
        moves = harness.wish(
            Wish(T[4], 4, FAR), Wish(T[0], 2, FAR), Wish(T[2], 2, FAR), nodes=2, steady=False
        )
        (revoked,) = only(moves, do.Revoke)
        assert isinstance(revoked, do.Revoke)
        harness.lease_ended(revoked.trial, 0.1, reason=LeaseEnd.REVOKED)
        harness.paused(revoked.trial)
        sizes = {number: len(seats) for number, seats in gangs_of(harness).items()}
        assert sizes == {0: 2, 2: 2, 4: 4}

    def test_what_is_in_place_is_left_alone(self) -> None:
        harness = training(Wish(T[0], 2, FAR), Wish(T[1], 2, FAR), nodes=("n0",), steady=False)
        assert harness.wish(Wish(T[1], 2, FAR), Wish(T[0], 2, FAR), nodes=1, steady=False) == []

    def test_gangs_pack_before_a_node_is_given_back(self) -> None:
        harness = training(Wish(T[0], 2, FAR), nodes=("n0", "n1"), steady=False)
        (seat,) = {slot.node for slot in harness.trial(0).gang}
        commands = harness.wish(Wish(T[0], 2, FAR), nodes=1, steady=False)
        assert released(commands) == [str(({"n0", "n1"} - {seat}).pop())]
        assert only(commands, do.Revoke) == []

    def test_a_trial_with_no_room_at_all_waits(self) -> None:
        harness = open_stage(make_terms(slots=1), trials=2)
        harness.wish(Wish(T[1], 1, FAR), Wish(T[0], 1, FAR), nodes=1, steady=False)
        assert list(gangs_of(harness)) == [1]
