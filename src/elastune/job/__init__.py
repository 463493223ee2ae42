"""The job: one validated model of what the user wants, from YAML or from Python."""

from elastune.job.job import Job, load_job

__all__ = ["Job", "load_job"]
