"""What every sampler can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from elastune.space.function_space import FunctionSpace
from elastune.space.space import Scalar, Space

Configuration = Mapping[str, Scalar]
AnySpace = Space | FunctionSpace


class Sampler(Protocol):
    """Gives trial after trial its configuration.

    A configuration depends on the seed, the number of the trial and, for samplers that learn, on what they
    were told before, in its order; never on a clock or on who asked. So a run that is resumed or replayed
    gets the same. Most samplers remember nothing: for them even the order of asks does not matter.
    """

    @property
    def size(self) -> int | None:
        """How many configurations there are; None: without end."""
        ...

    @property
    def learns(self) -> bool:
        """Whether it listens: a body that has many rows to tell need not tell them to one that does not."""
        ...

    def ask(self, trial: int) -> Configuration | None:
        """The configuration of trial 0, 1, 2, ...; None when there are no more."""
        ...

    def complete(self, trial: int, given: Configuration) -> Configuration:
        """A configuration with the given values, where only the missing ones are sampled.

        Also how a resumed run says which configuration a trial already has. Raises `SpaceError` if the
        values are not of the space.
        """
        ...

    def fork(self, trial: int, parent: Configuration) -> Configuration | None:
        """A configuration near the parent's, for a trial that goes on from the parent's state."""
        ...

    def tell(self, trial: int, iteration: int, value: float) -> None:
        """The metric of a trial after an iteration, a finite number."""
        ...
