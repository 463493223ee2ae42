"""What samplers that draw from a space share; each adds where its numbers come from."""

from __future__ import annotations

from abc import ABC, abstractmethod

from elastune.space.function_space import MOST_SUGGESTED
from elastune.space.given import completed
from elastune.space.perturbing import perturbed
from elastune.space.quantile import quantile
from elastune.space.sampler import AnySpace, Configuration
from elastune.space.space import Distribution, Draw, Scalar, Space

_FORK = 1


class SpaceSampler(ABC):
    """Asks the space for a configuration, with its own draw for every value; remembers nothing."""

    learns = False

    def __init__(self, space: AnySpace, *, seed: int) -> None:
        self._space = space
        self._seed = seed

    @property
    def size(self) -> int | None:
        return None

    @abstractmethod
    def draw(self, trial: int) -> Draw:
        """What gives the values of a trial."""

    def ask(self, trial: int) -> Configuration | None:
        return self._space.configure(self.draw(trial))

    def complete(self, trial: int, given: Configuration) -> Configuration:
        return completed(self._space, given, self.draw(trial))

    def fork(self, trial: int, parent: Configuration) -> Configuration:
        return perturbed(self._space, parent, (self._seed, trial, _FORK))

    def tell(self, trial: int, iteration: int, value: float) -> None:  # noqa: B027
        """Nothing is learned."""


class ShareSampler(SpaceSampler):
    """Turns numbers in [0, 1), one per hyperparameter, into values.

    In a space that is written, a hyperparameter has its number by its place, so that others that come and go
    with a condition change nothing for it; in a function, by the order in which it is suggested.
    """

    def __init__(self, space: AnySpace, *, seed: int) -> None:
        super().__init__(space, seed=seed)
        distributions = space.distributions if isinstance(space, Space) else {}
        self._quantiles = {name: quantile(each) for name, each in distributions.items()}
        self._places = {name: place for place, name in enumerate(distributions)}
        self._count = len(distributions) if isinstance(space, Space) else MOST_SUGGESTED

    @abstractmethod
    def shares(self, trial: int) -> list[float]:
        """As many numbers as there are hyperparameters."""

    def draw(self, trial: int) -> Draw:
        shares = self.shares(trial)
        places = self._places.copy()

        def draw(name: str, distribution: Distribution) -> Scalar:
            value_at = self._quantiles.get(name) or quantile(distribution)
            return value_at(shares[places.setdefault(name, len(places))])

        return draw
