"""What the experiments share: the models, the machines, and how the planners are asked.

The paper gives scaling as a picture without numbers (Figure 4). So the speed-ups here are those of another
paper by some of the same authors: HyperSched (Liaw et al., SoCC 2019), Table 3, throughput on *one* node of 8
V100, with a batch that *grows* with the GPUs. RubberBand's own are of p3.8xlarge (4 V100 each, so 8 GPUs are
two nodes) with a *fixed* batch, and probably lower. None of them was measured by RubberBand or by us.

The paper compares expected times with deadlines; here limits have to hold in the median (confidence 0.5), the
nearest to an expectation that our planners offer; without noise the two are the same.

`static-letter` and `greedy-letter` are the paper's static cluster and its Algorithm 2 as written, with fair
divisions; `static` (any division), `greedy` (steps by nodes) and `exact` are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.planning.contestants import CONTESTANTS, LETTER, STATIC_LETTER, fresh_case
from benchmarks.reporting import Cell, Table
from elastune.model.cluster import Billing, ClusterTerms
from elastune.model.distributions import Constant
from elastune.model.limits import Limits
from elastune.model.profile import Profile, Speedup
from elastune.model.stages import Spec, successive_halving
from elastune.planning.problem import Problem, Solution
from elastune.planning.quote import Forecast

PLANNER_NAMES = tuple(CONTESTANTS)  # static-letter, static, naive-elastic, greedy-letter, greedy, exact
MINUTE = 60.0
CONFIDENCE = 0.5

# HyperSched, Table 3: one node of 8 V100, batch proportional to the GPUs.
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


def plan_all(problem: Problem) -> dict[str, Solution | None]:
    """Every planner's plan, on the same samples."""
    case = fresh_case(problem)
    return {name: solve(case) for name, solve in CONTESTANTS.items()}


def ask_all(problem: Problem) -> dict[str, Forecast | None]:
    """What every planner's plan takes and costs."""
    confidence = problem.limits.confidence
    return {name: _forecast(solution, confidence) for name, solution in plan_all(problem).items()}


def _forecast(solution: Solution | None, confidence: float) -> Forecast | None:
    if solution is None:
        return None
    outcome = solution.outcome
    return Forecast(
        jct_seconds=outcome.mean_jct_s,
        cost=outcome.mean_cost_usd,
        jct_quantile_seconds=outcome.jct_quantile_s(confidence),
        cost_quantile=outcome.cost_quantile_usd(confidence),
        peak_nodes=solution.plan.peak_nodes,
    )


def cost_table(name: str, title: str, keys: Sequence[str], points: Sequence[Point], note: str) -> Table:
    """One row per point: its setting, each planner's cost, and the static costs in multiples of others."""
    gains = ((STATIC_LETTER, LETTER), (STATIC_LETTER, "exact"), ("static", "greedy"), ("static", "exact"))
    costs = (f"{planner} $" for planner in PLANNER_NAMES)
    header = (*keys, *costs, *(f"{one}/{other}" for one, other in gains))
    rows: list[tuple[Cell, ...]] = [
        (
            *point.group,
            int(point.x) if point.x == int(point.x) else point.x,
            *(point.usd(planner) for planner in PLANNER_NAMES),
            *(point.ratio(one, other) for one, other in gains),
        )
        for point in points
    ]
    return Table(name=name, title=title, header=header, rows=tuple(rows), note=note)


def of_group(points: Sequence[Point], *group: str) -> list[Point]:
    """The points of one line or panel, in the order they were measured."""
    return [point for point in points if point.group == group]
