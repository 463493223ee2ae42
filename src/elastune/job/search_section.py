"""What the search sections of a job have in common.

The options of an algorithm are declared by its policy: its class of options is a base of its section, before
`SearchSection`, so that the section itself is what the policy reads.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from elastune.job.sampler import AnySampler
from elastune.job.section import MisfitError, Section
from elastune.planning.problem import GangLimits
from elastune.policies.rungs import HalvingOptions
from elastune.quantities import Count


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


class HalvingSection(HalvingOptions, SearchSection):
    """What Successive Halving and its relatives share."""

    @model_validator(mode="after")
    def _iterations_leave_work(self) -> Self:
        if self.max_iterations < self.min_iterations:
            raise MisfitError(
                ("max_iterations",),
                f"is {self.max_iterations}, less than min_iterations ({self.min_iterations})",
            )
        return self
