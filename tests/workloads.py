"""Random workloads for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from elastune.model.cluster import Billing, ClusterTerms
from elastune.model.distributions import Constant, Distribution, Empirical, LogNormal, Normal
from elastune.model.profile import Profile, Speedup
from elastune.model.stages import Stage
from elastune.planning.prediction.plan import Allocation, Plan, StagePlan, Workload, allocate

GANG_SIZES = range(1, 5)


def constants(*seconds: float) -> st.SearchStrategy[Distribution]:
    return st.sampled_from(seconds).map(Constant)


@st.composite
def random_latencies(draw: st.DrawFn, low: float = 0.0) -> Distribution:
    mean = draw(st.floats(low + 0.5, 50.0))
    kind = draw(st.sampled_from(["constant", "normal", "lognormal", "empirical"]))
    match kind:
        case "constant":
            return Constant(mean)
        case "normal":
            return Normal(mean, mean * draw(st.floats(0.01, 1.0)))
        case "lognormal":
            return LogNormal(mean, mean * draw(st.floats(0.01, 1.0)))
        case _:
            return Empirical((mean, mean * 1.5, mean * 3.0))


@st.composite
def stages(draw: st.DrawFn, *, most_stages: int = 4, most_trials: int = 6) -> tuple[Stage, ...]:
    """Any numbers of trials: they fall in a search, but nothing in the model depends on it."""
    counts = draw(st.lists(st.integers(1, most_trials), min_size=1, max_size=most_stages))
    return tuple(Stage(trials=count, iterations=draw(st.integers(1, 6))) for count in counts)


@st.composite
def speedups(draw: st.DrawFn) -> Speedup:
    if draw(st.booleans()):
        return Speedup.of({2: 2.0, 4: 4.0} if draw(st.booleans()) else {})
    two = draw(st.floats(0.8, 2.0))
    return Speedup.of({2: two, 4: two * draw(st.floats(0.8, 2.0))})


@st.composite
def certain_workloads(draw: st.DrawFn, *, most_nodes: int = 5) -> Workload:
    """Nothing is random; ties, minimum charges that bind, queues that cost, often in the middle of a run."""
    return Workload(
        stages=draw(stages(most_stages=4)),
        profile=Profile(
            iteration=draw(constants(1.0, 5.0, 10.0, 25.0, 40.0)),
            speedup=draw(speedups()),
            startup=draw(constants(0.0, 2.0)),
            save=draw(constants(0.0, 1.0)),
            sync=draw(constants(0.0, 3.0)),
        ),
        cluster=ClusterTerms(
            slots_per_node=draw(st.sampled_from([1, 2, 4])),
            max_nodes=draw(st.integers(1, most_nodes)),
            price_per_hour=36.0,
            billing=draw(st.sampled_from(Billing)),
            minimum_charge_s=draw(st.sampled_from([0.0, 60.0, 150.0, 1000.0])),
            queue=draw(constants(0.0, 5.0, 30.0)),
            init=draw(constants(0.0, 10.0, 40.0)),
            data_usd_per_node=draw(st.sampled_from([0.0, 0.1])),
        ),
        node_ages_s=(
            ages := tuple(draw(st.lists(st.sampled_from([0.0, 10.0, 45.0, 100.0, 999.0]), max_size=5)))
        ),
        slots_now=draw(st.sampled_from([0, 1, 2])) if ages else 0,
    )


@st.composite
def uncertain_workloads(draw: st.DrawFn, *, most_nodes: int = 6) -> Workload:
    return Workload(
        stages=draw(stages()),
        profile=Profile(
            iteration=draw(random_latencies()),
            speedup=draw(speedups()),
            spread=draw(st.sampled_from([0.0, 0.1, 0.5])),
            startup=draw(random_latencies()),
            save=draw(random_latencies()),
            sync=draw(random_latencies()),
        ),
        cluster=ClusterTerms(
            slots_per_node=draw(st.sampled_from([1, 2, 4])),
            max_nodes=most_nodes,
            price_per_hour=36.0,
            billing=draw(st.sampled_from(Billing)),
            minimum_charge_s=draw(st.sampled_from([0.0, 60.0, 300.0])),
            queue=draw(random_latencies()),
            init=draw(random_latencies()),
            data_usd_per_node=draw(st.sampled_from([0.0, 0.1])),
        ),
        node_ages_s=tuple(draw(st.lists(st.floats(0.0, 200.0), max_size=2))),
    )


def allocations_of(workload: Workload, stage: int) -> tuple[Allocation, ...]:
    """Any number of gangs of any size that fits the cluster."""
    cluster, trials = workload.cluster, workload.stages[stage].trials
    every = (
        allocate(gangs=gangs, slots_per_trial=slots, slots_per_node=cluster.slots_per_node)
        for gangs in range(1, trials + 1)
        for slots in GANG_SIZES
    )
    return tuple(use for use in every if use.nodes <= cluster.max_nodes)


@st.composite
def plans_for(draw: st.DrawFn, workload: Workload) -> Plan:
    """Any plan, sensible or not."""
    planned = []
    for stage in range(len(workload.stages)):
        use = draw(st.sampled_from(allocations_of(workload, stage)))
        held = draw(st.integers(use.nodes, workload.cluster.max_nodes))
        planned.append(StagePlan(allocation=use, nodes_held=held))
    return Plan(tuple(planned))
