"""The model of a job, the same from YAML and from Python, validated once.

Other packages use its values without checking them again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import (
    PrivateAttr,
    ValidationError,
)

from elastune.curves.opening import open_trainable, possible
from elastune.curves.source import CurveFile, CurveSource, UnknownSource
from elastune.errors import JobError
from elastune.job.cluster import ClusterSection, KindSection, first_of_all, kinds_in, written_kinds
from elastune.job.data import DataSection, data_in
from elastune.job.document import Complaint, InvalidJobError, describe, read_yaml
from elastune.job.job_keys import JobKeys, SlotSection
from elastune.job.machine import on_this_machine, refuse_budget
from elastune.job.measurement_files import read_text
from elastune.job.metric import default_mode
from elastune.job.outputs import (
    LoggingSection,
    MlflowSection,
    WandbSection,
    callbacks_in,
    logging_in,
    storage_in,
)
from elastune.job.profile import CheckpointSection, LatencySection, ProfileSection, profile_in
from elastune.job.sampling import SamplerSection, Tuning
from elastune.job.search import (
    AUTO,
    FIRST_AUTO,
    search_class,
    undeclared_search,
)
from elastune.job.search_defaults import Room, default_options
from elastune.job.search_options import DeclaredSearch, SearchSection, ShaSearch, StageSection
from elastune.job.section import MisfitError, Section, with_current_keys
from elastune.job.slot_budget import in_dollars
from elastune.job.trainable import (
    CurvesSection,
    open_space,
    written_in,
)
from elastune.job.warm_start import WarmStartSection, warm_start_in
from elastune.model.limits import Limits
from elastune.model.profile import Profile
from elastune.model.quantities import (
    PlannerName,
)
from elastune.model.stages import in_rounds
from elastune.planning.problem import Problem
from elastune.space.plain_samplers import GridSampler
from elastune.space.sampler import Sampler
from elastune.space.space import Space
from elastune.wording import format_usd, seen

# Left out of a job's data at their defaults, so that the journals of jobs without them do not change.
_LATER_KEYS = (
    "stop_when", "storage", "hang_after", "pickles", "keep_checkpoints", "logging", "execution", "data",
    "planner", "fidelity", "saves", "fail_fast", "warm_start", "callbacks",
)  # fmt: skip
_FIRST_MIN_ROUND_S = 60.0
# How paths that are written relative to the job file become relative to the working folder.
_PLACED = {
    "cluster": kinds_in,
    "trainable": written_in,
    "storage": storage_in,
    "logging": logging_in,
    "callbacks": callbacks_in,
    "data": data_in,
    "warm_start": warm_start_in,
}


def _search_chosen(algorithm: str, auto: object) -> dict[str, object]:
    if (auto, algorithm) == (FIRST_AUTO, "forecast"):
        return {"algorithm": "seer", "min_round": _FIRST_MIN_ROUND_S}
    return {"algorithm": algorithm}


class Job(JobKeys):
    """A search, the measurements of its training, the machines, and the limits to keep."""

    _undeclared: bool = PrivateAttr(default=False)
    _only_named: bool = PrivateAttr(default=False)
    _unmeasured: bool = PrivateAttr(default=False)

    def __init__(self, **sections: Any) -> None:
        here = on_this_machine(sections)
        sections |= here
        try:
            sections |= in_dollars(sections)
        except MisfitError as misfit:
            raise InvalidJobError((Complaint(path=misfit.path, text=str(misfit)),)) from None
        auto = AUTO if sections.get("search") is None else sections["search"]
        is_auto = isinstance(auto, str) and auto in (AUTO, FIRST_AUTO)
        chosen = undeclared_search(sections) if is_auto else None
        if is_auto:
            sections.pop("search", None)
            sections |= {} if chosen is None else {"search": _search_chosen(chosen, auto)}
        named = sections.get("search") if isinstance(sections.get("search"), str) else None
        if named is not None:
            sections["search"] = {"algorithm": named, **default_options(named, Room())}
        if sections.get("profile") is None:
            sections["profile"] = first_of_all(sections.get("cluster"), "profile")
        try:
            super().__init__(**sections)
        except ValidationError as error:
            raise InvalidJobError(describe(error, _sections(sections))) from None
        if here and self.budget is not None and not self.cluster.price_per_hour:
            wrong = refuse_budget(format_usd(self.budget))
            raise InvalidJobError((Complaint(path=wrong.path, text=str(wrong)),))
        self._undeclared = chosen is not None
        self._unmeasured = sections.get("profile") is None and not isinstance(self.trainable, CurveFile)
        if self._unmeasured:
            self._require_measured_kinds()
        self._only_named = named is not None
        if named is not None:
            object.__setattr__(self, "search", self._named_search())

    def _require_measured_kinds(self) -> None:
        """One kind cannot be measured on another."""
        text = "is missing, and the job has none for all; expected what `elastune profile` measured on it"
        missing = [str(number) for number, kind in enumerate(self.cluster.kinds) if kind.profile is None]
        paths = [("cluster", "kinds", number, "profile") for number in missing]
        if paths:
            raise InvalidJobError(tuple(Complaint(path=path, text=text) for path in paths))

    @property
    def declares_search(self) -> bool:
        """Whether the job names a search; else its limits determine it."""
        return not self._undeclared

    @property
    def is_measured(self) -> bool:
        """Whether the speed of the training is known; else a run measures it first."""
        return not self._unmeasured

    def with_profile(self, profile: Profile) -> Self:
        """The same job with these measurements."""
        measured = self.model_copy(update={"profile": profile})
        measured._unmeasured = False  # noqa: SLF001  of the same class
        return measured._with_fitting_search()  # noqa: SLF001

    def with_deadline(self, deadline_s: float) -> Self:
        """The same job with so much time."""
        late = self.model_copy(update={"deadline": deadline_s})
        return late._with_fitting_search()  # noqa: SLF001  of the same class

    def _with_fitting_search(self) -> Self:
        """If the search is only a name, with the options that fit."""
        return self.model_copy(update={"search": self._named_search()}) if self._only_named else self

    @property
    def names_search_only(self) -> bool:
        """Whether the options of the search follow from the limits and the speed."""
        return self._only_named

    def _named_search(self) -> SearchSection:
        """The search with the options that fit the limits at the measured speed."""
        limits = Limits(deadline_s=self.deadline, budget_usd=self.budget, confidence=self.confidence)
        # The price of a provider is not known yet; the budget is then left to the search itself.
        is_priced = self.cluster.price_per_hour is not None
        cluster = self.cluster if is_priced else self.cluster.model_copy(update={"price_per_hour": 0.0})
        profile = None if self._unmeasured else self.profile
        room = Room.of(limits, profile, cluster.to_terms(), self.search.gang_limits())
        grid = None
        if self.search.algorithm == "grid" and isinstance(self.space, Space):
            grid = GridSampler(self.space).size
        options = default_options(self.search.algorithm, room, grid)
        # A check may have held every trial to one slot.
        slots = {key: getattr(self.search, key) for key in ("min_slots_per_trial", "max_slots_per_trial")}
        return type(self.search).model_validate({"algorithm": self.search.algorithm, **options, **slots})

    def with_planner(self, planner: str | None) -> Self:
        """The same job with another planner; None: with its own."""
        if planner is None:
            return self
        if planner not in tuple(PlannerName):
            raise JobError(f"planner is {planner!r}; expected one of: {', '.join(PlannerName)}")
        chosen = self.model_copy(update={"planner": PlannerName(planner)})
        if wrong := chosen._planner_misfit():  # noqa: SLF001  of the same class
            raise JobError(f"planner {wrong}")
        return chosen

    def with_search(self, search: SearchSection) -> Self:
        """The same job with another search, which it then declares."""
        declared = self.model_copy(update={"search": search})
        declared._undeclared = False  # noqa: SLF001  of the same class
        return declared

    def of_kind(self, kind: KindSection) -> Self:
        """The same job with one of its kinds of nodes alone."""
        plain = self.model_copy(update={"cluster": self.cluster.of_kind(kind)})
        return plain if kind.profile is None else plain.with_profile(kind.profile)

    @classmethod
    def from_dict(cls, mapping: Mapping[str, object], source: str = "job") -> Self:
        """From plain data. `source` is its name in error messages."""
        return cls._from_data(mapping, source, Path(), lambda _: None)

    @classmethod
    def from_yaml_text(
        cls, text: str, source: str = "job", folder: str | Path = ".", name: str = "job"
    ) -> Self:
        """From YAML. Paths are relative to `folder`; `name` is for a job that does not name itself."""
        document = read_yaml(text, source)
        if document.value is None:
            raise JobError(f"{source}: the job is empty; expected at least search, profile and cluster")
        value = document.value
        data = {"name": name} | value if isinstance(value, dict) else value
        return cls._from_data(data, source, Path(folder), document.line_of)

    @classmethod
    def _from_data(
        cls, data: object, source: str, folder: Path, line_of: Callable[[tuple[str, ...]], int | None]
    ) -> Self:
        if not isinstance(data, Mapping):
            raise JobError(f"{source}: the job is {seen(data)}; expected a mapping with the keys of a job")
        sections = profile_in(folder, {str(key): value for key, value in data.items()})
        sections |= {key: place(folder, sections[key]) for key, place in _PLACED.items() if key in sections}
        if isinstance(sections.get("space"), str):
            sections["space"] = written_in(folder, sections["space"])
        try:
            return cls(**sections)
        except InvalidJobError as error:
            raise InvalidJobError(error.complaints, source, line_of) from None

    def to_dict(self) -> dict[str, object]:
        """Plain data from which `from_dict` makes the same job."""
        fields = type(self).model_fields
        silent = {key for key in _LATER_KEYS if getattr(self, key) == fields[key].default}
        silent |= {"profile"} if self._unmeasured else set()
        silent |= {"search"} if self._undeclared else set()
        left_out: dict[str, Any] = dict.fromkeys(silent, True)
        data = self.model_dump(mode="json", exclude={**left_out, "cluster": self.cluster.silent_keys})
        # Without the key, a job with two limits is one of the first version, in which it was SEER's.
        is_new = self._undeclared and self.search.algorithm == "forecast"
        return {**data, "search": AUTO} if is_new else data

    def to_problem(self) -> Problem:
        """The job as the planners need it."""
        if not isinstance(self.search, DeclaredSearch):
            name = self.search.algorithm
            raise JobError(
                f"search.algorithm is {name}: {name} decides while it runs and has no plan; for what it will "
                "take ask `elastune plan` (in Python, `elastune.quote`)"
            )
        self.require_profile()
        return Problem(
            specs=self.search.specs() if self.data is None else in_rounds(self.search.specs()),
            profile=self.profile,
            cluster=self.cluster.to_terms(),
            limits=Limits(deadline_s=self.deadline, budget_usd=self.budget, confidence=self.confidence),
            gangs=self.search.gang_limits(),
            hopping=None if self.data is None else self.data.to_hopping(),
            continuing=self.continuing,
        )

    def require_profile(self) -> None:
        """Raises `JobError` if the training has not been measured."""
        if self._unmeasured:
            raise JobError(
                "profile is missing: the speed of this training is not known; measure it with `elastune "
                "profile`, in Python with `measured(job)` of elastune.api.profiling, or write it into the "
                "job, such as profile: {iteration: 2s}"
            )

    def tuning(self) -> Tuning:
        """What the job says, else what its trainable says. Opens the trainable, so call this once."""
        if self.trainable is None:
            raise JobError(f"simulate needs `trainable`: {possible()}")
        return self._tuning_of(open_trainable(self.trainable, metric=self.metric))

    def unopened_tuning(self) -> Tuning:
        """From the job alone, for a training that is imported only where it runs. Imports a space that is a
        function."""
        if self.metric is None:
            text = "metric is missing; expected the name of what the trainable reports, such as accuracy"
            raise JobError(text)
        return self._tuning_of(UnknownSource(self.metric))

    def _tuning_of(self, source: CurveSource) -> Tuning:
        return Tuning(
            trainable=source,
            metric=source.metric,
            mode=self.mode or source.mode or default_mode(source.metric),
            space=source.space if self.space is None else open_space(self.space),
            sampler=self._sampler(),
            starts=self.start_configurations,
            warm_start=self.warm_start,
        )

    def open_trainable(self) -> CurveSource:
        return self.tuning().trainable

    def make_sampler(self, seed: int | None = None) -> Sampler:
        """With the job's seed unless another is given."""
        return self.tuning().make_sampler(self.seed if seed is None else seed)


def load_job(path: str | Path) -> Job:
    """The job in a YAML file, by default named after it."""
    stem = re.sub(r"[^\w.-]+", "-", Path(path).stem).strip(".-")[:100]
    return Job.from_yaml_text(read_text(path, "job file"), str(path), Path(path).parent, stem or "job")


def load_recorded_job(path: Path) -> Job:
    """The copy of a job in the folder of its run, perhaps with the keys of an earlier version."""
    data = read_yaml(read_text(path, "job file"), str(path)).value
    if not isinstance(data, Mapping):
        raise JobError(f"{path}: the job is {seen(data)}; expected a mapping with the keys of a job")
    return Job.from_dict(with_current_keys(data), source=str(path))


def _stages_in(data: Mapping[str, object]) -> int:
    search = data.get("search")
    stages = search.get("stages") if isinstance(search, Mapping) else None
    return len(stages) if isinstance(stages, list | tuple) else 0


def _sections(data: Mapping[str, object]) -> dict[tuple[str, ...], type[Section]]:
    """The class of each mapping of this job; every deeper mapping is a latency."""
    chosen = search_class(data.get("search")) or ShaSearch
    kinds = written_kinds(data.get("cluster"))
    places = [("cluster", "kinds", f"{number}") for number in range(len(kinds))]
    return {
        (): Job,
        ("search",): chosen,
        ("search", "sampler"): SamplerSection,
        **{("search", "stages", f"{number}"): StageSection for number in range(_stages_in(data))},
        ("profile",): ProfileSection,
        ("profile", "checkpoint"): CheckpointSection,
        ("cluster",): ClusterSection,
        ("slot",): SlotSection,
        ("logging",): LoggingSection,
        ("logging", "mlflow"): MlflowSection,
        ("logging", "wandb"): WandbSection,
        ("data",): DataSection,
        ("warm_start",): WarmStartSection,
        ("trainable",): CurvesSection,
        ("profile", "iteration"): LatencySection,
        **dict.fromkeys(places, KindSection),
        **{(*place, "profile"): ProfileSection for place in places},
    }
