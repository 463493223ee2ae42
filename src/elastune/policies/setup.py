"""What a policy is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from elastune.core import Policy
from elastune.planning import Quote
from elastune.policies.replanning import Planner


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySetup:
    """`search` is the job's search section as plain data.

    `quote` the plan, where the search can be planned.
    """

    search: Mapping[str, object]
    quote: Quote | None
    planner: Planner
    seed: int


PolicyFactory = Callable[[PolicySetup], Policy]
