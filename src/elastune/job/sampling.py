"""Where the configurations of a job come from: the sampler and the start configurations.

`sampler: tpe`, or `{kind: table, replace: true}`, names the sampler; `start_configurations: [{lr: 0.1}]` are
the first ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, model_validator

from elastune.curves.source import CurveSource
from elastune.errors import JobError
from elastune.job.section import MisfitError, Section
from elastune.job.warm_start import WarmStartSection
from elastune.model.configuration import Configuration
from elastune.model.metric import Mode
from elastune.model.quantities import Count, ExpectedError, Flag, one_of
from elastune.space.domain_parsing import parse_value
from elastune.space.given_configurations import StartingSampler, TableSampler
from elastune.space.model_sampler import ModelSampler
from elastune.space.plain_samplers import GridSampler, QmcSampler, RandomSampler
from elastune.space.sampler import AnySpace, Sampler, completed
from elastune.space.space import SpaceError
from elastune.space.study_sampler import OwnSampler, StudySampler
from elastune.space.table_model_sampler import TableModelSampler
from elastune.space.values import quantile
from elastune.space.warm_start import MappedTrials, map_trials
from elastune.wording import seen

Kind = Literal["random", "grid", "table", "qmc", "tpe", "gp"]
SAMPLERS: tuple[Kind, ...] = get_args(Kind)
MODELS: tuple[Kind, ...] = ("tpe", "gp")
"""The samplers that learn."""
SEQUENCES = ("sobol", "halton")
# The samplers that have each option.
_KINDS_WITH = {"replace": ("table", *MODELS), "startup": MODELS, "sequence": ("qmc",)}


class SamplerSection(Section):
    """With `replace` a table has no end: once all rows are drawn, they are drawn again. `startup` is how many
    trials a sampler that learns waits for; `sequence` is that of qmc."""

    kind: Annotated[Kind, BeforeValidator(one_of(*SAMPLERS))] = Field(
        description="random, grid, table, qmc, tpe or gp"
    )
    replace: Flag = False
    startup: Count = 10
    sequence: Annotated[Literal["sobol", "halton"], BeforeValidator(one_of(*SEQUENCES))] = "sobol"

    @model_validator(mode="after")
    def _options_go_with_the_kind(self) -> Self:
        for option, kinds in _KINDS_WITH.items():
            if option in self._changed() and self.kind not in kinds:
                raise MisfitError((option,), f"goes with {' and '.join(kinds)}, not with {self.kind}")
        return self

    @property
    def is_finite(self) -> bool:
        return self.kind in ("grid", "table") and not self.replace

    def to_plain(self) -> str | dict[str, object]:
        """The word, or a mapping if an option is not at its default."""
        changed = self._changed()
        return {"kind": self.kind, **changed} if changed else self.kind

    def _changed(self) -> dict[str, object]:
        fields, given = type(self).model_fields, {option: getattr(self, option) for option in _KINDS_WITH}
        return {option: value for option, value in given.items() if value != fields[option].default}


def parse_configuration(written: object) -> Configuration:
    """Values by name, as in `start_configurations`; whether they are of the space is checked later."""
    if not isinstance(written, Mapping) or not written:
        raise JobError(f"the configuration is {seen(written)}; expected values by name, such as {{lr: 0.1}}")
    try:
        return _start("", written)
    except MisfitError as error:
        raise JobError(f"the configuration's {'.'.join(error.path[1:])} {error}") from None


def _starts(written: object) -> tuple[Configuration, ...]:
    if not isinstance(written, list | tuple):
        raise ExpectedError("a list of configurations, such as [{lr: 0.1, momentum: 0.9}, {lr: 0.01}]")
    for number, each in enumerate(written):
        if not isinstance(each, Mapping) or not each:
            text = f"is {seen(each)}; expected values by name, such as {{lr: 0.1}}"
            raise MisfitError((str(number),), text)
    return tuple(_start(str(number), each) for number, each in enumerate(written))


def _start(number: str, written: Mapping[object, object]) -> Configuration:
    try:
        return {str(name): parse_value((str(name),), value) for name, value in written.items()}
    except SpaceError as error:
        raise MisfitError((number, *error.path), error.text) from None


AnySampler = Annotated[
    SamplerSection,
    BeforeValidator(lambda written: {"kind": written} if isinstance(written, str) else written),
    PlainSerializer(SamplerSection.to_plain),
]
StartConfigurations = Annotated[
    tuple[Mapping[str, Any], ...],  # a `Configuration`; pydantic cannot resolve recursive types
    PlainValidator(_starts),
    PlainSerializer(lambda starts: [dict(each) for each in starts]),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """`space` is the job's, else the trainable's own; a table of configurations needs none.

    A simulation gets its metrics from `trainable`; in a real run that is an `UnknownSource`.
    """

    trainable: CurveSource
    metric: str
    mode: Mode
    space: AnySpace | None
    sampler: SamplerSection
    starts: tuple[Configuration, ...] = ()
    warm_start: WarmStartSection | None = None

    def make_sampler(self, seed: int, *, learns: bool = True) -> Sampler:
        """With `learns` false, samplers that learn draw at random: for simulations of a policy."""
        kind = self.sampler.kind
        if kind == "table" or (kind in MODELS and self.space is None and self.trainable.table is not None):
            sampler = self._table_sampler(seed, kind if learns else "table")
        else:
            sampler = self._space_sampler(seed, kind if learns or kind not in MODELS else "random")
        starts = self.starts
        if self.warm_start is not None and (old := self.old_trials()) is not None:
            starts = (*starts, *old.best(self.warm_start.first, self.mode))
            if isinstance(sampler, ModelSampler):
                sampler.learn([(trial.config, trial.values) for trial in old.whole])
        return StartingSampler(sampler, starts) if starts else sampler

    def old_trials(self) -> MappedTrials | None:
        """Those of the warm start, in terms of this space. None: there are none, or they were not read."""
        if self.warm_start is None or self.warm_start.old_trials is None or self.space is None:
            return None
        return map_trials(self.space, self.warm_start.old_trials)

    def describe_warm_start(self) -> str | None:
        """What the search takes over from an earlier one; None: nothing."""
        section, old = self.warm_start, self.old_trials()
        if section is None or old is None:
            return None
        learns = self.sampler.kind in MODELS
        return old.describe(section.run, learns=learns, first=section.first)

    def check(self, given: Configuration) -> None:
        """Raises `SpaceError` if these values, with others that are missing, are no configuration."""
        if self.space is None:
            self.make_sampler(0).complete(0, given)
        else:
            completed(self.space, given, lambda _, distribution: quantile(distribution)(0.0))

    def _table_sampler(self, seed: int, kind: Kind) -> Sampler:
        if self.trainable.table is None:
            raise JobError("search.sampler is table, but the trainable is no table of configurations")
        if kind in ("tpe", "gp"):
            return TableModelSampler(
                self.trainable.table,
                seed=seed,
                mode=self.mode,
                model=kind,
                startup=self.sampler.startup,
                replace=self.sampler.replace,
            )
        return TableSampler(self.trainable.table, seed=seed, replace=self.sampler.replace)

    def _space_sampler(self, seed: int, kind: Kind) -> Sampler:
        space = self.space
        if space is None:
            expected = "the hyperparameters to search, such as {lr: {float: [1e-4, 1.0], log: true}}"
            raise JobError(f"space is missing; expected {expected}")
        if kind != "random" and isinstance(own := getattr(space, "sampler", None), OwnSampler):
            return StudySampler(space, own, seed=seed, mode=self.mode)
        match kind:
            case "grid":
                return GridSampler(space, seed=seed)
            case "qmc":
                return QmcSampler(space, seed=seed, sequence=self.sampler.sequence)
            case "tpe" | "gp":
                startup = self.sampler.startup
                return ModelSampler(space, seed=seed, mode=self.mode, model=kind, startup=startup)
            case _:
                return RandomSampler(space, seed=seed)
