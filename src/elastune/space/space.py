"""The space of configurations: for each hyperparameter a range, a choice or a constant.

Ranges and choices are Optuna's distributions, so any Optuna sampler can work on the space. `parsing` reads a
space as it is written; the samplers draw the values.

Samplers work on flat configurations (`elastune.model.configuration`): a hyperparameter in a group has a
dotted name, and a choice that is a list or a mapping is drawn as its JSON text, because Optuna's choices are
plain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any, ClassVar, Self

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from elastune.errors import JobError
from elastune.model.configuration import (
    Configuration,
    FlatConfiguration,
    Scalar,
    Value,
    copied,
    is_compound,
    scalar,
)

Path = tuple[str, ...]
Distribution = FloatDistribution | IntDistribution | CategoricalDistribution
Draw = Callable[[str, Distribution], Scalar]
"""Gives the hyperparameter of this name a value of this distribution."""


class SpaceError(JobError):
    """A space is wrong. `path` leads to the place inside it; the message is the path and then `text`."""

    root: ClassVar[str] = "space"

    def __init__(self, path: Path, text: str) -> None:
        super().__init__(f"{'.'.join((self.root, *path))} {text}")
        self.path = path
        self.text = text

    @property
    def mistakes(self) -> tuple[SpaceError, ...]:
        return (self,)

    def inside(self, *path: str) -> Self:
        """The same mistake, found below `path`."""
        return type(self)((*path, *self.path), self.text)

    def __reduce__(self) -> tuple[type[SpaceError], tuple[object, ...]]:
        return type(self), (self.path, self.text)


class SeveralSpaceError(SpaceError):
    """Several mistakes; the message lists them, and the path is that of the first."""

    def __init__(self, found: Sequence[SpaceError]) -> None:
        super().__init__(found[0].path, found[0].text)
        self.root = found[0].root  # type: ignore[misc]  # as of the mistakes
        self.args = ("\n".join([f"{self.root}: {len(found)} problems", *(f"  {each}" for each in found)]),)
        self._found = tuple(found)

    @property
    def mistakes(self) -> tuple[SpaceError, ...]:
        return self._found

    def __reduce__(self) -> tuple[type[SpaceError], tuple[object, ...]]:
        return type(self), (self._found,)


def raise_all(mistakes: Iterable[SpaceError]) -> None:
    """Raise what was found: nothing, the only one, or all in one error."""
    found = [each for mistake in mistakes for each in mistake.mistakes]
    if found:
        raise found[0] if len(found) == 1 else SeveralSpaceError(found)


@dataclass(frozen=True, slots=True)
class Condition:
    """Met if the hyperparameter `parent` is active and has one of these values."""

    parent: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """One hyperparameter, which is active when all conditions of `when` are met. `grid` is the number of
    points that a grid takes from a continuous range, `compound` the lists and mappings among its choices by
    the text as which they are drawn."""

    distribution: Distribution
    grid: int | None = None
    when: tuple[Condition, ...] = ()
    compound: Mapping[str, Value] = field(default_factory=dict)

    def value(self, drawn: Scalar) -> Value:
        """What a training gets for a drawn value."""
        found = self.compound.get(drawn) if isinstance(drawn, str) else None
        return drawn if found is None else copied(found)

    def is_active(self, values: FlatConfiguration) -> bool:
        """The values of its parents must be settled."""
        return all(each.parent in values and values[each.parent] in each.values for each in self.when)


@dataclass(frozen=True, slots=True)
class Space:
    """Hyperparameters in the order in which they were written; a scalar is a constant. `groups` has the path
    of each hyperparameter that is in a group."""

    entries: Mapping[str, Domain | Scalar]
    groups: Mapping[str, Path] = field(default_factory=dict)
    is_flat: bool = field(init=False, repr=False)
    """Whether a configuration is as it was drawn, without groups and choices that are lists or mappings."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_flat", not self.groups and not self._compound)

    @property
    def _compound(self) -> dict[str, Domain]:
        return {name: domain for name, domain in self.domains.items() if domain.compound}

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

    def path(self, name: str) -> Path:
        """Where a hyperparameter is written."""
        return self.groups.get(name, (name,))

    def configure(self, draw: Draw) -> Configuration:
        """A configuration, in the written order, with values from `draw`; what is not active is absent."""
        values = self.constants
        for name, domain in self.in_order.items():
            if domain.is_active(values):
                values[name] = draw(name, domain.distribution)
        return self.nested({name: values[name] for name in self.entries if name in values})

    def nested(self, drawn: FlatConfiguration) -> Configuration:
        """What a training gets for drawn values."""
        if self.is_flat:
            return drawn
        values: dict[str, Value] = dict(drawn)
        values |= {name: each.value(drawn[name]) for name, each in self._compound.items() if name in drawn}
        return _tree({self.path(name): value for name, value in values.items()})

    def flat(self, configuration: Configuration) -> FlatConfiguration:
        """The drawn values of a configuration. A name that is not of the space stays in it."""
        found: dict[str, Scalar] = {}
        inner = {path[:depth] for path in self.groups.values() for depth in range(1, len(path))}

        def add(path: Path, value: Value) -> None:
            if isinstance(value, Mapping) and path in inner:
                for name, each in value.items():
                    add((*path, name), each)
            else:
                found[".".join(path)] = scalar(value)

        if self.is_flat and not any(is_compound(value) for value in configuration.values()):
            return configuration  # type: ignore[return-value]  # checked in the line above
        for name, value in configuration.items():
            add((name,), value)
        return found

    def to_plain(self) -> dict[str, object]:
        """Plain data from which `parse_space` makes the same space."""
        plain: dict[Path, object] = {}
        for name, entry in self.entries.items():
            plain[self.path(name)] = self._domain_to_plain(entry) if isinstance(entry, Domain) else entry
        return _tree(plain)

    def _domain_to_plain(self, domain: Domain) -> dict[str, object]:
        plain = _distribution_to_plain(domain)
        if domain.when:
            plain["when"] = {each.parent: self._values_of(each) for each in domain.when}
        return plain

    def _values_of(self, condition: Condition) -> list[Value]:
        parent = self.entries[condition.parent]
        return [parent.value(each) if isinstance(parent, Domain) else each for each in condition.values]


def _tree(leaves: Mapping[Path, Any]) -> dict[str, Any]:
    """Nested mappings from values by path."""
    root: dict[str, Any] = {}
    for path, value in leaves.items():
        group = root
        for name in path[:-1]:
            group = group.setdefault(name, {})
        group[path[-1]] = value
    return root


def _distribution_to_plain(domain: Domain) -> dict[str, object]:
    options: dict[str, object]
    match domain.distribution:
        case CategoricalDistribution(choices=choices):
            options = {"choice": [domain.value(each) for each in choices]}
        case IntDistribution(low=low, high=high, log=log, step=step):
            options = {"int": [low, high], "log": log or None, "step": step if step > 1 else None}
        case FloatDistribution(low=lowest, high=highest, log=log, step=width):
            options = {"float": [lowest, highest], "log": log or None, "step": width, "grid": domain.grid}
    return {key: value for key, value in options.items() if value is not None}
