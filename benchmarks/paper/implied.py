"""What each row of Table 2 says about the epoch time and the price, if its plan is the one we take it for.

With fixed plan and constant latencies the completion time is linear in the epoch time, so the printed time
gives the epoch time, and the printed cost divided by the node-hours gives the price of a node-hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from benchmarks.planning.letter_greedy import fair_static_plan, fair_times
from benchmarks.reporting import Cell, Table
from elastune.model.distributions import Constant
from elastune.planning.prediction.plan import Plan, StagePlan, allocate
from elastune.planning.problem import Case, Problem, build_case

# The plan behind a row, by deadline and planner: a fixed number of nodes, a fixed gang, or gang per stage.
STATIC_NODES = {20: 6, 30: 3, 40: 2}
NAIVE_GANGS = {20: 8, 30: 4}
RUBBERBAND_GANGS = {20: (1, 2, 4, 8)}


def implied_table(problem: Problem, rows: Mapping[tuple[int, str], tuple[float, float]]) -> Table:
    """One line per printed row (seconds, dollars) whose plan is known."""
    lines: list[tuple[Cell, ...]] = []
    for (deadline, planner), (jct_s, usd) in rows.items():
        plan = _plan_of(_case(problem, 100.0), deadline, planner)
        if plan is None:
            continue
        at_100, at_200 = (_case(problem, epoch).evaluator.evaluate(plan) for epoch in (100.0, 200.0))
        per_second = (at_200.mean_jct_s - at_100.mean_jct_s) / 100.0
        epoch_s = 100.0 + (jct_s - at_100.mean_jct_s) / per_second
        cost = _case(problem, epoch_s).evaluator.evaluate(plan).mean_cost_usd
        price = problem.cluster.price_per_hour
        nodes = ", ".join(str(stage.nodes_held) for stage in plan.stages)
        lines.append((deadline, planner, nodes, epoch_s, cost, usd, price * usd / cost))
    return Table(
        name="table-2-implied",
        title="What the rows of Table 2 imply",
        header=(
            "deadline min",
            "planner",
            "nodes by stage",
            "epoch s",
            f"cost at ${problem.cluster.price_per_hour:g}/h",
            "printed $",
            "implied $/node-hour",
        ),
        rows=tuple(lines),
        note="No single epoch time and no single price fits all rows.",
    )


def _case(problem: Problem, epoch_s: float) -> Case:
    timed = replace(problem, profile=replace(problem.profile, iteration=Constant(epoch_s)))
    return build_case(timed.workloads()[0], timed.gangs, samples=1, seed=0)


def _plan_of(case: Case, deadline: int, planner: str) -> Plan | None:
    workload = case.evaluator.workload
    match planner:
        case "static" if deadline in STATIC_NODES:
            return fair_static_plan(fair_times(case), STATIC_NODES[deadline])
        case "naive-elastic" if deadline in NAIVE_GANGS:
            gangs = (NAIVE_GANGS[deadline],) * len(workload.stages)
        case "greedy" if deadline in RUBBERBAND_GANGS:
            gangs = RUBBERBAND_GANGS[deadline]
        case _:
            return None
    uses = [
        allocate(gangs=stage.trials, slots_per_trial=size, slots_per_node=workload.cluster.slots_per_node)
        for stage, size in zip(workload.stages, gangs, strict=True)
    ]
    return Plan(tuple(StagePlan(allocation=use, nodes_held=use.nodes) for use in uses))
