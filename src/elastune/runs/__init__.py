"""Runs: a job, a policy, a body and a journal put together, and what came of them."""

from elastune.job.choice import Choice, choose, choose_policy
from elastune.runs.rehearsing import predict
from elastune.runs.replay import Deviation, audit, replay
from elastune.runs.result import BestTrial, Estimate, RunResult
from elastune.runs.setup import Purpose, RunSetup, prepare
from elastune.runs.simulation import Simulation

__all__ = [
    "BestTrial",
    "Choice",
    "Deviation",
    "Estimate",
    "Purpose",
    "RunResult",
    "RunSetup",
    "Simulation",
    "audit",
    "choose",
    "choose_policy",
    "predict",
    "prepare",
    "replay",
]
