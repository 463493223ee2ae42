"""What the user wants: one validated job, from YAML or from Python."""

from elastune.job.job import Job, load_job

__all__ = ["Job", "load_job"]
