"""Planning again in the middle of a run is the same call."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elastune.errors import InvariantError
from elastune.model.cluster import ClusterTerms
from elastune.model.distributions import Constant
from elastune.model.limits import Limits
from elastune.model.profile import Profile, Speedup
from elastune.model.stages import successive_halving
from elastune.planning.problem import Problem, StartState
from elastune.planning.quoting import make_quote

FRESH = Problem(
    specs=(successive_halving(trials=16, min_iterations=1, max_iterations=40, eta=4),),
    profile=Profile(iteration=Constant(60.0), speedup=Speedup.of({2: 1.8, 4: 3.1})),
    cluster=ClusterTerms(
        slots_per_node=4, max_nodes=16, price_per_hour=10.0, queue=Constant(5.0), init=Constant(20.0)
    ),
    limits=Limits(deadline_s=2400.0),
)


def test_the_empty_state_is_a_fresh_job() -> None:
    assert make_quote(FRESH) == replace(make_quote(replace(FRESH, starts=(StartState(),))), problem=FRESH)


def test_after_the_first_stage_the_rest_of_the_plan_stands() -> None:
    whole = make_quote(FRESH)
    first = whole.stages[0]
    started = replace(
        FRESH,
        limits=Limits(deadline_s=2400.0 - first.seconds),
        starts=(StartState(stage=1, node_ages_s=(first.seconds - 5.0,) * first.nodes_held),),
    )
    rest = make_quote(started)
    assert rest.stages == whole.stages[1:]
    assert rest.cost == pytest.approx(whole.cost - first.cost)


def test_what_each_trial_still_owes_counts_not_what_the_stage_declared() -> None:
    started = replace(FRESH, starts=(StartState(stage=1, work_left=(4, 1, 0, 2), node_ages_s=(500.0,)),))
    quote = make_quote(started)
    assert quote.stages[0].trials == 3
    assert quote.stages[0].iterations == 4


def test_nodes_at_hand_are_used_before_new_ones_are_asked_for() -> None:
    at_hand = replace(FRESH, starts=(StartState(stage=1, node_ages_s=(300.0,)),))
    empty_handed = replace(FRESH, starts=(StartState(stage=1),))
    assert make_quote(at_hand).cost < make_quote(empty_handed).cost


def test_a_lost_deadline_is_told_with_what_is_still_possible() -> None:
    late = replace(FRESH, limits=Limits(deadline_s=300.0), starts=(StartState(stage=1),))
    with pytest.raises(Exception, match="deadline binds") as caught:
        make_quote(late)
    assert "would fit: deadline:" in str(caught.value)


@pytest.mark.parametrize("start", [StartState(stage=3), StartState(stage=0, work_left=(0, 0))])
def test_a_state_that_cannot_be_is_refused(start: StartState) -> None:
    with pytest.raises(InvariantError):
        make_quote(replace(FRESH, starts=(start,)))
