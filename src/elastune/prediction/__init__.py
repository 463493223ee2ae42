"""What a plan would lead to: the execution model, as a graph and vectorised."""

from elastune.prediction.allocation import Allocation, allocate, fair_allocations, hopping_allocations
from elastune.prediction.dag import bill_dag, build_dag, dag_to_dot, describe_dag, walk_dag
from elastune.prediction.draws import Draws
from elastune.prediction.evaluator import Evaluator
from elastune.prediction.hopping import manners_of
from elastune.prediction.outcome import Outcome, quantile
from elastune.prediction.plan import Plan, StagePlan
from elastune.prediction.workload import Workload

__all__ = [
    "Allocation",
    "Draws",
    "Evaluator",
    "Outcome",
    "Plan",
    "StagePlan",
    "Workload",
    "allocate",
    "bill_dag",
    "build_dag",
    "dag_to_dot",
    "describe_dag",
    "fair_allocations",
    "hopping_allocations",
    "manners_of",
    "quantile",
    "walk_dag",
]
