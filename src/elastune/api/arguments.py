"""The arguments of the API: a job in any form, and whole numbers within bounds.

`elastune.plan` imports this, so it loads nothing of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from elastune.errors import JobError
from elastune.job.job import Job, load_job
from elastune.wording import seen

AnyJob = Job | Mapping[str, object] | str | Path


def as_job(job: AnyJob) -> Job:
    if isinstance(job, Job):
        return job
    if isinstance(job, Mapping):
        return Job.from_dict(job)
    if not isinstance(job, str | Path):
        raise JobError(f"job is {seen(job)}; expected a Job, a mapping with its keys, or a job file's path")
    return load_job(job)


def whole(name: str, value: int, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise JobError(f"{name} is {value!r}; expected a whole number from {least} to {most:,}")
    return value
