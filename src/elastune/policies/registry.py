"""The policies by name: our own, and those that other packages bring by an entry point.

A policy of somebody else is a function of a `PolicySetup` registered in the group `elastune.policies`:

    [project.entry-points."elastune.policies"]
    my-policy = "my_package:create"
"""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points

from elastune.core import Policy
from elastune.errors import JobError
from elastune.policies.setup import PolicyFactory, PolicySetup
from elastune.wording import did_you_mean, several

GROUP = "elastune.policies"
_OURS = {"asha": "elastune.policies.asha", "rubberband": "elastune.policies.rubberband"}


def known_policies() -> tuple[str, ...]:
    return tuple(sorted({*_OURS, *(point.name for point in entry_points(group=GROUP))}))


def make_policy(name: str, setup: PolicySetup) -> Policy:
    """A fresh policy for one run; what it remembers is its own."""
    if name in _OURS:
        create: PolicyFactory = importlib.import_module(_OURS[name]).create
        return create(setup)
    for point in entry_points(group=GROUP):
        if point.name == name:
            create = point.load()
            return create(setup)
    known = known_policies()
    raise JobError(f"policy is {name!r}; expected one of: {several(known)}{did_you_mean(name, known)}")
