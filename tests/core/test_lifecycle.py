"""The life of a trial: every step that is allowed, and every one that is not."""

from __future__ import annotations

import itertools

import pytest

from elastune.core.trials import Phase, check_step
from elastune.errors import InvariantError

ALLOWED = {
    ("sampled", "starting"),
    ("sampled", "stopped"),
    ("sampled", "failed"),
    ("starting", "running"),
    ("starting", "resizing"),
    ("starting", "sampled"),
    ("starting", "paused"),
    ("starting", "stopped"),
    ("starting", "failed"),
    ("running", "resizing"),
    ("running", "sampled"),
    ("running", "paused"),
    ("running", "stopped"),
    ("running", "finished"),
    ("running", "failed"),
    ("resizing", "running"),
    ("resizing", "sampled"),
    ("resizing", "paused"),
    ("resizing", "stopped"),
    ("resizing", "finished"),
    ("resizing", "failed"),
    ("paused", "starting"),
    ("paused", "stopped"),
    ("paused", "finished"),
}
EVERY_STEP = list(itertools.product(Phase, Phase))
"""Written out by hand, not taken from the code: changing the table is a decision."""


@pytest.mark.parametrize(("before", "after"), [s for s in EVERY_STEP if (s[0].value, s[1].value) in ALLOWED])
def test_an_allowed_step_is_taken(before: Phase, after: Phase) -> None:
    assert check_step(7, before, after) is after


@pytest.mark.parametrize(
    ("before", "after"), [s for s in EVERY_STEP if (s[0].value, s[1].value) not in ALLOWED]
)
def test_any_other_step_is_a_bug_and_says_which(before: Phase, after: Phase) -> None:
    with pytest.raises(InvariantError, match=f"trial 7 cannot go from {before.value} to {after.value}"):
        check_step(7, before, after)


def test_what_is_over_stays_over() -> None:
    over = {phase for phase in Phase if phase.is_over}
    assert {phase.value for phase in over} == {"stopped", "finished", "failed"}
    assert not [step for step in ALLOWED if Phase(step[0]) in over]
