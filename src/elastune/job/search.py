"""The searches a job can declare, one class each.

A new algorithm is one more class here and one more name in `Search`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from elastune.job.quantities import Count, Eta, Iterations
from elastune.job.section import MisfitError, Section
from elastune.planning.problem import GangLimits
from elastune.spec import Spec, hyperband, successive_halving

# The first bracket of Hyperband starts about max_iterations / min_iterations trials.
MOST_TRIALS = 1_000_000


class SearchSection(Section, ABC):
    """What holds for every algorithm."""

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

    @abstractmethod
    def specs(self) -> tuple[Spec, ...]:
        """The declared stages; several specs run side by side."""

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


class ShaSearch(HalvingSection):
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


class HyperbandSearch(HalvingSection):
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


Search = ShaSearch | HyperbandSearch
AnySearch = Annotated[Search, Field(discriminator="algorithm", description="what to search, and how")]
SEARCHES: dict[str, type[SearchSection]] = {"sha": ShaSearch, "hyperband": HyperbandSearch}
