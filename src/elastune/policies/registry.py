"""The policies by name, and what a policy is made from.

Other packages add a policy by an entry point: a function of a `PolicySetup` in the group `elastune.policies`:

    [project.entry-points."elastune.policies"]
    my-policy = "my_package:create"
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, TypeVar

from elastune.core.events import AnyEvent
from elastune.core.policy import Policy, Progress, Vetoed
from elastune.core.state import State
from elastune.core.terms import RunTerms
from elastune.core.wishes import Advice
from elastune.errors import InvariantError, JobError
from elastune.planning.quote import Quote
from elastune.policies.bracket import Planner
from elastune.policies.outline import Outline
from elastune.wording import did_you_mean, several

Options = TypeVar("Options")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySetup:
    options: object
    """The search section of the job. The options class of the policy is one of its base classes."""
    search: Mapping[str, object]  # the same as plain data, for policies of other packages
    quote: Quote | None  # the plan, if the search can be planned
    planner: Planner
    seed: int

    def read(self, kind: type[Options]) -> Options:
        if not isinstance(self.options, kind):
            raise InvariantError(f"options are {type(self.options).__name__}; expected {kind.__name__}")
        return self.options


PolicyFactory = Callable[[PolicySetup], Policy]
GROUP = "elastune.policies"
# Module and suffix of its functions `create` and, if it knows its rounds beforehand, `outline`.
_OURS = {
    "asha": ("asha", ""),
    "bohb": ("hyperband", "_bohb"),
    "e-grid": ("elastic_baselines", "_e_grid"),
    "e-hyperband": ("elastic_baselines", "_e_hyperband"),
    "forecast": ("forecast.policy", ""),
    "grid": ("full_training", "_grid"),
    "hyperband": ("hyperband", ""),
    "hypersched": ("hypersched", ""),
    "pbt": ("pbt", ""),
    "random": ("full_training", "_random"),
    "rubberband": ("rubberband", ""),
    "seer": ("seer", ""),
}
# Not a search: jobs cannot name it.
_MEASURING = {"profile": ("profile", "")}


def known_policies() -> tuple[str, ...]:
    return tuple(sorted({*_OURS, *(point.name for point in entry_points(group=GROUP))}))


def outline_policy(name: str, options: object, terms: RunTerms) -> Outline | None:
    """The schedule of the policy; None if it decides while it runs."""
    outline = _find("outline", *_OURS[name]) if name in _OURS else None
    return None if outline is None else outline(options, terms)


def _find(function: str, module: str, suffix: str) -> Any:
    return getattr(importlib.import_module(f"elastune.policies.{module}"), function + suffix, None)


def make_policy(name: str, setup: PolicySetup) -> Policy:
    """A new policy for one run, with state of its own."""
    home = (_OURS | _MEASURING).get(name)
    if home is not None:
        create: PolicyFactory = _find("create", *home)
        return create(setup)
    for point in entry_points(group=GROUP):
        if point.name == name:
            create = point.load()
            policy = create(setup)
            return policy if hasattr(policy, "progress") and hasattr(policy, "refuses") else _Plugin(policy)
    known = known_policies()
    raise JobError(f"policy is {name!r}; expected one of: {several(known)}{did_you_mean(name, known)}")


class _Plugin(Policy):
    """A policy of another package that does not report its progress, or knows nothing of extensions."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def start(self, state: State) -> Advice:
        return self.policy.start(state)

    def handle(self, event: AnyEvent | Vetoed, state: State) -> Advice | None:
        return self.policy.handle(event, state)

    def progress(self, state: State) -> Progress:
        return self.policy.progress(state) if hasattr(self.policy, "progress") else Progress()
