"""The space of configurations: for each hyperparameter a range, a choice or a constant.

Ranges and choices are Optuna's distributions, so any Optuna sampler can work on the space. `parsing` reads a
space as it is written; the samplers draw the values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import ClassVar

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from elastune.errors import JobError

Scalar = str | int | float | bool | None
Distribution = FloatDistribution | IntDistribution | CategoricalDistribution
Draw = Callable[[str, Distribution], Scalar]
"""Gives the hyperparameter of this name a value of this distribution."""


class SpaceError(JobError):
    """A space is wrong. `path` leads to the place inside it; the message is the path and then `text`."""

    root: ClassVar[str] = "space"

    def __init__(self, path: tuple[str, ...], text: str) -> None:
        super().__init__(f"{'.'.join((self.root, *path))} {text}")
        self.path = path
        self.text = text

    def __reduce__(self) -> tuple[type[SpaceError], tuple[tuple[str, ...], str]]:
        return type(self), (self.path, self.text)


@dataclass(frozen=True, slots=True)
class Condition:
    """Met if the hyperparameter `parent` is active and has one of these values."""

    parent: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """One hyperparameter, which is active when all conditions of `when` are met. `grid` is the number of
    points that a grid takes from a continuous range."""

    distribution: Distribution
    grid: int | None = None
    when: tuple[Condition, ...] = ()

    def is_active(self, values: Mapping[str, Scalar]) -> bool:
        """The values of its parents must be settled."""
        return all(each.parent in values and values[each.parent] in each.values for each in self.when)


@dataclass(frozen=True, slots=True)
class Space:
    """Hyperparameters in the order in which they were written; a scalar is a constant."""

    entries: Mapping[str, Domain | Scalar]

    @property
    def domains(self) -> dict[str, Domain]:
        return {name: entry for name, entry in self.entries.items() if isinstance(entry, Domain)}

    @property
    def constants(self) -> dict[str, Scalar]:
        return {name: entry for name, entry in self.entries.items() if not isinstance(entry, Domain)}

    @property
    def distributions(self) -> dict[str, Distribution]:
        """As an Optuna study needs them, without the constants."""
        return {name: domain.distribution for name, domain in self.domains.items()}

    @property
    def is_conditional(self) -> bool:
        return any(domain.when for domain in self.domains.values())

    @property
    def in_order(self) -> dict[str, Domain]:
        """The domains, each after its parents; else as written."""
        domains = self.domains
        if not self.is_conditional:
            return domains
        graph = {
            name: [condition.parent for condition in domain.when if condition.parent in domains]
            for name, domain in domains.items()
        }
        return {name: domains[name] for name in TopologicalSorter(graph).static_order()}

    def configure(self, draw: Draw) -> dict[str, Scalar]:
        """A configuration, in the written order, with values from `draw`; what is not active is absent."""
        values = self.constants
        for name, domain in self.in_order.items():
            if domain.is_active(values):
                values[name] = draw(name, domain.distribution)
        return {name: values[name] for name in self.entries if name in values}

    def to_plain(self) -> dict[str, object]:
        """Plain data from which `parse_space` makes the same space."""
        return {
            name: _domain_to_plain(entry) if isinstance(entry, Domain) else entry
            for name, entry in self.entries.items()
        }


def _domain_to_plain(domain: Domain) -> dict[str, object]:
    options: dict[str, object]
    match domain.distribution:
        case CategoricalDistribution(choices=choices):
            options = {"choice": list(choices)}
        case IntDistribution(low=low, high=high, log=log, step=step):
            options = {"int": [low, high], "log": log or None, "step": step if step > 1 else None}
        case FloatDistribution(low=lowest, high=highest, log=log, step=width):
            options = {"float": [lowest, highest], "log": log or None, "step": width, "grid": domain.grid}
    options["when"] = {each.parent: list(each.values) for each in domain.when} or None
    return {key: value for key, value in options.items() if value is not None}
