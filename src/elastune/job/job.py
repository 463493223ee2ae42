"""The one model of a job, the same from YAML and from Python, validated once.

What comes out is sound: the rooms below take its values without checking them again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from elastune.errors import JobError
from elastune.job.cluster import ClusterSection
from elastune.job.complaints import InvalidJobError, describe
from elastune.job.document import read_yaml
from elastune.job.latencies import LatencySection
from elastune.job.profile import AnyProfile, ProfileSection
from elastune.job.quantities import PositiveDuration, PositiveMoney, Probability
from elastune.job.search import SEARCHES, AnySearch, ShaSearch
from elastune.job.section import MisfitError, Section, seen
from elastune.job.text_files import read_text
from elastune.planning.problem import Limits, Problem


class Job(Section):
    """A search, what was measured about its training, the machines, and the promise to keep."""

    search: AnySearch
    deadline: PositiveDuration | None = None
    budget: PositiveMoney | None = None
    confidence: Probability = 0.95
    profile: AnyProfile
    cluster: ClusterSection = Field(description="the machines and their price")

    def __init__(self, **sections: Any) -> None:
        try:
            super().__init__(**sections)
        except ValidationError as error:
            raise InvalidJobError(describe(error, _sections(sections))) from None

    @classmethod
    def from_dict(cls, mapping: Mapping[str, object], source: str = "job") -> Self:
        """From plain data. `source` is the name by which errors speak of it."""
        return cls._from_data(mapping, source, Path(), lambda _: None)

    @classmethod
    def from_yaml_text(cls, text: str, source: str = "job", folder: str | Path = ".") -> Self:
        """From YAML. The path of a profile is relative to `folder`."""
        document = read_yaml(text, source)
        if document.value is None:
            raise JobError(f"{source}: the job is empty; expected at least search, profile and cluster")
        return cls._from_data(document.value, source, Path(folder), document.line_of)

    @classmethod
    def _from_data(
        cls, data: object, source: str, folder: Path, line_of: Callable[[tuple[str, ...]], int | None]
    ) -> Self:
        if not isinstance(data, Mapping):
            raise JobError(f"{source}: the job is {seen(data)}; expected a mapping with the keys of a job")
        sections = {str(key): value for key, value in data.items()}
        profile = sections.get("profile")
        if isinstance(profile, str | Path):
            sections["profile"] = folder / profile
        try:
            return cls(**sections)
        except InvalidJobError as error:
            raise InvalidJobError(error.complaints, source, line_of) from None

    @model_validator(mode="after")
    def _smallest_gang_fits_the_cluster(self) -> Self:
        slots = self.cluster.most_nodes * self.cluster.slots_per_node
        if self.search.min_slots_per_trial > slots:
            raise MisfitError(
                ("search", "min_slots_per_trial"),
                f"is {self.search.min_slots_per_trial}, but the cluster has at most {slots} slots "
                f"({self.cluster.most_nodes} nodes of {self.cluster.slots_per_node})",
            )
        return self

    def to_dict(self) -> dict[str, object]:
        """Plain data from which `from_dict` makes the same job."""
        return self.model_dump(mode="json")

    def to_problem(self) -> Problem:
        """The job as the planners see it."""
        return Problem(
            specs=self.search.specs(),
            profile=self.profile,
            cluster=self.cluster.to_terms(),
            limits=Limits(deadline_s=self.deadline, budget_usd=self.budget, confidence=self.confidence),
            gangs=self.search.gang_limits(),
        )


def load_job(path: str | Path) -> Job:
    """The job in a YAML file."""
    return Job.from_yaml_text(read_text(path, "job file"), str(path), Path(path).parent)


def _sections(data: Mapping[str, object]) -> dict[tuple[str, ...], type[Section]]:
    """The class behind each mapping of this job; every deeper mapping is a latency."""
    search = data.get("search")
    algorithm = search.get("algorithm") if isinstance(search, Mapping) else None
    chosen = SEARCHES.get(algorithm, ShaSearch) if isinstance(algorithm, str) else ShaSearch
    return {
        (): Job,
        ("search",): chosen,
        ("profile",): ProfileSection,
        ("cluster",): ClusterSection,
        ("profile", "iteration"): LatencySection,
    }
