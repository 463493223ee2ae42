"""Searches that decide while they run, one class each. What they do with their options is the policy's."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from elastune.job.quantities import (
    Count,
    Eta,
    ExpectedError,
    Iterations,
    PositiveDuration,
    number,
    probability,
)
from elastune.job.search_section import Flag, HalvingSection, SearchSection
from elastune.job.section import one_of

Elimination = Annotated[Literal["global", "bracket"], BeforeValidator(one_of("global", "bracket"))]


def _entrance(value: object) -> str | float:
    share = number(value)
    if share is not None and 0 < share <= 1:
        return share
    if isinstance(value, str) and value in {"deadline", "always"}:
        return value
    raise ExpectedError("deadline, always, or the share of the time in which trials may enter, such as 0.5")


def _quantile(value: object) -> float:
    share = probability(value)
    if share > 0.5:
        raise ExpectedError("a number above 0 and up to 0.5, such as 0.25")
    return share


def _cooldown(value: object) -> int:
    amount = number(value)
    if amount is None or amount != amount // 1 or not 0 <= amount <= 1_000_000:
        raise ExpectedError("a number of iterations, 0 or more")
    return int(amount)


class AshaSearch(HalvingSection):
    """Asynchronous Successive Halving: whoever is among the best 1/eta so far goes on at once.

    Without `trials` it starts new ones for as long as the limits or the sampler allow.
    """

    algorithm: Literal["asha"] = Field(default="asha")
    trials: Count | None = None

    @property
    def needs_a_limit(self) -> bool:
        return self.trials is None


class HyperSchedSearch(HalvingSection):
    """ASHA that knows its deadline. Each of its ideas can be switched off; see `policies/hypersched.py`.

    Without `max_iterations` nobody is stopped for having trained enough.
    """

    algorithm: Literal["hypersched"] = Field(default="hypersched")
    max_iterations: Iterations = 1_000_000_000
    eta: Eta = 4
    trials: Count | None = None
    speculative: Flag = True
    entrance: Annotated[str | float, BeforeValidator(_entrance)] = "deadline"
    reallocate: Flag = True
    profiled: Flag = True
    cooldown: Annotated[int, BeforeValidator(_cooldown)] = 2

    @property
    def needs_a_limit(self) -> bool:
        return self.trials is None


class SeerSearch(SearchSection):
    """Brackets of different parallelism, in rounds by the clock. `min_round` is the paper's t_min."""

    algorithm: Literal["seer"] = Field(default="seer")
    eta: Eta = 4
    nu: Eta = 2
    min_round: PositiveDuration = 60.0
    spend_leftover: Flag = True
    elimination: Elimination = "global"
    max_iterations: Iterations | None = None


class EHyperbandSearch(SearchSection):
    """Hyperband's brackets side by side, as long as the deadline and the budget allow."""

    algorithm: Literal["e-hyperband"] = Field(default="e-hyperband")
    eta: Eta = 4
    min_round: PositiveDuration = 60.0
    max_iterations: Iterations | None = None


class EGridSearch(SearchSection):
    """Half of the time for many trials on few slots each, half for the best of them on many."""

    algorithm: Literal["e-grid"] = Field(default="e-grid")
    max_iterations: Iterations | None = None


class BohbSearch(HalvingSection):
    """Hyperband, one bracket after the other, with configurations from a model of what was seen."""

    default_sampler = "tpe"

    algorithm: Literal["bohb"] = Field(default="bohb")
    repeat: Flag = False

    @property
    def needs_a_limit(self) -> bool:
        return self.repeat


class PbtSearch(SearchSection):
    """A population in which the worst copy the best, with changes, every `interval` iterations."""

    algorithm: Literal["pbt"] = Field(default="pbt")
    trials: Count = 8
    interval: Iterations = 5
    quantile: Annotated[float, BeforeValidator(_quantile)] = 0.25
    max_iterations: Iterations = Field(description="the iterations that every trial trains, such as 50")


class RandomSearch(SearchSection):
    """So many configurations, each trained to the end; as many as the limits allow if `trials` is left out.

    Without `max_iterations`, one alone: SEER's baseline.
    """

    algorithm: Literal["random"] = Field(default="random")
    trials: Count | None = None
    max_iterations: Iterations | None = None

    @property
    def needs_a_limit(self) -> bool:
        return self.max_iterations is None or self.trials is None


class GridSearch(SearchSection):
    """Every point of the grid, each trained to the end."""

    default_sampler = "grid"

    algorithm: Literal["grid"] = Field(default="grid")
    trials: Count | None = None
    max_iterations: Iterations | None = None

    @property
    def needs_a_limit(self) -> bool:
        return self.max_iterations is None
