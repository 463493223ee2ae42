"""How a latency is written: a bare duration, or a mapping that names a distribution."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    BeforeValidator,
    GetPydanticSchema,
    PlainSerializer,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from elastune.job.section import MisfitError, Section
from elastune.profiles import Constant, Distribution, Empirical, LogNormal, Normal
from elastune.quantities import Duration, ExpectedError, duration, one_of
from elastune.wording import either

Plain = float | dict[str, object]

_KEYS = {
    "constant": ("value",),
    "normal": ("mean", "sd"),
    "lognormal": ("mean", "sd"),
    "empirical": ("values",),
}
# Beyond this the parameters of the log-normal overflow long before the plan means anything.
_MOST_VARIATION = 1000.0


class LatencySection(Section):
    """The mapping form. Without `distribution` it is normal, and constant when `sd` is 0 or left out."""

    distribution: Annotated[
        Literal["constant", "normal", "lognormal", "empirical"], BeforeValidator(one_of(*_KEYS))
    ] = "normal"
    value: Duration | None = None
    mean: Duration | None = None
    sd: Duration | None = None
    values: tuple[Duration, ...] | None = None

    @model_validator(mode="after")
    def _has_the_keys_of_its_distribution(self) -> Self:
        given = {key for key in ("value", "mean", "sd", "values") if getattr(self, key) is not None}
        needed = set(_KEYS[self.distribution])
        if self.distribution == "constant" and given == {"mean"}:
            return self
        if "distribution" not in self.model_fields_set and given == {"mean"}:
            return self
        for key in sorted(given - needed):
            fitting = [name for name, keys in _KEYS.items() if key in keys]
            raise MisfitError((key,), f"goes with {either(fitting)}, not with {self.distribution}")
        for key in sorted(needed - given):
            raise MisfitError((key,), f"is missing; a {self.distribution} latency needs it")
        return self

    @model_validator(mode="after")
    def _has_sound_values(self) -> Self:
        if self.values is not None and not self.values:
            raise MisfitError(("values",), "is an empty list; expected at least one measured duration")
        if self.distribution == "lognormal" and self.mean is not None:
            if self.mean == 0:
                raise MisfitError(("mean",), "is 0; the mean of a lognormal latency is positive")
            if (self.sd or 0.0) > _MOST_VARIATION * self.mean:
                raise MisfitError(("sd",), f"is more than {_MOST_VARIATION:,.0f} times the mean")
        return self

    def to_distribution(self) -> Distribution:
        mean, sd = self.mean or 0.0, self.sd or 0.0
        if self.distribution == "empirical":
            return Empirical(self.values or ())
        if self.distribution == "constant" or sd == 0.0:
            return Constant(mean if self.value is None else self.value)
        return LogNormal(mean, sd) if self.distribution == "lognormal" else Normal(mean, sd)


def latency_to_plain(latency: Distribution) -> Plain:
    """The form in which the latency is written in a job, durations in seconds."""
    match latency:
        case Constant(value=value):
            return value
        case Normal(location=mean, scale=sd):
            return {"distribution": "normal", "mean": mean, "sd": sd}
        case LogNormal(mean=mean, sd=sd):
            return {"distribution": "lognormal", "mean": mean, "sd": sd}
        case Empirical(values=values):
            return {"distribution": "empirical", "values": list(values)}
        case _:
            raise ExpectedError("a duration, or one of Constant, Normal, LogNormal and Empirical")


def _parse(written: object, as_section: ValidatorFunctionWrapHandler) -> Distribution:
    if isinstance(written, Constant | Normal | LogNormal | Empirical):
        written = latency_to_plain(written)
    if written is None or isinstance(written, bool | int | float | str):
        return Constant(duration(written))
    section: LatencySection = as_section(written)
    return section.to_distribution()


Latency = Annotated[
    Distribution,
    GetPydanticSchema(lambda _, handler: handler.generate_schema(LatencySection)),
    WrapValidator(_parse),
    PlainSerializer(latency_to_plain),
]
