"""What a policy is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from elastune.core import Policy
from elastune.errors import InvariantError
from elastune.planning import Quote
from elastune.policies.replanning import Planner

Options = TypeVar("Options")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySetup:
    """`quote` is the plan, where the search can be planned."""

    options: object
    """Of the policy: the search section of the job, which has the class of options that the policy declares
    as a base."""
    search: Mapping[str, object]
    """The search section as plain data, for policies of other packages."""
    quote: Quote | None
    planner: Planner
    seed: int

    def read(self, kind: type[Options]) -> Options:
        """The options, as the policy has declared them."""
        if not isinstance(self.options, kind):
            raise InvariantError(f"{kind.__name__} are needed, and {type(self.options).__name__} were given")
        return self.options


PolicyFactory = Callable[[PolicySetup], Policy]
