"""The unit of allocation."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from elastune.job.section import MisfitError, Section
from elastune.quantities import Count


class SlotSection(Section):
    """So many GPUs or so many CPUs: a slot is counted in one of them."""

    gpus: Count | None = None
    cpus: Count | None = None

    @model_validator(mode="after")
    def _is_counted_in_one_unit(self) -> Self:
        if (self.gpus is None) == (self.cpus is None):
            raise MisfitError((), "is counted in GPUs or in CPUs; expected {gpus: 1} or {cpus: 2}")
        return self
