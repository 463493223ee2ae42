"""Searches that decide while they run, one class each. Their options are declared by their policies."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from elastune.job.search_section import HalvingSection, SearchSection
from elastune.policies.asha import AshaOptions
from elastune.policies.bohb import BohbOptions
from elastune.policies.e_grid import EGridOptions
from elastune.policies.e_hyperband import EHyperbandOptions
from elastune.policies.full_training import FullTrainingOptions
from elastune.policies.hypersched import HyperSchedOptions
from elastune.policies.pbt import PbtOptions
from elastune.policies.seer import SeerOptions


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
