"""What every sampler can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from elastune.space.space import Scalar

Configuration = Mapping[str, Scalar]


class Sampler(Protocol):
    """Gives trial after trial its configuration, and remembers nothing.

    A configuration depends on the seed and the number of the trial alone, not on which trials were asked for
    before: a run that is resumed or replayed asks in another order and must get the same. Samplers that learn
    from results need an Optuna study, which manages some thousand asks per second; these need none.
    """

    @property
    def size(self) -> int | None:
        """How many configurations there are; None: without end."""
        ...

    def ask(self, trial: int) -> Configuration | None:
        """The configuration of trial 0, 1, 2, ...; None when there are no more."""
        ...
