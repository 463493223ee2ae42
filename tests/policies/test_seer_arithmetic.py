"""SEER's arithmetic, against the paper's numbers and against its own conditions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.policies.seer_arithmetic import SeerShape, SeerTerms, shape_seer

times = st.floats(0.1, 1e5)
budgets = st.floats(0.1, 1e6)
terms_of = st.builds(
    SeerTerms,
    eta=st.integers(2, 6) | st.floats(1.1, 6.0),
    nu=st.integers(2, 4) | st.floats(1.1, 4.0),
    min_round=st.floats(0.1, 100.0),
    min_slots=st.integers(1, 4),
    max_slots=st.none() | st.integers(4, 64),
)


def shape(time: float, budget: float, terms: SeerTerms | None = None) -> SeerShape:
    found = shape_seer(time, budget, terms or SeerTerms())
    assert found is not None
    return found


def test_the_example_of_section_3_4() -> None:
    """Except for its first bracket budget, 17.142, which is not what Algorithm 3 gives."""
    found = shape(10.0, 80.0, SeerTerms(eta=2))
    assert found.reference == pytest.approx(5.714, abs=5e-4)
    assert found.rounds == 3
    assert found.first_round == pytest.approx(1.4286, abs=5e-5)
    assert found.first_budget == pytest.approx(17.143, abs=5e-4)
    assert [(b.slots, b.trials) for b in found.brackets] == [(1, 8), (2, 4)]
    assert [b.budget for b in found.brackets] == pytest.approx([34.286, 34.286], abs=5e-4)
    assert [found.gangs(k) for k in range(3)] == [(2,) * 4 + (1,) * 8, (2, 2, 1, 1, 1, 1), (2, 1, 1)]
    assert [found.duration(k) for k in range(3)] == pytest.approx([1.4286, 2.8571, 5.7143], abs=5e-5)


def test_the_thirteen_trials_of_section_6_5() -> None:
    found = shape(30.0, 240.0, SeerTerms(eta=4, min_round=2.0, max_slots=4))
    assert [(b.slots, b.trials) for b in found.brackets] == [(1, 8), (2, 4), (4, 1)]
    assert found.trials == 13
    assert found.first_round == pytest.approx(6.0)


def test_more_brackets_than_slots_are_merged_at_the_most_slots() -> None:
    """Algorithm 3, the other branch: equal shares for 1, 2, 4 and 8 slots."""
    found = shape(10.0, 10_000.0, SeerTerms(max_slots=8))
    assert [b.slots for b in found.brackets] == [1, 2, 4, 8]
    assert {b.budget for b in found.brackets} == {2_500.0}


def test_a_small_budget_is_spent_before_the_deadline_by_one_bracket() -> None:
    found = shape(1e6, 10.0)
    assert [b.slots for b in found.brackets] == [1]
    assert sum(found.duration(k) for k in range(found.rounds)) < 10.0


@pytest.mark.parametrize(("time", "budget"), [(0.99, 100.0), (100.0, 0.99)])
def test_less_than_one_round_of_one_trial_is_nothing(time: float, budget: float) -> None:
    assert shape_seer(time, budget, SeerTerms()) is None


def test_exactly_one_round_of_one_trial_is_something() -> None:
    assert [(b.slots, b.trials) for b in shape(1.0, 1.0).brackets] == [(1, 1)]


def test_time_may_depend_on_the_number_of_rounds() -> None:
    """With overheads per round, fewer rounds may be what fits."""
    without, with_overhead = shape(16.0, 1_000.0), shape_seer(lambda k: 16.0 - 6.0 * k, 1_000.0, SeerTerms())
    assert without.rounds == 2
    assert with_overhead is not None
    assert with_overhead.rounds == 1


@given(time=times, budget=budgets, terms=terms_of)
def test_fact_1_neither_time_nor_budget_is_exceeded(time: float, budget: float, terms: SeerTerms) -> None:
    found = shape_seer(time, budget, terms)
    if found is None:
        return
    rounds = [found.duration(k) for k in range(found.rounds)]
    spent = sum(seconds * sum(found.gangs(k)) for k, seconds in enumerate(rounds))
    assert sum(rounds) <= time * (1 + 1e-6)
    assert spent <= budget * (1 + 1e-6)
    assert found.first_round >= terms.min_round * (1 - 1e-6)


@given(time=times, budget=budgets, terms=terms_of)
def test_the_reference_is_the_largest_that_fulfils_both_conditions(
    time: float, budget: float, terms: SeerTerms
) -> None:
    """Algorithm 2, line 2, tried directly around the answer."""

    def holds(reference: float) -> bool:
        rounds = math.ceil(math.log(reference, terms.eta) - 1e-9)
        by_time = reference * terms.eta / (terms.eta - 1) * (1 - terms.eta**-rounds)
        by_budget = terms.min_slots * reference * rounds
        return by_time <= time / terms.min_round * (1 + 1e-9) and by_budget <= budget / terms.min_round * (
            1 + 1e-9
        )

    found = shape_seer(time, budget, terms)
    if found is None:
        assert not holds(1.0001)
        return
    assert holds(found.reference * (1 - 1e-9))
    assert not any(holds(found.reference * factor) for factor in (1.001, 1.1, 2.0, 5.0, 20.0))


@given(time=times, budget=budgets, terms=terms_of)
def test_brackets_have_trials_and_more_slots_each(time: float, budget: float, terms: SeerTerms) -> None:
    found = shape_seer(time, budget, terms)
    if found is None:
        return
    slots = [b.slots for b in found.brackets]
    assert slots == sorted(set(slots))
    assert all(b.trials > 0 for b in found.brackets)
    assert all(terms.min_slots <= each <= (terms.max_slots or math.inf) for each in slots)
    for k in range(found.rounds):
        assert found.gangs(k) == tuple(sorted(found.gangs(k), reverse=True))
