"""What a planner is asked: the work, the measurements, the machines and the limits, as plain values."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from elastune.cluster import ClusterTerms
from elastune.errors import InvariantError
from elastune.prediction import Outcome, Workload
from elastune.profiles import Profile
from elastune.spec import Hopping, Spec, Stage

# A plan that ends at the deadline to the last bit is in time; sums of floats are not exact to it.
ROUNDING = 1e-9


class Objective(enum.Enum):
    """What to make small within the limits."""

    COST = "cost"
    TIME = "time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The promise. Both limits have to hold with probability `confidence`."""

    deadline_s: float | None = None
    budget_usd: float | None = None
    confidence: float = 0.95

    def keep(self, outcome: Outcome) -> bool:
        """Whether both hold at the asked confidence."""
        return self.keep_deadline(outcome) and self.keep_budget(outcome)

    def without_deadline(self) -> Limits:
        return replace(self, deadline_s=None)

    def without_budget(self) -> Limits:
        return replace(self, budget_usd=None)

    def keep_deadline(self, outcome: Outcome) -> bool:
        deadline = self.deadline_s
        return deadline is None or outcome.jct_quantile_s(self.confidence) <= deadline * (1 + ROUNDING)

    def keep_budget(self, outcome: Outcome) -> bool:
        return self.keep_budget_but(outcome, 0.0)

    def keep_budget_but(self, outcome: Outcome, kept_usd: float) -> bool:
        """Whether that much is left of it, too."""
        budget = self.budget_usd
        if budget is None:
            return True
        return outcome.cost_quantile_usd(self.confidence) + kept_usd <= budget * (1 + ROUNDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class GangLimits:
    """How many slots one trial may have."""

    min_slots: int = 1
    max_slots: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartState:
    """Where a spec stands in the middle of a run. A fresh job is the empty one.

    `work_left` are the iterations that each living trial still owes in the stage, in the order in which
    they will train; trials that owe nothing wait at the barrier and are left out. Empty: the stage has not
    begun. `node_ages_s` counts from the start of a node's INIT.
    """

    stage: int = 0
    work_left: tuple[int, ...] = ()
    node_ages_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A job as the planners see it. Several specs run side by side, each on nodes of its own (Hyperband).

    To plan again in the middle of a run, give the start state of each spec and, as limits, the time and the
    money that are left. What the nodes have cost so far, by their age, is spent money.

    `hopping`: the models travel and the data stay. Then trials have no gangs; of `gangs` only the most slots
    count, for trials that train together on all workers.
    """

    specs: tuple[Spec, ...]
    profile: Profile
    cluster: ClusterTerms
    limits: Limits = Limits()
    gangs: GangLimits = GangLimits()
    starts: tuple[StartState, ...] = ()
    hopping: Hopping | None = None

    @property
    def is_deterministic(self) -> bool:
        return self.profile.is_deterministic and self.cluster.is_deterministic

    def workloads(self) -> tuple[Workload, ...]:
        """What is left to do, spec by spec."""
        starts = self.starts or (StartState(),) * len(self.specs)
        return tuple(
            Workload(
                stages=_stages_left(spec, start),
                profile=self.profile,
                cluster=self.cluster,
                node_ages_s=start.node_ages_s,
                resumes=start.stage > 0 or bool(start.work_left),
                hopping=self.hopping,
                most_slots=None if self.hopping is None else self.gangs.max_slots,
            )
            for spec, start in zip(self.specs, starts, strict=True)
        )


def _stages_left(spec: Spec, start: StartState) -> tuple[Stage, ...]:
    stages = spec.stages[start.stage :]
    if not stages:
        raise InvariantError(f"spec {spec.name!r} has no stage {start.stage}")
    if not start.work_left:
        return stages
    owed = tuple(work for work in start.work_left if work > 0)
    if not owed:
        raise InvariantError(f"no trial of stage {start.stage} owes work: start at the next stage")
    current = Stage(trials=len(owed), iterations=max(owed), remaining=owed)
    return (current, *stages[1:])
