"""What every sampler can do.

A configuration of which some values are given: they are checked, the others are drawn.

A configuration near another one, as Population Based Training explores (Jaderberg et al. 2017, section 4).

A number is multiplied by 0.8 or 1.2 (their `perturb`) or, one time in four, drawn anew (their `resample`). A
choice stays or, one time in four, is drawn anew: trained weights seldom survive another optimizer.
Deliberate deviations: where rounding to whole numbers or steps would leave a number as it was, it moves by
one step; and a hyperparameter that the parent does not have, because it is only there under a condition, is
drawn.

What samplers that draw from a space share; each adds where its numbers come from.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol

import numpy as np
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from elastune.space.function_space import MOST_SUGGESTED, FunctionSpace
from elastune.space.space import Distribution, Domain, Draw, Scalar, Space, SpaceError
from elastune.space.values import NotInsideError, fitted, quantile, same, steps
from elastune.wording import did_you_mean, either, seen, several

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


def completed(space: AnySpace, given: Configuration, draw: Draw) -> dict[str, Scalar]:
    """Raises `SpaceError` for a value outside its domain and for a name that this configuration has not.

    A value that is only there under a condition brings what it needs: `{momentum: 0.9}` means sgd.
    """
    needed = _needed(space, given) if isinstance(space, Space) and space.is_conditional else {}
    drawn: set[str] = set()

    def choose(name: str, distribution: Distribution) -> Scalar:
        drawn.add(name)
        if name not in given:
            value = draw(name, distribution)
            allowed = needed.get(name)
            return value if allowed is None or value in allowed else allowed[0]
        try:
            return fitted(distribution, given[name])
        except NotInsideError as error:
            raise SpaceError((name,), f"is {seen(given[name])}; expected {error}") from None

    configuration = space.configure(choose)
    for name, value in given.items():
        if name not in configuration:
            raise SpaceError((name,), _not_there(space, name, configuration))
        if name not in drawn and not same(configuration[name], value):
            raise SpaceError((name,), f"is {seen(value)}; expected {seen(configuration[name])}, a constant")
    return configuration


def _needed(space: Space, given: Configuration) -> dict[str, list[Scalar]]:
    """The values that hyperparameters need to have for all given ones to be there."""
    needed: dict[str, list[Scalar]] = {}
    domains = space.in_order
    for name in reversed(domains):
        if name not in given and name not in needed:
            continue
        for condition in domains[name].when:
            before = needed.get(condition.parent)
            both = [value for value in condition.values if before is None or value in before]
            # Where two contradict each other, one of them will not be there, and that is said then.
            needed[condition.parent] = both or list(condition.values)
    return needed


def _not_there(space: AnySpace, name: str, configuration: Configuration) -> str:
    if isinstance(space, Space) and isinstance(domain := space.entries.get(name), Domain):
        missing = [
            f"{condition.parent} is {either(map(str, condition.values))}"
            for condition in domain.when
            if configuration.get(condition.parent) not in condition.values
        ]
        return f"is given, but is only there when {' and '.join(missing)}"
    known = list(space.entries if isinstance(space, Space) else configuration)
    hint = did_you_mean(name, known)
    return f"is no hyperparameter of this configuration; expected one of: {several(known)}{hint}"


FACTORS = (0.8, 1.2)
DRAWN_ANEW = 0.25


def perturbed(space: AnySpace, parent: Configuration, seed: tuple[int, ...]) -> dict[str, Scalar]:
    """Always inside the space; the same for the same parent and seed."""
    rng = np.random.default_rng(seed)

    def draw(name: str, distribution: Distribution) -> Scalar:
        # Three numbers whatever happens, so that one hyperparameter does not disturb the next.
        redraw, direction, share = rng.random(3).tolist()
        if name in parent and redraw >= DRAWN_ANEW:
            moved = _moved(distribution, parent[name], FACTORS[direction >= 0.5])
            if moved is not None:
                return moved
        return quantile(distribution)(share)

    return space.configure(draw)


def _moved(distribution: Distribution, value: Scalar, factor: float) -> Scalar:
    """None: the distribution has no such value, so there is nothing to start from."""
    try:
        before = fitted(distribution, value)
    except NotInsideError:
        return None
    if isinstance(distribution, CategoricalDistribution):
        return before
    assert isinstance(before, int | float)
    wanted = min(distribution.high, max(distribution.low, before * factor))
    if isinstance(distribution, IntDistribution):
        return _on_step(distribution, before, wanted)
    if distribution.step is None:
        return float(wanted)
    return _on_decimal_step(distribution, before, wanted)


def _on_step(distribution: IntDistribution, before: float, wanted: float) -> int:
    low, step = distribution.low, distribution.step
    last = (distribution.high - low) // step
    return low + step * _position((before - low) / step, (wanted - low) / step, last)


def _on_decimal_step(distribution: FloatDistribution, before: float, wanted: float) -> float:
    assert distribution.step is not None
    count, value_at = steps(distribution)
    low, step = distribution.low, distribution.step
    return value_at(_position((before - low) / step, (wanted - low) / step, count - 1))


def _position(before: float, wanted: float, last: int) -> int:
    """The step nearest to the wanted one, but not the one before, if there is another in that direction."""
    here, there = round(before), round(wanted)
    if here == there and wanted != before:
        there += int(math.copysign(1, wanted - before))
    return min(last, max(0, there))


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
