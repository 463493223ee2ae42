"""What the search sections of a job have in common."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from elastune.job.quantities import Count, Eta, ExpectedError, Iterations
from elastune.job.sampler import AnySampler
from elastune.job.section import MisfitError, Section
from elastune.planning.problem import GangLimits


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ExpectedError("true or false")
    return value


Flag = Annotated[bool, BeforeValidator(_flag)]


class SearchSection(Section):
    """What holds for every algorithm."""

    default_sampler: ClassVar[Literal["random", "grid", "tpe"]] = "random"
    """Where its configurations come from unless the job says, or the trainable is a table."""

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

    @property
    def needs_a_limit(self) -> bool:
        """Whether it goes on for ever unless a limit or the sampler ends it."""
        return False


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
