"""The policies by name: our own, and those that other packages bring by an entry point.

A policy of somebody else is a function of a `PolicySetup` registered in the group `elastune.policies`:

    [project.entry-points."elastune.policies"]
    my-policy = "my_package:create"
"""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points

from elastune.core import Advice, AnyEvent, Policy, RunTerms, State, Vetoed
from elastune.errors import JobError
from elastune.policies.outline import Outline
from elastune.policies.setup import PolicyFactory, PolicySetup
from elastune.wording import did_you_mean, several

GROUP = "elastune.policies"
_OURS = {
    name: f"elastune.policies.{name.replace('-', '_')}"
    for name in (
        "asha",
        "bohb",
        "e-grid",
        "e-hyperband",
        "grid",
        "hyperband",
        "hypersched",
        "pbt",
        "random",
        "rubberband",
        "seer",
    )
}


# Not a search: nobody asks for it by name.
_MEASURING = {"profile": "elastune.policies.profile"}


def known_policies() -> tuple[str, ...]:
    return tuple(sorted({*_OURS, *(point.name for point in entry_points(group=GROUP))}))


def outline_policy(name: str, options: object, terms: RunTerms) -> Outline | None:
    """What the policy means to do, where it knows beforehand."""
    module = importlib.import_module(_OURS[name]) if name in _OURS else None
    outline = getattr(module, "outline", None)
    return None if outline is None else outline(options, terms)


def make_policy(name: str, setup: PolicySetup) -> Policy:
    """A fresh policy for one run; what it remembers is its own."""
    home = (_OURS | _MEASURING).get(name)
    if home is not None:
        create: PolicyFactory = importlib.import_module(home).create
        return create(setup)
    for point in entry_points(group=GROUP):
        if point.name == name:
            create = point.load()
            policy = create(setup)
            return policy if hasattr(policy, "progress") else _WithoutProgress(policy)
    known = known_policies()
    raise JobError(f"policy is {name!r}; expected one of: {several(known)}{did_you_mean(name, known)}")


class _WithoutProgress(Policy):
    """A policy of another package that does not say how far it is."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def start(self, state: State) -> Advice:
        return self.policy.start(state)

    def handle(self, event: AnyEvent | Vetoed, state: State) -> Advice | None:
        return self.policy.handle(event, state)
