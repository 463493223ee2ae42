"""Random workloads whose models hop, and any plans for them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from elastune.hopping.partitions import Hopping
from elastune.model.stages import Stage
from elastune.planning.prediction.plan import Allocation, Plan, StagePlan, Workload


def hoppings() -> st.SearchStrategy[Hopping]:
    return st.builds(Hopping, partitions=st.integers(1, 9), replicas=st.integers(1, 3))


@st.composite
def hopping(draw: st.DrawFn, workloads: st.SearchStrategy[Workload]) -> Workload:
    """The same work with the models on their way, sometimes from the middle of a stage on."""
    workload = draw(workloads)
    first, *others = workload.stages
    if draw(st.booleans()):
        left = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
        first = Stage(trials=len(left), iterations=max(left), remaining=tuple(left))
    transfer_s = draw(st.sampled_from([0.0, 0.0, 1.5]))
    return replace(
        workload,
        profile=replace(workload.profile, transfer_s=transfer_s),
        stages=(first, *others),
        hopping=draw(hoppings()),
        most_slots=draw(st.sampled_from([None, None, 1, 4])),
    )


def workers_on_all_nodes(workload: Workload) -> list[Allocation]:
    """Every number of nodes, useful or not; on nodes beyond the copies of the data there are no workers."""
    assert workload.hopping is not None
    copies = workload.hopping.partitions * workload.hopping.replicas
    per_node = workload.cluster.slots_per_node
    return [
        Allocation(nodes=nodes, gangs=min(nodes, -(-copies // per_node)) * per_node, slots_per_trial=1)
        for nodes in range(1, workload.cluster.max_nodes + 1)
    ]


@st.composite
def hopping_plans_for(draw: st.DrawFn, workload: Workload) -> Plan:
    """Any plan, sensible or not."""
    planned = []
    for _ in workload.stages:
        use = draw(st.sampled_from(workers_on_all_nodes(workload)))
        held = draw(st.integers(use.nodes, workload.cluster.max_nodes))
        planned.append(StagePlan(allocation=use, nodes_held=held))
    return Plan(tuple(planned))
