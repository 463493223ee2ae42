"""The searches a job can name, one class each.

A new algorithm is one more class here, in `AnySearch` and in `SEARCHES`. An algorithm of somebody else is
known by the entry point under which it is installed; its options are its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from elastune.job.quantities import Count, Eta, Iterations
from elastune.job.sampler import AnySampler
from elastune.job.section import MisfitError, Section
from elastune.planning.problem import GangLimits
from elastune.spec import Spec, hyperband, successive_halving

# The first bracket of Hyperband starts about max_iterations / min_iterations trials.
MOST_TRIALS = 1_000_000


PLUGINS = "elastune.policies"


class SearchSection(Section):
    """What holds for every algorithm."""

    algorithm: str
    sampler: AnySampler | None = None
    min_slots_per_trial: Count = 1
    max_slots_per_trial: Count | None = None

    @model_validator(mode="after")
    def _slots_leave_a_choice(self) -> Self:
        if self.max_slots_per_trial is not None and self.max_slots_per_trial < self.min_slots_per_trial:
            raise MisfitError(
                ("max_slots_per_trial",),
                f"is {self.max_slots_per_trial}, less than min_slots_per_trial ({self.min_slots_per_trial})",
            )
        return self

    def gang_limits(self) -> GangLimits:
        return GangLimits(min_slots=self.min_slots_per_trial, max_slots=self.max_slots_per_trial)


class HalvingSection(SearchSection):
    """What Successive Halving and its relatives share."""

    min_iterations: Iterations = 1
    max_iterations: Iterations = Field(
        description="the iterations that the best trial trains in all, such as 50"
    )
    eta: Eta = 3

    @model_validator(mode="after")
    def _iterations_leave_work(self) -> Self:
        if self.max_iterations < self.min_iterations:
            raise MisfitError(
                ("max_iterations",),
                f"is {self.max_iterations}, less than min_iterations ({self.min_iterations})",
            )
        return self


class DeclaredSearch(HalvingSection, ABC):
    """A search whose stages are known before it runs, so that it can be planned and priced."""

    @abstractmethod
    def specs(self) -> tuple[Spec, ...]:
        """The declared stages; several specs run side by side."""


class ShaSearch(DeclaredSearch):
    """Successive Halving: `trials` configurations, the best 1/eta of them after every stage."""

    algorithm: Literal["sha"] = Field(default="sha")
    trials: Count = Field(description="the number of configurations to start, such as 32")

    def specs(self) -> tuple[Spec, ...]:
        return (
            successive_halving(
                trials=self.trials,
                min_iterations=self.min_iterations,
                max_iterations=self.max_iterations,
                eta=self.eta,
            ),
        )


class HyperbandSearch(DeclaredSearch):
    """Hyperband: several brackets of Successive Halving side by side."""

    algorithm: Literal["hyperband"] = Field(default="hyperband")

    @model_validator(mode="after")
    def _first_bracket_is_finite(self) -> Self:
        if self.max_iterations > MOST_TRIALS * self.min_iterations:
            raise MisfitError(
                ("max_iterations",),
                f"is more than {MOST_TRIALS:,} times min_iterations, and so many trials would start at once",
            )
        return self

    def specs(self) -> tuple[Spec, ...]:
        return hyperband(max_iterations=self.max_iterations, eta=self.eta, min_iterations=self.min_iterations)


class AshaSearch(HalvingSection):
    """Asynchronous Successive Halving: whoever is among the best 1/eta so far goes on at once.

    Without `trials` it starts new ones for as long as the limits or the sampler allow.
    """

    algorithm: Literal["asha"] = Field(default="asha")
    trials: Count | None = None


class PluginSearch(SearchSection):
    """An algorithm that another package brings, with whatever options it has."""

    model_config = ConfigDict(extra="allow")

    algorithm: str

    @property
    def options(self) -> Mapping[str, object]:
        """The keys that are the algorithm's own, for it to check."""
        return dict(self.model_extra or {})


SEARCHES: dict[str, type[SearchSection]] = {
    "sha": ShaSearch,
    "hyperband": HyperbandSearch,
    "asha": AshaSearch,
}


def known_algorithms() -> tuple[str, ...]:
    """Ours first, then those of installed packages."""
    plugins = sorted({plugin.name for plugin in entry_points(group=PLUGINS)} - SEARCHES.keys())
    return (*SEARCHES, *plugins)


def search_class(search: object) -> type[SearchSection] | None:
    """The class for what was written; None if it names no algorithm that is known."""
    if isinstance(search, SearchSection):
        return type(search)
    if not isinstance(search, Mapping):
        return ShaSearch
    algorithm = search.get("algorithm")
    if not isinstance(algorithm, str):
        return None
    return SEARCHES.get(algorithm) or (PluginSearch if algorithm in known_algorithms() else None)


def _tag(search: object) -> str | None:
    found = search_class(search)
    return found.__name__ if found else None


AnySearch = Annotated[
    Annotated[ShaSearch, Tag("ShaSearch")]
    | Annotated[HyperbandSearch, Tag("HyperbandSearch")]
    | Annotated[AshaSearch, Tag("AshaSearch")]
    | Annotated[PluginSearch, Tag("PluginSearch")],
    Discriminator(_tag),
    Field(description="what to search, and how"),
]
