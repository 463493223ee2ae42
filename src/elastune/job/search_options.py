"""The search sections of a job, one class per algorithm.

A policy declares its own options: its class of options is a base of its section, before `SearchSection`, so
the policy reads the section itself. Only a `DeclaredSearch` has stages that are known before it runs.
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

# The first bracket of Hyperband starts about max_iterations / min_iterations trials.
MOST_TRIALS = 1_000_000


class SearchSection(Section):
    """The options of every algorithm."""

    default_sampler: ClassVar[Literal["random", "grid", "tpe"]] = "random"
    """Unless the job names a sampler, or the trainable is a table."""
    bounded_by: ClassVar[tuple[str, ...]] = ()
    """Options without which the search has no end of its own."""
    algorithm: str
    sampler: AnySampler | None = None
    min_slots_per_trial: Count = 1
    max_slots_per_trial: Count | None = None

    @model_validator(mode="after")
    def _slots_leave_a_choice(self) -> Self:
        if self.max_slots_per_trial is not None and self.max_slots_per_trial < self.min_slots_per_trial:
            least = f"min_slots_per_trial ({self.min_slots_per_trial})"
            raise MisfitError(("max_slots_per_trial",), f"is {self.max_slots_per_trial}, less than {least}")
        return self

    def gang_limits(self) -> GangLimits:
        return GangLimits(min_slots=self.min_slots_per_trial, max_slots=self.max_slots_per_trial)

    @property
    def needs_a_limit(self) -> bool:
        """Whether only a limit or the sampler ends it."""
        return any(getattr(self, option) is None for option in self.bounded_by)


class HalvingSection(HalvingOptions, SearchSection):
    """The options of Successive Halving and its variants."""

    @model_validator(mode="after")
    def _iterations_leave_work(self) -> Self:
        if self.max_iterations < self.min_iterations:
            text = f"is {self.max_iterations}, less than min_iterations ({self.min_iterations})"
            raise MisfitError(("max_iterations",), text)
        return self


class DeclaredSearch(HalvingSection, ABC):
    """A search that can be planned and priced, because its stages are known before it runs."""

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
            text = (
                f"is more than {MOST_TRIALS:,} times min_iterations, and as many trials would start at once"
            )
            raise MisfitError(("max_iterations",), text)
        return self

    def specs(self) -> tuple[Spec, ...]:
        return hyperband(max_iterations=self.max_iterations, eta=self.eta, min_iterations=self.min_iterations)


class AshaSearch(AshaOptions, HalvingSection):
    """Asynchronous Successive Halving: a trial among the best 1/eta so far goes on at once."""

    bounded_by = ("trials",)
    algorithm: Literal["asha"] = Field(default="asha")


class HyperSchedSearch(HyperSchedOptions, HalvingSection):
    """ASHA that knows its deadline."""

    bounded_by = ("trials",)
    algorithm: Literal["hypersched"] = Field(default="hypersched")


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
    """`trials` configurations, or as many as the limits allow, each trained to the end.

    Without `max_iterations`, a single one: SEER's baseline.
    """

    bounded_by = ("max_iterations", "trials")
    algorithm: Literal["random"] = Field(default="random")


class GridSearch(FullTrainingOptions, SearchSection):
    """Every point of the grid, each trained to the end."""

    default_sampler = "grid"
    bounded_by = ("max_iterations",)
    algorithm: Literal["grid"] = Field(default="grid")
