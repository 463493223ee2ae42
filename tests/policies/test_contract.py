"""Every policy keeps the contract. A new policy is one more line."""

from __future__ import annotations

import pytest

from elastune.policies import known_policies
from elastune.runs import choose_policy
from tests.policies.contract import WORLDS, PolicyContract

POLICIES = {
    "rubberband": {"algorithm": "sha"},
    "asha": {"algorithm": "asha"},
}


@pytest.mark.parametrize("search", POLICIES.values(), ids=list(POLICIES))
class TestPolicies(PolicyContract):
    pass


@pytest.mark.parametrize("name", POLICIES)
def test_the_search_above_is_run_by_that_policy(name: str) -> None:
    assert choose_policy(WORLDS["calm"].job(POLICIES[name])) == name


def test_no_policy_of_ours_is_left_out() -> None:
    assert set(known_policies()) == set(POLICIES)
