"""Where configurations come from: `sampler: grid`, or with an option: `{kind: table, replace: true}`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from elastune.job.quantities import ExpectedError
from elastune.job.section import MisfitError, Section, one_of

SAMPLERS = ("random", "grid", "table")


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ExpectedError("true or false")
    return value


class SamplerSection(Section):
    """`replace` lets a table give the same configuration to several trials, without end."""

    kind: Annotated[Literal["random", "grid", "table"], BeforeValidator(one_of(*SAMPLERS))] = Field(
        description="random, grid or table"
    )
    replace: Annotated[bool, BeforeValidator(_flag)] = False

    @model_validator(mode="after")
    def _replaces_rows_only(self) -> Self:
        if self.replace and self.kind != "table":
            raise MisfitError(("replace",), f"goes with table, not with {self.kind}")
        return self

    @property
    def is_finite(self) -> bool:
        return self.kind != "random" and not self.replace


def _to_plain(sampler: SamplerSection) -> str | dict[str, object]:
    return {"kind": sampler.kind, "replace": True} if sampler.replace else sampler.kind


AnySampler = Annotated[
    SamplerSection,
    BeforeValidator(lambda written: {"kind": written} if isinstance(written, str) else written),
    PlainSerializer(_to_plain),
]
