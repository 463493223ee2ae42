"""What the experiments share: the models, the machines, and how the planners are asked.

The paper gives scaling as a picture without numbers (Figure 4) and compares expected times with deadlines.
So the speed-ups here are ours, and limits have to hold in the median (confidence 0.5), which is the nearest
to an expectation that our planners offer; without noise the two are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.reporting import Cell, Table
from elastune.model.cluster import Billing, ClusterTerms
from elastune.model.distributions import Constant
from elastune.model.limits import Limits
from elastune.model.profile import Profile, Speedup
from elastune.model.stages import Spec, successive_halving
from elastune.planning.infeasible import NoPlanError
from elastune.planning.problem import Problem
from elastune.planning.quote import Forecast
from elastune.planning.quoting import QuoteRequest, make_quote

PLANNER_NAMES = ("static", "naive-elastic", "greedy", "exact")
MINUTE = 60.0
CONFIDENCE = 0.5

RESNET50 = Speedup.of({2: 1.87, 4: 3.42, 8: 5.60})
RESNET101 = Speedup.of({2: 1.89, 4: 3.63, 8: 6.67})

# p3.8xlarge: 4 V100, on demand, us-east-1.
SLOTS_PER_NODE = 4
USD_PER_HOUR = 12.24


def sha(trials: int, min_iterations: int, max_iterations: int, eta: int = 2) -> Spec:
    """SHA(n, r, R, eta) in the paper's order of arguments."""
    return successive_halving(
        trials=trials, min_iterations=min_iterations, max_iterations=max_iterations, eta=eta
    )


def p3_8xlarge(
    *,
    max_nodes: int,
    billing: Billing = Billing.INSTANCE,
    init_s: float = 0.0,
    queue_s: float = 0.0,
    data_usd_per_node: float = 0.0,
) -> ClusterTerms:
    """Up to `max_nodes` of the paper's machines."""
    return ClusterTerms(
        slots_per_node=SLOTS_PER_NODE,
        max_nodes=max_nodes,
        price_per_hour=USD_PER_HOUR,
        billing=billing,
        queue=Constant(queue_s),
        init=Constant(init_s),
        data_usd_per_node=data_usd_per_node,
    )


def problem_of(
    spec: Spec,
    profile: Profile,
    cluster: ClusterTerms,
    *,
    deadline_min: float,
    confidence: float = CONFIDENCE,
) -> Problem:
    """One search by a deadline."""
    limits = Limits(deadline_s=deadline_min * MINUTE, confidence=confidence)
    return Problem(specs=(spec,), profile=profile, cluster=cluster, limits=limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One setting of an experiment and what every planner makes of it; None where it has no plan."""

    group: tuple[str, ...]
    x: float
    answers: Mapping[str, Forecast | None]

    def usd(self, planner: str) -> float | None:
        answer = self.answers[planner]
        return None if answer is None else answer.cost

    def ratio(self, planner: str, to: str = "exact") -> float | None:
        """How many times dearer than the other planner."""
        own, other = self.usd(planner), self.usd(to)
        return None if own is None or other is None else own / other


def ask_all(problem: Problem) -> dict[str, Forecast | None]:
    """Every planner's answer, on the same samples."""
    try:
        quote = make_quote(problem, QuoteRequest(compare=True))
    except NoPlanError:
        return dict.fromkeys(PLANNER_NAMES)
    answers = quote.comparison or {}
    return {name: answers[name] for name in PLANNER_NAMES}


def cost_table(name: str, title: str, keys: Sequence[str], points: Sequence[Point], note: str) -> Table:
    """One row per point: its setting, each planner's cost, and static's cost in multiples of the others'."""
    header = (*keys, *(f"{planner} $" for planner in PLANNER_NAMES), "static/greedy", "static/exact")
    rows: list[tuple[Cell, ...]] = [
        (
            *point.group,
            int(point.x) if point.x == int(point.x) else point.x,
            *(point.usd(planner) for planner in PLANNER_NAMES),
            point.ratio("static", "greedy"),
            point.ratio("static"),
        )
        for point in points
    ]
    return Table(name=name, title=title, header=header, rows=tuple(rows), note=note)


def of_group(points: Sequence[Point], *group: str) -> list[Point]:
    """The points of one line or panel, in the order they were measured."""
    return [point for point in points if point.group == group]
