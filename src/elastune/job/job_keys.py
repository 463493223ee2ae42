"""The keys of a job, and how they have to fit together."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticKnownError

from elastune.curves.opening import open_trainable
from elastune.curves.source import CurveFile
from elastune.errors import JobError
from elastune.job.cluster import ClusterSection
from elastune.job.data import DataSection
from elastune.job.metric import AnyTarget, misfit
from elastune.job.outputs import (
    Callbacks,
    Logging,
    Storage,
)
from elastune.job.profile import AnyProfile
from elastune.job.sampling import MODELS, SamplerSection, StartConfigurations
from elastune.job.search import (
    DECLARED,
    AnySearch,
    continuing_misfit,
)
from elastune.job.search_options import DeclaredSearch, RandomSearch
from elastune.job.section import MisfitError, Section, SeveralMisfitsError
from elastune.job.trainable import (
    AnySpace,
    AnyTrainable,
    is_code,
)
from elastune.job.warm_start import WarmStart
from elastune.model.continuing import Continuing
from elastune.model.distributions import Constant
from elastune.model.metric import Mode, Target
from elastune.model.profile import Profile, Speedup
from elastune.model.quantities import (
    Count,
    Flag,
    PlannerName,
    PositiveDuration,
    PositiveMoney,
    Probability,
    Retries,
    Seed,
    Word,
    one_of,
    run_name,
)
from elastune.space.given_configurations import check_starts
from elastune.space.space import Space, SpaceError
from elastune.wording import either


class SlotSection(Section):
    """The unit of allocation: so many GPUs, so many CPUs, or GPUs with CPUs beside them."""

    gpus: Count | None = None
    cpus: Count | None = None

    @model_validator(mode="after")
    def _has_something(self) -> Self:
        if self.gpus is None and self.cpus is None:
            raise MisfitError(
                (), "has neither GPUs nor CPUs; expected {gpus: 1}, {cpus: 2} or {gpus: 1, cpus: 8}"
            )
        return self


Limit = Annotated[Literal["deadline", "budget"], BeforeValidator(one_of("deadline", "budget"))]
Kept = Annotated[Literal["best", "least", "all"], BeforeValidator(one_of("best", "least", "all"))]
_ONE_CPU = SlotSection(cpus=1)
# A placeholder until the training is measured; nothing is planned with it.
_UNMEASURED = Profile(iteration=Constant(1.0), speedup=Speedup.of({}))


class JobKeys(Section):
    """What a job file may say. Each value is checked by its type, and here how they fit together."""

    name: Annotated[str, BeforeValidator(run_name)] = "job"
    trainable: AnyTrainable | None = None
    fidelity: Word | None = None
    saves: Flag | None = None
    space: AnySpace | None = None
    stop_when: AnyTarget | None = None
    metric: Word | None = Field(default=None, validate_default=True)
    mode: Annotated[Mode, BeforeValidator(one_of("max", "min"))] | None = None
    search: AnySearch
    planner: Annotated[PlannerName, BeforeValidator(one_of(*PlannerName))] = PlannerName.EXACT
    deadline: PositiveDuration | None = None
    budget: PositiveMoney | None = None
    may_exceed: Limit | None = None
    confidence: Probability = 0.95
    profile: AnyProfile = Field(default=None, validate_default=True)
    cluster: ClusterSection = Field(description="the machines and their price")
    slot: SlotSection = _ONE_CPU
    seed: Seed = 0
    retries: Retries = 0
    fail_fast: Flag = False
    checkpoint_every: PositiveDuration | None = None
    keep_checkpoints: Kept = "best"
    storage: Storage | None = None
    pickles: Flag = False
    hang_after: PositiveDuration | None = None
    logging: Logging | None = None
    callbacks: Callbacks = ()
    execution: Annotated[Literal["gang", "hopper"], BeforeValidator(one_of("gang", "hopper"))] = "gang"
    data: DataSection | None = None
    start_configurations: StartConfigurations = ()
    warm_start: WarmStart | None = None

    def _planner_misfit(self) -> str | None:
        """The error that follows the name of the key."""
        if isinstance(self.search, DeclaredSearch):
            return None
        return (
            f"is {self.planner}, but {self.search.algorithm} decides while it runs and has no plan; leave it "
            f"out, or declare the stages (search.algorithm: {either(DECLARED)})"
        )

    @field_validator("metric", mode="after")
    @classmethod
    def _stop_when_names_the_metric(cls, written: str | None, info: ValidationInfo) -> str | None:
        target = info.data.get("stop_when")
        return target.metric if written is None and isinstance(target, Target) else written

    @field_validator("profile", mode="before")
    @classmethod
    def _take_profile_of_curves(cls, written: object, info: ValidationInfo) -> object:
        if written is not None:
            return written
        curves = info.data.get("trainable")
        if is_code(curves):
            return _UNMEASURED
        if not isinstance(curves, CurveFile):
            raise PydanticKnownError("missing")
        try:
            recorded = open_trainable(curves, metric=info.data.get("metric")).profile()
        except JobError as error:
            raise MisfitError((), f"is missing, and cannot be taken from the curves: {error}") from None
        if recorded is None:
            raise MisfitError((), f"is missing; {curves.path} has no time or seconds to take it from")
        return recorded

    @model_validator(mode="after")
    def _smallest_gang_fits_the_cluster(self) -> Self:
        clusters = [self.cluster.of_kind(kind) for kind in self.cluster.kinds] or [self.cluster]
        for cluster in clusters:
            slots = cluster.most_nodes * cluster.slots_per_node
            if self.search.min_slots_per_trial > slots:
                size = f"{slots} slots ({cluster.most_nodes} nodes of {cluster.slots_per_node})"
                text = f"is {self.search.min_slots_per_trial}, but the cluster has at most {size}"
                raise MisfitError(("search", "min_slots_per_trial"), text)
        return self

    @model_validator(mode="after")
    def _planner_has_stages_to_plan(self) -> Self:
        wrong = None if self.planner is PlannerName.EXACT else self._planner_misfit()
        if wrong:
            raise MisfitError(("planner",), wrong)
        return self

    @model_validator(mode="after")
    def _models_hop_over_data(self) -> Self:
        if self.execution == "hopper" and self.data is None:
            text = "is missing, and execution is hopper; expected data: {path: ..., partitions: 8}"
            raise MisfitError(("data",), text)
        if self.execution == "gang" and self.data is not None:
            text = "is for models that hop; add execution: hopper, or load the data in the trainable"
            raise MisfitError(("data",), text)
        return self

    @property
    def continuing(self) -> Continuing:
        """How a trial goes on after a pause."""
        if self.fidelity is not None:
            return Continuing.CALLING
        return Continuing.REPEATING if self.saves is False else Continuing.CHECKPOINT

    @model_validator(mode="after")
    def _fidelity_is_an_argument_of_its_own(self) -> Self:
        if self.fidelity is None:
            return self
        if isinstance(self.space, Space) and self.fidelity in self.space.entries:
            text = (
                f"is {self.fidelity}, which is also in the space; expected an argument that is not searched"
            )
            raise MisfitError(("fidelity",), text)
        if self.saves:
            text = (
                "is true, but a function with a fidelity trains from the beginning at each call; leave it out"
            )
            raise MisfitError(("saves",), text)
        return self

    @model_validator(mode="after")
    def _search_suits_what_cannot_be_saved(self) -> Self:
        wrong = continuing_misfit(self.continuing, self.search, hops=self.data is not None)
        if wrong is not None:
            raise MisfitError(*wrong)
        return self

    @model_validator(mode="after")
    def _limit_to_exceed_is_given(self) -> Self:
        if self.may_exceed and getattr(self, self.may_exceed) is None:
            raise MisfitError(("may_exceed",), f"is {self.may_exceed}, but the job has no {self.may_exceed}")
        return self

    @model_validator(mode="after")
    def _target_is_of_the_metric(self) -> Self:
        wrong = None if self.stop_when is None else misfit(self.stop_when, self.metric, self.mode)
        if wrong:
            raise MisfitError(("stop_when",), wrong)
        return self

    @model_validator(mode="after")
    def _configurations_come_from_one_place(self) -> Self:
        if self._sampler().kind != "table":
            return self
        if self.trainable is not None and not isinstance(self.trainable, CurveFile):
            text = "is table, but the trainable is no table of configurations"
            raise MisfitError(("search", "sampler"), text)
        if self.space is not None:
            text = "is not used: the configurations are the rows of the table; leave it out, or choose "
            raise MisfitError(("space",), f"{text}search.sampler: random or grid")
        return self

    @model_validator(mode="after")
    def _start_configurations_are_of_the_space(self) -> Self:
        starts, trials = self.start_configurations, getattr(self.search, "trials", None)
        if trials is not None and len(starts) > trials:
            key = "trials" if "trials" in type(self.search).model_fields else "stages.0.trials"
            text = f"are {len(starts)}, but search.{key} is {trials}; leave some out"
            raise MisfitError(("start_configurations",), text)
        if isinstance(self.space, Space):
            try:
                check_starts(self.space, starts)
            except SpaceError as error:
                places = ((("start_configurations", *each.path), each.text) for each in error.mistakes)
                raise SeveralMisfitsError(MisfitError(*place) for place in places) from None
        return self

    @model_validator(mode="after")
    def _search_comes_to_an_end(self) -> Self:
        missing = self.missing_end
        if missing is not None and not self._may_end_by_itself:
            raise missing
        return self

    @property
    def missing_end(self) -> MisfitError | None:
        """The option without which nothing ends the search."""
        limits = {"deadline": self.deadline, "budget": self.budget}
        hard = [name for name, limit in limits.items() if limit is not None and name != self.may_exceed]
        if not self.search.needs_a_limit or hard or self._sampler().is_finite:
            return None
        unset = [option for option in self.search.bounded_by if getattr(self.search, option) is None]
        left_out = unset[0] if unset else "trials"
        also = f" (the {self.may_exceed} may be exceeded)" if self.may_exceed else ""
        expected = f"{left_out}, a deadline, a budget, or search.sampler: grid or table"
        text = f"is left out, and nothing else ends the search{also}; expected {expected}"
        return MisfitError(("search", left_out), text)

    @property
    def _may_end_by_itself(self) -> bool:
        """So many trials, each one call of a function: whether it is one, a run sees when it opens it."""
        search = self.search
        return isinstance(search, RandomSearch) and search.trials is not None and is_code(self.trainable)

    def _sampler(self) -> SamplerSection:
        usual = self.search.default_sampler
        learns = usual in MODELS and self.space is None
        is_table = isinstance(self.trainable, CurveFile) and not learns
        return self.search.sampler or SamplerSection(kind="table" if is_table else usual)
