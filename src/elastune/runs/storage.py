"""Where the checkpoints of a run lie."""

from __future__ import annotations

from elastune.checkpoints import Store
from elastune.errors import JobError
from elastune.job import Job
from elastune.journal import RunFolder


def open_store(job: Job, folder: RunFolder) -> Store:
    """In the run's folder; or in a folder of the same name where the job wants it."""
    if job.storage is None:
        return Store.open(folder.checkpoints)
    return Store.open(f"{job.storage.rstrip('/')}/{folder.path.name}")


def refuse_unshared(job: Job, folder: RunFolder) -> None:
    """Nodes on other machines do not have the run's folder."""
    if job.storage is None:
        raise JobError(
            "storage is missing: the nodes are on other machines, where the checkpoints cannot lie in the "
            f"run's folder {folder.path}; expected storage: s3://bucket/prefix, or a folder that all "
            "machines share"
        )
