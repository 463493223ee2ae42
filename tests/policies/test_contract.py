"""Every policy keeps the contract. A new policy is one more line."""

from __future__ import annotations

import pytest

from elastune.job.policy_choice import choose_policy
from elastune.policies.registry import known_policies
from tests.policies.contract import WORLDS, PolicyContract

POLICIES: dict[str, dict[str, object]] = {
    "rubberband": {"algorithm": "sha"},
    "asha": {"algorithm": "asha"},
    "hypersched": {"algorithm": "hypersched"},
    "forecast": {"algorithm": "forecast"},
    "seer": {"algorithm": "seer", "trials": None, "min_round": 15.0, "eta": 2},
    "e-hyperband": {"algorithm": "e-hyperband", "trials": None, "min_round": 15.0},
    "e-grid": {"algorithm": "e-grid", "trials": None},
    "bohb": {"algorithm": "bohb", "trials": None, "sampler": "random"},
    "pbt": {"algorithm": "pbt", "interval": 3},
    "random": {"algorithm": "random"},
    "grid": {"algorithm": "grid", "sampler": "random"},
}


@pytest.mark.parametrize("search", POLICIES.values(), ids=list(POLICIES))
class TestPolicies(PolicyContract):
    pass


@pytest.mark.parametrize("name", POLICIES)
def test_the_search_above_is_run_by_that_policy(name: str) -> None:
    assert choose_policy(WORLDS["calm"].job(POLICIES[name])) == name


def test_no_policy_of_ours_is_left_out() -> None:
    assert set(known_policies()) == set(POLICIES) | {"hyperband"}
