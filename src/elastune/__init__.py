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
    from elastune.api.planning import plan, quote
    from elastune.api.reporting import report
    from elastune.api.results import LoadedRun, load_run
    from elastune.api.simulating import list_runs, replay, simulate, simulate_many, status
    from elastune.api.tuning import resume, stop, tune
    from elastune.checkpoints.store import load_checkpoint
    from elastune.errors import ElastuneError, InfeasibleError, JobError
    from elastune.history.result import RunResult
    from elastune.job.job import Job, load_job
    from elastune.model.limits import Objective
    from elastune.planning.infeasible import NoPlanError
    from elastune.planning.quote import Quote
    from elastune.training.trainable import Trainable
    from elastune.training.worker import Worker

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
    "Job": "elastune.job.job",
    "JobError": "elastune.errors",
    "LoadedRun": "elastune.api.results",
    "NoPlanError": "elastune.planning.infeasible",
    "Objective": "elastune.model.limits",
    "Quote": "elastune.planning.quote",
    "RunResult": "elastune.history.result",
    "Trainable": "elastune.training.trainable",
    "Worker": "elastune.training.worker",
    "list_runs": "elastune.api.simulating",
    "load_checkpoint": "elastune.checkpoints.store",
    "load_job": "elastune.job.job",
    "load_run": "elastune.api.results",
    "plan": "elastune.api.planning",
    "quote": "elastune.api.planning",
    "replay": "elastune.api.simulating",
    "report": "elastune.api.reporting",
    "resume": "elastune.api.tuning",
    "simulate": "elastune.api.simulating",
    "simulate_many": "elastune.api.simulating",
    "status": "elastune.api.simulating",
    "stop": "elastune.api.tuning",
    "tune": "elastune.api.tuning",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'elastune' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
