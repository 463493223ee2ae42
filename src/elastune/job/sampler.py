"""Where configurations come from: `sampler: tpe`, or with an option: `{kind: table, replace: true}`.

Also which configurations come first: `start_configurations: [{lr: 0.1}]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self, get_args

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, model_validator

from elastune.job.section import MisfitError, Section
from elastune.quantities import Count, ExpectedError, Flag, one_of
from elastune.space import Configuration, SpaceError, parse_scalar
from elastune.wording import seen

Kind = Literal["random", "grid", "table", "qmc", "tpe", "gp"]
SAMPLERS: tuple[Kind, ...] = get_args(Kind)
SEQUENCES = ("sobol", "halton")
# The samplers that each option is for.
_GOES_WITH = {"replace": ("table",), "startup": ("tpe", "gp"), "sequence": ("qmc",)}


class SamplerSection(Section):
    """`replace` lets a table give the same configuration to several trials, without end.

    `startup` is how many trials a sampler that learns waits for; `sequence` is that of qmc.
    """

    kind: Annotated[Kind, BeforeValidator(one_of(*SAMPLERS))] = Field(
        description="random, grid, table, qmc, tpe or gp"
    )
    replace: Flag = False
    startup: Count = 10
    sequence: Annotated[Literal["sobol", "halton"], BeforeValidator(one_of(*SEQUENCES))] = "sobol"

    @model_validator(mode="after")
    def _options_go_with_the_kind(self) -> Self:
        for option, kinds in _GOES_WITH.items():
            if option in self._changed() and self.kind not in kinds:
                raise MisfitError((option,), f"goes with {' and '.join(kinds)}, not with {self.kind}")
        return self

    @property
    def is_finite(self) -> bool:
        return self.kind in ("grid", "table") and not self.replace

    def to_plain(self) -> str | dict[str, object]:
        """The word, or a mapping where an option is not as usual."""
        changed = self._changed()
        return {"kind": self.kind, **changed} if changed else self.kind

    def _changed(self) -> dict[str, object]:
        usual = {option: type(self).model_fields[option].default for option in _GOES_WITH}
        return {option: getattr(self, option) for option in usual if getattr(self, option) != usual[option]}


def _starts(written: object) -> tuple[Configuration, ...]:
    expected = "a list of configurations, such as [{lr: 0.1, momentum: 0.9}, {lr: 0.01}]"
    if not isinstance(written, list | tuple):
        raise ExpectedError(expected)
    for number, each in enumerate(written):
        if not isinstance(each, Mapping) or not each:
            raise MisfitError(
                (str(number),), f"is {seen(each)}; expected values by name, such as {{lr: 0.1}}"
            )
    return tuple(_start(str(number), each) for number, each in enumerate(written))


def _start(number: str, written: Mapping[object, object]) -> Configuration:
    try:
        return {
            str(name): None if value is None else parse_scalar((str(name),), value)
            for name, value in written.items()
        }
    except SpaceError as error:
        raise MisfitError((number, *error.path), error.text) from None


AnySampler = Annotated[
    SamplerSection,
    BeforeValidator(lambda written: {"kind": written} if isinstance(written, str) else written),
    PlainSerializer(SamplerSection.to_plain),
]
StartConfigurations = Annotated[
    tuple[Configuration, ...],
    PlainValidator(_starts),
    PlainSerializer(lambda starts: [dict(each) for each in starts]),
]
