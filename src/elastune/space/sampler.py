"""What every sampler can do, and what samplers that draw from a space share.

`completed` checks the given values of a configuration and draws the others. `perturbed` explores near another
configuration as Population Based Training does (Jaderberg et al. 2017, section 4): a number is multiplied by
0.8 or 1.2 (their `perturb`) or, one time in four, drawn anew (their `resample`); a choice stays or, one time
in four, is drawn anew, because trained weights seldom survive another optimizer. Deliberate deviations: where
rounding to whole numbers or steps would leave a number unchanged, it moves by one step; a conditional
hyperparameter that the parent does not have is drawn.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np
from optuna.distributions import CategoricalDistribution, IntDistribution

from elastune.model.configuration import Configuration, FlatConfiguration, Scalar
from elastune.space.function_space import MOST_SUGGESTED, FunctionSpace
from elastune.space.space import Distribution, Domain, Draw, Space, SpaceError, raise_all
from elastune.space.values import NotInsideError, fitted, quantile, same, steps
from elastune.wording import did_you_mean, either, seen, several

AnySpace = Space | FunctionSpace


class Sampler(Protocol):
    """Gives each trial its configuration.

    A configuration depends on the seed, the number of the trial and, for samplers that learn, on the earlier
    reports in their order; never on a clock or on the caller. So a resumed or replayed run gets the same.
    Most samplers keep no state: for them the order of asks does not matter either.
    """

    @property
    def size(self) -> int | None:
        """How many configurations there are; None: no end."""

    @property
    def learns(self) -> bool:
        """Whether `tell` has an effect; a runtime need not report rows to a sampler that does not learn."""

    def ask(self, trial: int) -> Configuration | None:
        """The configuration of trial 0, 1, 2, ...; None when there are no more."""

    def complete(self, trial: int, given: Configuration) -> Configuration:
        """A configuration with the given values; only the missing ones are sampled.

        A resumed run also restores the configurations of its trials this way. Raises `SpaceError` if the
        values are not of the space.
        """

    def fork(self, trial: int, parent: Configuration) -> Configuration | None:
        """A configuration near the parent's, for a trial that continues from the parent's state."""

    def tell(self, trial: int, iteration: int, value: float) -> None:
        """Report the metric of a trial after an iteration, a finite number."""


def completed(space: AnySpace, configuration: Configuration, draw: Draw) -> Configuration:
    """Raises `SpaceError` for each value outside its domain and each unknown name.

    A conditional value implies what it needs: `{momentum: 0.9}` means sgd.
    """
    given = space.flat(configuration)
    mistakes: list[SpaceError] = []
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
            mistakes.append(SpaceError(space.path(name), f"is {seen(given[name])}; expected {error}"))
            return draw(name, distribution)

    found = space.configure(choose)
    values = space.flat(found)
    for name, value in given.items():
        if name not in values:
            mistakes.append(SpaceError(space.path(name), _not_there(space, name, values)))
        elif name not in drawn and not same(values[name], value):
            text = f"is {seen(value)}; expected {seen(values[name])}, a constant"
            mistakes.append(SpaceError(space.path(name), text))
    raise_all(mistakes)
    return found


def _needed(space: Space, given: FlatConfiguration) -> dict[str, list[Scalar]]:
    """The values that parents need to have for all given hyperparameters to be active."""
    needed: dict[str, list[Scalar]] = {}
    domains = space.in_order
    for name in reversed(domains):
        if name not in given and name not in needed:
            continue
        for condition in domains[name].when:
            before = needed.get(condition.parent)
            both = [value for value in condition.values if before is None or value in before]
            # Where two contradict each other, one will be absent, and `completed` reports that.
            needed[condition.parent] = both or list(condition.values)
    return needed


def _not_there(space: AnySpace, name: str, configuration: FlatConfiguration) -> str:
    if isinstance(space, Space) and isinstance(domain := space.entries.get(name), Domain):
        missing = [
            f"{condition.parent} is {either(map(str, condition.values))}"
            for condition in domain.when
            if configuration.get(condition.parent) not in condition.values
        ]
        return f"is given, but is only there when {' and '.join(missing)}"
    known = list(space.entries if isinstance(space, Space) else configuration)
    expected = f"{several(known)}{did_you_mean(name, known)}"
    return f"is no hyperparameter of this configuration; expected one of: {expected}"


FACTORS = (0.8, 1.2)
DRAWN_ANEW = 0.25
FORK = 1  # seeds the forks apart from the asks


def perturbed(space: AnySpace, configuration: Configuration, seed: tuple[int, ...]) -> Configuration:
    """Always inside the space; the same for the same parent and seed."""
    parent = space.flat(configuration)
    rng = np.random.default_rng(seed)

    def draw(name: str, distribution: Distribution) -> Scalar:
        # Always three numbers, so that one hyperparameter does not affect the next.
        redraw, direction, share = rng.random(3).tolist()
        if name in parent and redraw >= DRAWN_ANEW:
            moved = _moved(distribution, parent[name], FACTORS[direction >= 0.5])
            if moved is not None:
                return moved
        return quantile(distribution)(share)

    return space.configure(draw)


def _moved(distribution: Distribution, value: Scalar, factor: float) -> Scalar:
    """None: the distribution does not hold the value."""
    try:
        before = fitted(distribution, value)
    except NotInsideError:
        return None
    if isinstance(distribution, CategoricalDistribution):
        return before
    assert isinstance(before, int | float)
    wanted = min(distribution.high, max(distribution.low, before * factor))
    if distribution.step is None:
        return float(wanted)
    at, target = ((each - distribution.low) / distribution.step for each in (before, wanted))
    if isinstance(distribution, IntDistribution):
        last = (distribution.high - distribution.low) // distribution.step
        return distribution.low + distribution.step * _position(at, target, last)
    count, value_at = steps(distribution)
    return value_at(_position(at, target, count - 1))


def _position(before: float, wanted: float, last: int) -> int:
    """The step nearest to the wanted one; not the current one, if there is another in that direction."""
    here, there = round(before), round(wanted)
    if here == there and wanted != before:
        there += int(math.copysign(1, wanted - before))
    return min(last, max(0, there))


class SpaceSampler(ABC):
    """Configures the space with its own draw for every value; keeps no state."""

    learns = False

    def __init__(self, space: AnySpace, *, seed: int) -> None:
        self._space = space
        self._seed = seed

    @property
    def size(self) -> int | None:
        return None

    @abstractmethod
    def draw(self, trial: int) -> Draw:
        """Gives the values of a trial."""

    def ask(self, trial: int) -> Configuration | None:
        return self._space.configure(self.draw(trial))

    def complete(self, trial: int, given: Configuration) -> Configuration:
        return completed(self._space, given, self.draw(trial))

    def fork(self, trial: int, parent: Configuration) -> Configuration:
        return perturbed(self._space, parent, (self._seed, trial, FORK))

    def tell(self, trial: int, iteration: int, value: float) -> None:  # noqa: B027
        """Nothing is learned."""


class ShareSampler(SpaceSampler):
    """Turns numbers in [0, 1), one per hyperparameter, into values.

    In a written space a hyperparameter has its number by its place, so that conditional ones do not change
    those of others; in a function, by the order in which it is suggested.
    """

    def __init__(self, space: AnySpace, *, seed: int) -> None:
        super().__init__(space, seed=seed)
        distributions = space.distributions if isinstance(space, Space) else {}
        self._quantiles = {name: quantile(each) for name, each in distributions.items()}
        self._places = {name: place for place, name in enumerate(distributions)}
        self._count = len(distributions) if isinstance(space, Space) else MOST_SUGGESTED

    @abstractmethod
    def shares(self, trial: int) -> list[float]:
        """`_count` numbers."""

    def draw(self, trial: int) -> Draw:
        shares, places = self.shares(trial), self._places.copy()

        def draw(name: str, distribution: Distribution) -> Scalar:
            value_at = self._quantiles.get(name) or quantile(distribution)
            return value_at(shares[places.setdefault(name, len(places))])

        return draw


class LearningSampler(SpaceSampler):
    """Remembers the values and the domains of every configuration that it has given, for its model."""

    learns = True

    def __init__(self, space: AnySpace, *, seed: int) -> None:
        super().__init__(space, seed=seed)
        self._given: dict[int, tuple[dict[str, Scalar], dict[str, Distribution]]] = {}

    def ask(self, trial: int) -> Configuration:
        return self._remembered(trial, self._space.configure(self.draw(trial)))

    def complete(self, trial: int, given: Configuration) -> Configuration:
        return self._remembered(trial, super().complete(trial, given))

    def fork(self, trial: int, parent: Configuration) -> Configuration:
        return self._remembered(trial, super().fork(trial, parent))

    def _remembered(self, trial: int, configuration: Configuration) -> Configuration:
        values: dict[str, Scalar] = {}
        distributions: dict[str, Distribution] = {}
        flat = self._space.flat(configuration)

        def remember(name: str, distribution: Distribution) -> Scalar:
            values[name], distributions[name] = flat[name], distribution
            return flat[name]

        self._space.configure(remember)
        self._given[trial] = values, distributions
        return configuration
