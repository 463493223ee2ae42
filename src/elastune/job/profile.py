"""The profile section, written out or the path of a file of measurements; both become one `Profile`.

A latency is written as a bare duration, or as a mapping that names a distribution.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    GetPydanticSchema,
    PlainSerializer,
    PlainValidator,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)

from elastune.errors import JobError
from elastune.job.measurement_files import parse_speeds, read_measurements
from elastune.job.section import MisfitError, Section
from elastune.model.distributions import Constant, Distribution, Empirical, LogNormal, Normal
from elastune.model.profile import Profile, Speedup
from elastune.model.quantities import (
    MOST_SECONDS,
    Duration,
    ExpectedError,
    PositiveSizeGb,
    SizeGb,
    Spread,
    duration,
    factor,
    one_of,
    whole,
)
from elastune.model.speeds import ConfigSpeed
from elastune.wording import either, seen

Plain = float | dict[str, object]

_KEYS = {
    "constant": ("value",),
    "normal": ("mean", "sd"),
    "lognormal": ("mean", "sd"),
    "empirical": ("values",),
}
# Beyond this the parameters of the log-normal overflow.
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
        may_be_constant = self.distribution == "constant" or "distribution" not in self.model_fields_set
        if may_be_constant and given == {"mean"}:
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
    """The latency as written in a job, durations in seconds."""
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


def _parse_latency(written: object, as_section: ValidatorFunctionWrapHandler) -> Distribution:
    if isinstance(written, Constant | Normal | LogNormal | Empirical):
        written = latency_to_plain(written)
    if written is None or isinstance(written, bool | int | float | str):
        return Constant(duration(written))
    section: LatencySection = as_section(written)
    return section.to_distribution()


Latency = Annotated[
    Distribution,
    GetPydanticSchema(lambda _, handler: handler.generate_schema(LatencySection)),
    WrapValidator(_parse_latency),
    PlainSerializer(latency_to_plain),
]


def parse_speedup(written: object) -> Speedup:
    """From a mapping of slots to speed-up; the keys may be text, as in JSON."""
    if isinstance(written, Speedup):
        written = dict(written.points)
    if not isinstance(written, Mapping) or not written:
        raise ExpectedError("a mapping of slots to speed-up, such as {1: 1.0, 2: 1.89, 4: 3.63}")
    points: dict[int, float] = {}
    for key, value in written.items():
        try:
            slots = whole(key, least=1, most=1_000_000)
        except ExpectedError as error:
            raise MisfitError((str(key),), f"is not a number of slots; expected {error}") from None
        if slots in points:
            raise MisfitError((str(key),), "is given twice")
        try:
            points[slots] = factor(value)
        except ExpectedError as error:
            raise MisfitError((str(key),), f"is {seen(value)}; expected {error}") from None
    if abs(points.get(1, 1.0) - 1.0) > 1e-9:
        raise MisfitError(("1",), f"is {points[1]:g}; the speed-up at 1 slot is 1.0 by definition")
    return Speedup.of({**points, 1: 1.0})


class CheckpointSection(Section):
    """A checkpoint on its way to storage or back."""

    size: SizeGb = Field(description="the size of one checkpoint, such as 500MB")
    per_second: PositiveSizeGb = Field(description="what storage takes per second, such as 250MB")

    def to_seconds(self) -> float:
        seconds = self.size / self.per_second
        if seconds > MOST_SECONDS:
            raise MisfitError(("size",), f"takes {seconds:.3g} s at this speed; check the units")
        return seconds


def _parse_checkpoint(written: object, as_section: ValidatorFunctionWrapHandler) -> float:
    if isinstance(written, str | int | float):
        try:
            return duration(written)
        except ExpectedError:
            expected = "{size: 500MB, per_second: 250MB}, or the time that this takes, such as 2s"
            raise ExpectedError(expected) from None
    section: CheckpointSection = as_section(written)
    return section.to_seconds()


Transfer = Annotated[
    float,
    GetPydanticSchema(lambda _, handler: handler.generate_schema(CheckpointSection)),
    WrapValidator(_parse_checkpoint),
]


Speeds = Annotated[
    tuple[ConfigSpeed, ...],
    PlainValidator(parse_speeds),
    PlainSerializer(lambda speeds: [each.to_dict() for each in speeds]),
]


class ProfileSection(Section):
    iteration: Latency = Field(description="the time of an iteration at 1 slot, such as {mean: 60s, sd: 2s}")
    spread: Spread = 0.0
    speedup: Annotated[
        Speedup, PlainValidator(parse_speedup), PlainSerializer(lambda speedup: dict(speedup.points))
    ] = Speedup.of({})
    startup: Latency = Constant(0.0)
    save: Latency = Constant(0.0)
    sync: Latency = Constant(0.0)
    checkpoint: Transfer = 0.0
    speeds: Speeds = ()

    @field_validator("iteration")
    @classmethod
    def _takes_time(cls, iteration: Distribution) -> Distribution:
        typical = iteration.location if isinstance(iteration, Normal) else iteration.mean
        if typical <= 0:
            raise MisfitError((), "is 0 on average; an iteration takes time")
        return iteration

    def to_profile(self) -> Profile:
        return Profile(
            iteration=self.iteration,
            speedup=self.speedup,
            spread=self.spread,
            startup=self.startup,
            save=self.save,
            sync=self.sync,
            transfer_s=self.checkpoint,
            speeds=self.speeds,
        )


def _profile_to_plain(profile: Profile) -> dict[str, object]:
    return {
        "iteration": latency_to_plain(profile.iteration),
        "spread": profile.spread,
        "speedup": dict(profile.speedup.points),
        "startup": latency_to_plain(profile.startup),
        "save": latency_to_plain(profile.save),
        "sync": latency_to_plain(profile.sync),
        "checkpoint": profile.transfer_s,
        **({"speeds": [each.to_dict() for each in profile.speeds]} if profile.speeds else {}),
    }


def _parse(written: object, as_section: ValidatorFunctionWrapHandler) -> Profile:
    if isinstance(written, str | Path):
        try:
            return read_measurements(written)
        except JobError as error:
            raise MisfitError((), f"names a file that cannot be used: {error}") from None
    if isinstance(written, Profile):
        written = _profile_to_plain(written)
    section: ProfileSection = as_section(written)
    return section.to_profile()


def profile_in(folder: Path, section: Any) -> Any:
    """A section that may have the path of a profile, as seen from the working folder."""
    if isinstance(section, Mapping) and isinstance(section.get("profile"), str | Path):
        return {**section, "profile": folder / section["profile"]}
    return section


AnyProfile = Annotated[
    Profile,
    GetPydanticSchema(lambda _, handler: handler.generate_schema(ProfileSection)),
    WrapValidator(_parse),
    PlainSerializer(_profile_to_plain),
    Field(description="what was measured, or the path of a file of measurements"),
]
