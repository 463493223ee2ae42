"""Runs: a job, a policy, a body and a journal put together, and what came of them."""

from elastune.runs.replay import Deviation, audit, replay
from elastune.runs.result import BestTrial, Estimate, RunResult
from elastune.runs.setup import RunSetup, choose_policy, prepare
from elastune.runs.simulation import Simulation, predict

__all__ = [
    "BestTrial",
    "Deviation",
    "Estimate",
    "RunResult",
    "RunSetup",
    "Simulation",
    "audit",
    "choose_policy",
    "predict",
    "prepare",
    "replay",
]
