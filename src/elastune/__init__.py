"""Elastune: hyperparameter tuning that finishes on time and on budget, on a cluster that stretches.

>>> import elastune
>>> quote = elastune.plan("job.yaml")
>>> quote.cost, quote.jct_seconds, quote.stages
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elastune.api import plan
    from elastune.errors import ElastuneError, InfeasibleError, JobError
    from elastune.job import Job, load_job
    from elastune.planning import NoPlanError, Objective, Quote

__version__ = "0.1.0"
__all__ = [
    "ElastuneError",
    "InfeasibleError",
    "Job",
    "JobError",
    "NoPlanError",
    "Objective",
    "Quote",
    "__version__",
    "load_job",
    "plan",
]

# Loaded on first use, so that `import elastune` and `elastune --help` stay fast.
_HOMES = {
    "ElastuneError": "elastune.errors",
    "InfeasibleError": "elastune.errors",
    "Job": "elastune.job",
    "JobError": "elastune.errors",
    "NoPlanError": "elastune.planning",
    "Objective": "elastune.planning",
    "Quote": "elastune.planning",
    "load_job": "elastune.job",
    "plan": "elastune.api",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'elastune' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
