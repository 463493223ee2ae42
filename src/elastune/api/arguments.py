"""The arguments of the API: a job in any form, and whole numbers within bounds.

`elastune.plan` imports this, so it loads nothing of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from elastune.errors import JobError
from elastune.job.job import Job, load_job
from elastune.wording import either, seen

AnyJob = Job | Mapping[str, object] | str | Path


def as_job(job: AnyJob) -> Job:
    if isinstance(job, Job):
        return job
    if isinstance(job, Mapping):
        return Job.from_dict(job)
    if not isinstance(job, str | Path):
        raise JobError(f"job is {seen(job)}; expected a Job, a mapping with its keys, or a job file's path")
    return load_job(job)


def whole_job(job: AnyJob | Callable[..., object], sections: Mapping[str, Any]) -> AnyJob:
    """A job as it is, or of a trainable and the other keys of a job."""
    if not sections and not (callable(job) and not isinstance(job, Job)):
        return job
    if isinstance(job, Job | Mapping | str | Path):
        keys = ", ".join(sections)
        raise JobError(f"{keys}: the first argument is a job; keys of a job are for a trainable")
    name = getattr(job, "__name__", "")
    named = {"name": name} if name.isidentifier() else {}
    return Job(trainable=job, **{**named, **sections})


def planned_by(job: Job, planner: str | None, policies: Sequence[str | None]) -> Job:
    """The job with the planner; None: with its own. One of the policies must follow a plan."""
    if planner is not None and not {None, "rubberband"} & set(policies):
        names = either([str(policy) for policy in policies])
        raise JobError(f"planner is {planner}, but {names} follows no plan; leave out planner or policy")
    return job.with_planner(planner)


def whole(name: str, value: int, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise JobError(f"{name} is {value!r}; expected a whole number from {least} to {most:,}")
    return value
