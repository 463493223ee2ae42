"""Elastune: hyperparameter tuning that finishes on time and on budget, on an elastic cluster.

>>> import elastune
>>> quote = elastune.plan("job.yaml")
>>> quote.cost, quote.jct_seconds, quote.stages
>>> result = elastune.simulate("job.yaml", seed=7)
>>> result.actual, result.best
"""

from __future__ import annotations

import importlib
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elastune.api.checking import check
    from elastune.api.controlling import add, extend, stop
    from elastune.api.planning import plan, quote
    from elastune.api.reporting import report
    from elastune.api.results import LoadedRun, load_run, logs
    from elastune.api.simulating import list_runs, replay, simulate, simulate_many, status
    from elastune.api.tuning import resume, tune
    from elastune.checkpoints.store import load_checkpoint
    from elastune.errors import ElastuneError, InfeasibleError, JobError
    from elastune.history.result import RunResult
    from elastune.job.job import Job, load_job
    from elastune.model.limits import Objective
    from elastune.planning.infeasible import NoPlanError
    from elastune.planning.quote import Quote
    from elastune.runs.callbacks import Callback
    from elastune.training.shared_data import shared
    from elastune.training.trainable import Trainable
    from elastune.training.worker import Worker

__version__ = "0.1.0"
LOADED = time.monotonic() - time.process_time()
"""About when this process began: the deadline of a command counts from then."""
__all__ = [
    "Callback", "ElastuneError", "InfeasibleError", "Job", "JobError", "LoadedRun", "NoPlanError",
    "Objective", "Quote", "RunResult", "Trainable", "Worker", "__version__", "add", "check", "extend",
    "list_runs", "load_checkpoint", "load_job", "load_run", "logs", "plan", "quote", "replay", "report",
    "resume", "shared", "simulate", "simulate_many", "status", "stop", "tune",
]  # fmt: skip

# Loaded on first use, so that `import elastune` and `elastune --help` stay fast.
_MODULES = {
    "elastune.api.checking": ("check",),
    "elastune.api.controlling": ("add", "extend", "stop"),
    "elastune.api.planning": ("plan", "quote"),
    "elastune.api.reporting": ("report",),
    "elastune.api.results": ("LoadedRun", "load_run", "logs"),
    "elastune.api.simulating": ("list_runs", "replay", "simulate", "simulate_many", "status"),
    "elastune.api.tuning": ("resume", "tune"),
    "elastune.checkpoints.store": ("load_checkpoint",),
    "elastune.errors": ("ElastuneError", "InfeasibleError", "JobError"),
    "elastune.history.result": ("RunResult",),
    "elastune.job.job": ("Job", "load_job"),
    "elastune.model.limits": ("Objective",),
    "elastune.planning.infeasible": ("NoPlanError",),
    "elastune.planning.quote": ("Quote",),
    "elastune.runs.callbacks": ("Callback",),
    "elastune.training.shared_data": ("shared",),
    "elastune.training.trainable": ("Trainable",),
    "elastune.training.worker": ("Worker",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'elastune' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
