"""Model hopping: which trial visits which partition of the data next, and on which worker (Cerebro)."""

from elastune.hopper.epoch import Epoch, Hops, PartitionId, Underway, Unit, Worker, WorkerId
from elastune.hopper.events import (
    Event,
    TrialDropped,
    UnitEnded,
    UnitFailed,
    UnitStarted,
    WorkerJoined,
    WorkerLost,
)
from elastune.hopper.exact import Effort, Solved, solve
from elastune.hopper.floor import Floor
from elastune.hopper.invariants import check_schedule
from elastune.hopper.lower_bound import lower_bound_s
from elastune.hopper.manner import (
    Manner,
    busiest_part,
    choose_manner,
    hopping_share,
    measured_speedup,
    together_share,
    useful_workers,
)
from elastune.hopper.schedule import Schedule, Visit
from elastune.hopper.scheduler import Assignment, Scheduler
from elastune.hopper.schedulers import DEFAULT_SCHEDULER, SCHEDULERS, make_scheduler
from elastune.hopper.simulation import simulate

__all__ = [
    "DEFAULT_SCHEDULER",
    "SCHEDULERS",
    "Assignment",
    "Effort",
    "Epoch",
    "Event",
    "Floor",
    "Hops",
    "Manner",
    "PartitionId",
    "Schedule",
    "Scheduler",
    "Solved",
    "TrialDropped",
    "Underway",
    "Unit",
    "UnitEnded",
    "UnitFailed",
    "UnitStarted",
    "Visit",
    "Worker",
    "WorkerId",
    "WorkerJoined",
    "WorkerLost",
    "busiest_part",
    "check_schedule",
    "choose_manner",
    "hopping_share",
    "lower_bound_s",
    "make_scheduler",
    "measured_speedup",
    "simulate",
    "solve",
    "together_share",
    "useful_workers",
]
