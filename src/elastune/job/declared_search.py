"""Searches whose stages are known before they run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, Self

from pydantic import Field, model_validator

from elastune.job.search_section import HalvingSection
from elastune.job.section import MisfitError
from elastune.quantities import Count
from elastune.spec import Spec, hyperband, successive_halving

# The first bracket of Hyperband starts about max_iterations / min_iterations trials.
MOST_TRIALS = 1_000_000


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
