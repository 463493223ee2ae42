"""Every adapter trains, can be paused anywhere, and runs where real trials run."""

from __future__ import annotations

from pathlib import Path

import cloudpickle
import pytest

from elastune.runtime.ray.messages import Form, GangId, GangTerms, Keep, Kept, Trained
from elastune.training.recipe import open_recipe
from tests.adapters.contract import Case, each_case, slot_of, train
from tests.runtime.real.slot_processes import Watched

# Deprecations inside the frameworks, which only they can mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec.* is deprecated"),
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
]


@each_case()
def test_it_learns_and_goes_on_from_its_state_as_if_nothing_had_happened(case: Case) -> None:
    user = case.user()
    rows, end = train(user, case.config, 1, 4)
    gain = rows[-1][case.metric] - rows[0][case.metric]
    assert -gain > 0 if case.is_loss else gain > 0
    assert all(isinstance(value, float) for row in rows for value in row.values())
    _, half = train(user, case.config, 1, 2)
    again, same = train(user, case.config, 3, 4, half)
    assert again == rows[2:]
    assert same == end


@each_case()
def test_it_says_that_more_than_one_slot_is_of_no_use(case: Case) -> None:
    assert open_recipe(case.user(), name=case.name).most_slots == 1


@each_case()
def test_it_can_be_sent_to_workers_from_python(case: Case) -> None:
    user = case.user()
    sent = cloudpickle.loads(cloudpickle.dumps(user))
    assert train(sent, case.config, 1, 1)[0] == train(user, case.config, 1, 1)[0]


@each_case()
def test_a_slot_process_trains_it_pauses_it_and_goes_on(case: Case, tmp_path: Path) -> None:
    rows, _ = train(case.user(), case.config, 1, 4)
    with slot_of(case, tmp_path) as slot:
        slot.processes.order(0, _form(case, after=0, generation=1))
        assert _metrics(slot, case) == pytest.approx([row[case.metric] for row in rows[:2]])
        slot.processes.order(0, Keep(gang=GangId(0, 1)))
        slot.wait_for(Kept)
        slot.processes.order(0, _form(case, after=2, generation=2))
        assert _metrics(slot, case) == pytest.approx([row[case.metric] for row in rows[2:]])


def _metrics(slot: Watched, case: Case) -> list[float]:
    """Of the iterations until the gang waits."""
    seen: list[float] = []
    while True:
        news = slot.wait_for(Trained)
        seen += [metrics[case.metric] for _, _, metrics in news.rows]
        if news.reason is not None:
            return seen


def _form(case: Case, *, after: int, generation: int) -> Form:
    return Form(
        gang=GangId(0, generation),
        rank=0,
        size=1,
        config=dict(case.config),
        seed=7,
        after_iteration=after,
        origin=0,
        expected_s=1.0,
        terms=GangTerms(until_iteration=after + 2, until=None, keep_above=None),
    )
