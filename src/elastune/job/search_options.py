"""The search sections of a job, one class per algorithm.

A policy declares its own options: its class of options is a base of its section, before `SearchSection`, so
the policy reads the section itself. Only a `DeclaredSearch` has stages that are known before it runs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, Literal, Protocol, Self, runtime_checkable

from pydantic import BeforeValidator, Field, model_validator

from elastune.job.sampling import MODELS, AnySampler
from elastune.job.section import MisfitError, Section
from elastune.model.limits import GangLimits
from elastune.model.quantities import Count, ExpectedError, Iterations
from elastune.model.stages import Spec, Stage, hyperband, successive_halving
from elastune.policies.asha import AshaOptions
from elastune.policies.elastic_baselines import EGridOptions, EHyperbandOptions
from elastune.policies.forecast.policy import ForecastOptions
from elastune.policies.full_training import FullTrainingOptions
from elastune.policies.hyperband import BohbOptions
from elastune.policies.hypersched import HyperSchedOptions
from elastune.policies.pbt import PbtOptions
from elastune.policies.rungs import HalvingOptions
from elastune.policies.seer import SeerOptions

# The first bracket of Hyperband starts about max_iterations / min_iterations trials.
MOST_TRIALS = 1_000_000
# Stages or rungs of one search; an eta close to 1 makes many.
MOST_STAGES = 1_000
_STAGES = "[{trials: 32, iterations: 1}, {trials: 10, iterations: 3}]"


class SearchSection(Section):
    """The options of every algorithm."""

    default_sampler: ClassVar[Literal["random", "grid", "tpe"]] = "random"
    """Unless the job names a sampler, or the trainable is a table."""
    bounded_by: ClassVar[tuple[str, ...]] = ()
    """Options without which the search has no end of its own."""
    by_clock: ClassVar[bool] = False
    """Trials are compared at times, not after iterations."""
    forks: ClassVar[bool] = False
    """Trials continue from the models of others."""
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

    @model_validator(mode="after")
    def _stages_can_be_counted(self) -> Self:
        growth = math.log(self.max_iterations / self.min_iterations)
        if growth > MOST_STAGES * math.log(self.eta):
            least = math.exp(growth / MOST_STAGES)
            text = (
                f"is {self.eta}, which makes more than {MOST_STAGES:,} stages up to {self.max_iterations:,} "
                f"iterations; expected at least {math.ceil(least * 1000) / 1000}"
            )
            raise MisfitError(("eta",), text)
        return self


class DeclaredSearch(SearchSection, ABC):
    """A search that can be planned and priced, because its stages are known before it runs."""

    @abstractmethod
    def specs(self) -> tuple[Spec, ...]:
        """The declared stages; several specs run side by side."""


@runtime_checkable
class ExperimentSpec(Protocol):
    """The stages as code (RubberBand Figure 6): the trials of a stage, and the new iterations of each."""

    def num_stages(self) -> int: ...

    def get_stage(self, stage_index: int, /) -> tuple[int, int]: ...


class StageSection(Section):
    """One stage of `stages`."""

    trials: Count = Field(description="the trials of the stage, such as 32")
    iterations: Iterations = Field(description="the new iterations of each trial in the stage, such as 3")


def _written_stages(written: object) -> object:
    """Stages given as code, or as `Stage`s, become plain data."""
    if isinstance(written, ExperimentSpec):
        pairs = [written.get_stage(index) for index in range(written.num_stages())]
        try:
            return [{"trials": trials, "iterations": iterations} for trials, iterations in pairs]
        except (TypeError, ValueError):
            raise ExpectedError("a get_stage(index) that returns (trials, iterations)") from None
    if isinstance(written, list | tuple):
        return [
            {"trials": each.trials, "iterations": each.iterations} if isinstance(each, Stage) else each
            for each in written
        ]
    raise ExpectedError(f"a list of stages, such as {_STAGES}")


class StagesSearch(DeclaredSearch):
    """Any stages: the best trials of each go on to the next."""

    algorithm: Literal["stages"] = Field(default="stages")
    stages: Annotated[tuple[StageSection, ...], BeforeValidator(_written_stages)] = Field(
        description=f"the trials of each stage and their new iterations, such as {_STAGES}"
    )

    @model_validator(mode="after")
    def _trials_never_grow(self) -> Self:
        if not 1 <= len(self.stages) <= MOST_STAGES:
            text = f"has {len(self.stages)} stages; expected 1 to {MOST_STAGES:,}"
            raise MisfitError(("stages",), text)
        for number, (before, after) in enumerate(zip(self.stages, self.stages[1:], strict=False), 1):
            if after.trials > before.trials:
                text = (
                    f"is {after.trials}, more than the {before.trials} of the stage before; expected at most "
                    "as many, because only the best of them go on"
                )
                raise MisfitError(("stages", str(number), "trials"), text)
        return self

    # Under the names of the other searches, for a policy that has another search on the same job.

    @property
    def trials(self) -> int:
        return self.stages[0].trials

    @property
    def min_iterations(self) -> int:
        return self.stages[0].iterations

    @property
    def max_iterations(self) -> int:
        return sum(stage.iterations for stage in self.stages)

    def specs(self) -> tuple[Spec, ...]:
        stages = tuple(Stage(trials=each.trials, iterations=each.iterations) for each in self.stages)
        return (Spec(name=self.algorithm, stages=stages),)


class ShaSearch(HalvingSection, DeclaredSearch):
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


class HyperbandSearch(HalvingSection, DeclaredSearch):
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


class ForecastSearch(ForecastOptions, SearchSection):
    """Many trials a little, then the best of them, as far as the time and the money go."""

    bounded_by = ("max_iterations", "trials")
    algorithm: Literal["forecast"] = Field(default="forecast")

    @model_validator(mode="after")
    def _iterations_leave_work(self) -> Self:
        if self.max_iterations is not None and self.max_iterations < self.min_iterations:
            text = f"is {self.max_iterations}, less than min_iterations ({self.min_iterations})"
            raise MisfitError(("max_iterations",), text)
        return self


class SeerSearch(SeerOptions, SearchSection):
    """Brackets of different parallelism, in rounds by the clock."""

    by_clock = True
    algorithm: Literal["seer"] = Field(default="seer")

    @property
    def learns(self) -> bool:
        return self.sampler is not None and self.sampler.kind in MODELS


class EHyperbandSearch(EHyperbandOptions, SearchSection):
    """Hyperband's brackets side by side, as long as the deadline and the budget allow."""

    by_clock = True
    algorithm: Literal["e-hyperband"] = Field(default="e-hyperband")


class EGridSearch(EGridOptions, SearchSection):
    """Half of the time for many trials on few slots each, half for the best of them on many."""

    by_clock = True
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

    forks = True
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
