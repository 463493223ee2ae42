"""Elastune: hyperparameter tuning that finishes on time and on budget, on a cluster that stretches.

>>> import elastune
>>> quote = elastune.plan("job.yaml")
>>> quote.cost, quote.jct_seconds, quote.stages
>>> result = elastune.simulate("job.yaml", seed=7)
>>> result.actual, result.best
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elastune.api import plan, quote
    from elastune.api.replaying import replay
    from elastune.api.results import LoadedRun, load_run
    from elastune.api.running import list_runs, simulate, simulate_many, status
    from elastune.api.tuning import resume, stop, tune
    from elastune.checkpoints import load_checkpoint
    from elastune.errors import ElastuneError, InfeasibleError, JobError
    from elastune.job import Job, load_job
    from elastune.planning import NoPlanError, Objective, Quote
    from elastune.reports.reporting import report
    from elastune.runs import RunResult
    from elastune.training import Trainable, Worker

__version__ = "0.1.0"
__all__ = [
    "ElastuneError",
    "InfeasibleError",
    "Job",
    "JobError",
    "LoadedRun",
    "NoPlanError",
    "Objective",
    "Quote",
    "RunResult",
    "Trainable",
    "Worker",
    "__version__",
    "list_runs",
    "load_checkpoint",
    "load_job",
    "load_run",
    "plan",
    "quote",
    "replay",
    "report",
    "resume",
    "simulate",
    "simulate_many",
    "status",
    "stop",
    "tune",
]

# Loaded on first use, so that `import elastune` and `elastune --help` stay fast.
_HOMES = {
    "ElastuneError": "elastune.errors",
    "InfeasibleError": "elastune.errors",
    "Job": "elastune.job",
    "JobError": "elastune.errors",
    "LoadedRun": "elastune.api.results",
    "NoPlanError": "elastune.planning",
    "Objective": "elastune.planning",
    "Quote": "elastune.planning",
    "RunResult": "elastune.runs",
    "Trainable": "elastune.training",
    "Worker": "elastune.training",
    "list_runs": "elastune.api.running",
    "load_checkpoint": "elastune.checkpoints",
    "load_job": "elastune.job",
    "load_run": "elastune.api.results",
    "plan": "elastune.api",
    "quote": "elastune.api",
    "replay": "elastune.api.replaying",
    "report": "elastune.reports.reporting",
    "resume": "elastune.api.tuning",
    "simulate": "elastune.api.running",
    "simulate_many": "elastune.api.running",
    "status": "elastune.api.running",
    "stop": "elastune.api.tuning",
    "tune": "elastune.api.tuning",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'elastune' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
