"""Where the checkpoints of a run lie."""

from __future__ import annotations

from elastune.checkpoints import Store
from elastune.job import Job
from elastune.journal import RunFolder


def open_store(job: Job, folder: RunFolder) -> Store:
    """In the run's folder; or in a folder of the same name where the job wants it."""
    if job.storage is None:
        return Store.open(folder.checkpoints)
    return Store.open(f"{job.storage.rstrip('/')}/{folder.path.name}")
