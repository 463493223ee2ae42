"""Who decides while a run goes on: one small file per policy, all under `tests/policies/contract.py`."""

from elastune.policies.outline import Outline
from elastune.policies.registry import known_policies, make_policy, outline_policy
from elastune.policies.replanning import Planner
from elastune.policies.setup import PolicyFactory, PolicySetup

__all__ = [
    "Outline",
    "Planner",
    "PolicyFactory",
    "PolicySetup",
    "known_policies",
    "make_policy",
    "outline_policy",
]
