"""The space of configurations: for each hyperparameter a range, a choice or a constant.

Ranges and choices are Optuna's distributions, so that any Optuna sampler can work on the same space. How a
space is written is `parsing`; which values are drawn from it is left to the samplers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from elastune.errors import JobError

Scalar = str | int | float | bool | None
Distribution = FloatDistribution | IntDistribution | CategoricalDistribution


class SpaceError(JobError):
    """A space is wrong. `path` leads to the place inside it; `text` goes on after the path."""

    def __init__(self, path: tuple[str, ...], text: str) -> None:
        super().__init__(f"{'.'.join(('space', *path))} {text}")
        self.path = path
        self.text = text

    def __reduce__(self) -> tuple[type[SpaceError], tuple[tuple[str, ...], str]]:
        return SpaceError, (self.path, self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """The values of one hyperparameter. `grid` is how many of them a grid takes from a continuous range."""

    distribution: Distribution
    grid: int | None = None


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
        """What an Optuna study asks for; constants are no part of it."""
        return {name: domain.distribution for name, domain in self.domains.items()}

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
    return {key: value for key, value in options.items() if value is not None}
