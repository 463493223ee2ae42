"""What the search sections of a job have in common.

The options of an algorithm are declared by its policy: its class of options is a base of its section, before
`SearchSection`, so that the section itself is what the policy reads.

Searches whose stages are known before they run.

Searches that decide while they run, one class each. Their options are declared by their policies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from elastune.job.section import MisfitError, Section
from elastune.job.tuning import AnySampler
from elastune.model.limits import GangLimits
from elastune.model.quantities import Count
from elastune.model.stages import Spec, hyperband, successive_halving
from elastune.policies.asha import AshaOptions
from elastune.policies.elastic_baselines import EGridOptions, EHyperbandOptions
from elastune.policies.full_training import FullTrainingOptions
from elastune.policies.hyperband import BohbOptions
from elastune.policies.hypersched import HyperSchedOptions
from elastune.policies.pbt import PbtOptions
from elastune.policies.rungs import HalvingOptions
from elastune.policies.seer import SeerOptions


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


class AshaSearch(AshaOptions, HalvingSection):
    """Asynchronous Successive Halving: a trial among the best 1/eta so far goes on at once."""

    algorithm: Literal["asha"] = Field(default="asha")

    @property
    def needs_a_limit(self) -> bool:
        return self.trials is None


class HyperSchedSearch(HyperSchedOptions, HalvingSection):
    """ASHA that knows its deadline."""

    algorithm: Literal["hypersched"] = Field(default="hypersched")

    @property
    def needs_a_limit(self) -> bool:
        return self.trials is None


class SeerSearch(SeerOptions, SearchSection):
    """Brackets of different parallelism, in rounds by the clock."""

    algorithm: Literal["seer"] = Field(default="seer")


class EHyperbandSearch(EHyperbandOptions, SearchSection):
    """Hyperband's brackets side by side, as long as the deadline and the budget allow."""

    algorithm: Literal["e-hyperband"] = Field(default="e-hyperband")


class EGridSearch(EGridOptions, SearchSection):
    """Half of the time for many trials on few slots each, half for the best of them on many."""

    algorithm: Literal["e-grid"] = Field(default="e-grid")


class BohbSearch(BohbOptions, HalvingSection):
    """Hyperband, one bracket after the other, with configurations from a model of what was seen."""

    default_sampler = "tpe"

    algorithm: Literal["bohb"] = Field(default="bohb")

    @property
    def needs_a_limit(self) -> bool:
        return self.repeat


class PbtSearch(PbtOptions, SearchSection):
    """A population in which the worst copy the best, with changes, every `interval` iterations."""

    algorithm: Literal["pbt"] = Field(default="pbt")


class RandomSearch(FullTrainingOptions, SearchSection):
    """So many configurations, each trained to the end; as many as the limits allow if `trials` is left out.

    Without `max_iterations`, one alone: SEER's baseline.
    """

    algorithm: Literal["random"] = Field(default="random")

    @property
    def needs_a_limit(self) -> bool:
        return self.max_iterations is None or self.trials is None


class GridSearch(FullTrainingOptions, SearchSection):
    """Every point of the grid, each trained to the end."""

    default_sampler = "grid"

    algorithm: Literal["grid"] = Field(default="grid")

    @property
    def needs_a_limit(self) -> bool:
        return self.max_iterations is None
