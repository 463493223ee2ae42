"""Stages whose models hop: by hand, against the graph, and against the open shop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.errors import InvariantError
from elastune.hopping.epoch import Epoch, HopWorker, PartitionId, WorkerId
from elastune.hopping.lower_bound import lower_bound_s
from elastune.hopping.partitions import Hopping, TrainingMode
from elastune.model.cluster import Billing, ClusterTerms
from elastune.model.distributions import Constant
from elastune.model.ids import TrialId
from elastune.model.profile import Profile, Speedup
from elastune.model.stages import Stage
from elastune.planning.prediction.draws import Draws
from elastune.planning.prediction.evaluator import Evaluator
from elastune.planning.prediction.graph import bill_dag, build_dag, describe_dag, walk_dag
from elastune.planning.prediction.hopping import epoch_rules, manners_of
from elastune.planning.prediction.plan import Allocation, Plan, StagePlan, Workload, hopping_allocations
from tests.planning.hopping_workloads import hopping, hopping_plans_for
from tests.planning.test_dag import check_agreement
from tests.thoroughness import examples
from tests.workloads import certain_workloads, uncertain_workloads

ONE_SLOT = ClusterTerms(slots_per_node=1, max_nodes=8, price_per_hour=3600.0, minimum_charge_s=0.0)
LINEAR = Speedup.of({8: 8.0})


def hops(*stages: Stage, speedup: Speedup | None = None, partitions: int = 4, **profile: float) -> Workload:
    latencies = {name: Constant(seconds) for name, seconds in profile.items()}
    return Workload(
        stages=stages,
        profile=Profile(iteration=Constant(12.0), speedup=speedup or Speedup.of({2: 1.0}), **latencies),  # type: ignore[arg-type]
        cluster=ONE_SLOT,
        hopping=Hopping(partitions=partitions),
    )


def on(workers: int) -> Plan:
    use = Allocation(nodes=workers, gangs=workers, slots_per_trial=1)
    return Plan((StagePlan(allocation=use, nodes_held=workers),))


def seconds(workload: Workload, workers: int) -> float:
    return Evaluator(workload, Draws(workload, samples=1, seed=0)).evaluate(on(workers)).mean_jct_s


def busy_s(workload: Workload, workers: int) -> float:
    return float(
        Evaluator(workload, Draws(workload, samples=1, seed=0))
        .busy_slot_s(0, on(workers).stages[0].allocation)
        .mean()
    )


def test_an_epoch_takes_its_longest_trial_or_its_busiest_worker() -> None:
    assert seconds(hops(Stage(trials=8, iterations=3)), 4) == pytest.approx(3 * 2 * 12)
    assert seconds(hops(Stage(trials=2, iterations=3)), 4) == pytest.approx(3 * 12)
    # of six partitions two workers hold two
    assert seconds(hops(Stage(trials=8, iterations=1), partitions=6), 4) == pytest.approx(8 * 12 * 2 / 6)


def test_a_trial_starts_on_every_visit_and_saves_after_every_epoch() -> None:
    stage = Stage(trials=1, iterations=3)
    assert seconds(hops(stage, startup=5.0, save=2.0), 2) == pytest.approx(3 * (12 + 4 * 5 + 2))
    # four trials on two workers: all of it is shared by the workers
    many = hops(Stage(trials=4, iterations=3), startup=5.0, save=2.0)
    assert seconds(many, 2) == pytest.approx(2 * 3 * (12 + 4 * 5 + 2))
    evaluated = replace(many, hopping=Hopping(partitions=4, validation=2))
    assert seconds(evaluated, 2) == pytest.approx(2 * 3 * (12 + 6 * 5 + 2))


def test_checkpoints_are_written_after_every_epoch() -> None:
    fresh = hops(Stage(trials=1, iterations=3))
    slow = replace(fresh, profile=replace(fresh.profile, transfer_s=1.0))
    assert seconds(slow, 1) == pytest.approx(36 + 3)
    assert seconds(replace(slow, resumes=True), 1) == pytest.approx(36 + 3), "models are where they were"


def test_a_model_comes_to_every_node_in_every_epoch() -> None:
    heavy = hops(Stage(trials=1, iterations=3))
    heavy = replace(heavy, profile=replace(heavy.profile, transfer_s=1.0))
    assert seconds(heavy, 4) == pytest.approx(36 + 3 + 3 * 3)
    assert busy_s(heavy, 4) == pytest.approx(36 + 3 + 3 * 3)
    two_slots = replace(heavy, cluster=replace(ONE_SLOT, slots_per_node=2))
    assert seconds(two_slots, 4) == pytest.approx(36 + 3 + 3)
    replicated = replace(heavy, hopping=Hopping(partitions=4, replicas=2))
    # One hop per epoch would do; visits are assigned by load, and some epochs have more.
    assert 36 + 3 + 2 * 3 <= seconds(replicated, 4) < 36 + 3 + 3 * 3
    many = replace(heavy, stages=(Stage(trials=8, iterations=3),))
    assert seconds(many, 4) == pytest.approx(3 * 8 * (12 + 1 + 3) / 4)


def test_trials_that_owe_less_drop_out() -> None:
    left = hops(Stage(trials=4, iterations=3, remaining=(1, 1, 3, 2)))
    # four trials, then two, then one
    assert seconds(left, 2) == pytest.approx(24 + 12 + 12)
    assert seconds(left, 1) == pytest.approx(48 + 24 + 12)


def test_few_trials_train_together_and_only_the_training_gets_faster() -> None:
    two = hops(Stage(trials=2, iterations=3), speedup=LINEAR, startup=5.0, save=1.0)
    assert manners_of(two, 0, 4) == (TrainingMode.TOGETHER,)
    assert seconds(two, 4) == pytest.approx(2 * (5 + 3 * 12 / 4 + 1))
    assert manners_of(replace(two, most_slots=2), 0, 4) == (TrainingMode.HOPPING,)


def test_the_manner_may_change_as_trials_leave() -> None:
    left = hops(Stage(trials=5, iterations=4, remaining=(4, 1, 1, 1, 1)), speedup=LINEAR)
    assert manners_of(left, 0, 4) == (TrainingMode.HOPPING, TrainingMode.TOGETHER)
    assert seconds(left, 4) == pytest.approx(5 / 4 * 12 + 3 * 12 / 4)


def test_an_unmeasured_gain_is_not_promised() -> None:
    one = hops(Stage(trials=1, iterations=3), speedup=Speedup.of({}))
    assert manners_of(one, 0, 4) == (TrainingMode.HOPPING,)
    assert seconds(one, 4) == pytest.approx(3 * 12) == pytest.approx(seconds(one, 2))
    three = hops(Stage(trials=3, iterations=4, remaining=(4, 1, 2)), speedup=Speedup.of({}), partitions=8)
    assert manners_of(three, 0, 8) == (TrainingMode.HOPPING,)
    assert seconds(three, 8) == pytest.approx(4 * 12)


def test_by_function_a_hopping_trial_keeps_one_slot_busy_and_together_it_is_all() -> None:
    assert busy_s(hops(Stage(trials=8, iterations=1)), 4) == pytest.approx(8 * 12)
    assert busy_s(hops(Stage(trials=2, iterations=1)), 4) == pytest.approx(2 * 12)
    half = hops(Stage(trials=1, iterations=1), speedup=Speedup.of({4: 2.0}))
    assert busy_s(half, 4) == pytest.approx(4 * 12 / 2)


def test_every_number_of_nodes_with_data_is_an_allocation() -> None:
    uses = hopping_allocations(Hopping(partitions=6), slots_per_node=4, max_nodes=9)
    assert [(use.nodes, use.slots) for use in uses] == [(1, 4), (2, 8)], "two workers hold a copy"
    uses = hopping_allocations(Hopping(partitions=6, replicas=2), slots_per_node=4, max_nodes=9)
    assert [(use.nodes, use.slots) for use in uses] == [(1, 4), (2, 8), (3, 12)]
    assert len(hopping_allocations(Hopping(partitions=6), slots_per_node=4, max_nodes=1)) == 1
    fixed = hopping_allocations(Hopping(partitions=6), slots_per_node=4, max_nodes=4, fixed=True)
    assert [use.nodes for use in fixed] == [1, 2, 3, 4]


def test_gangs_have_no_epochs() -> None:
    with pytest.raises(InvariantError, match="no epochs"):
        epoch_rules(replace(hops(Stage(trials=1, iterations=1)), hopping=None), 0, 1)


@given(st.data())
@examples(15, explore=120)
def test_graph_and_evaluator_agree_on_every_sample(data: st.DataObject) -> None:
    workload = data.draw(hopping(uncertain_workloads()))
    check_agreement(workload, data.draw(hopping_plans_for(workload)), samples=3)


@given(st.data())
@examples(10, explore=80)
def test_graph_and_evaluator_agree_when_nothing_is_random(data: st.DataObject) -> None:
    workload = data.draw(hopping(certain_workloads()))
    check_agreement(workload, data.draw(hopping_plans_for(workload)), samples=1)


@given(hopping(uncertain_workloads()), st.integers(1, 6))
@examples(10, explore=80)
def test_more_workers_are_hardly_slower_while_all_trials_hop(workload: Workload, workers: int) -> None:
    """A copy of a partition makes schedules harder to find: now and then a visit waits."""
    weightless = replace(workload.profile, transfer_s=0.0)  # or there would be more nodes to hop to
    hopping_only = replace(workload, most_slots=1, profile=weightless)
    evaluator = Evaluator(hopping_only, Draws(hopping_only, samples=16, seed=3))
    here, more = (
        evaluator.makespan_s(0, Allocation(nodes=w, gangs=w, slots_per_trial=1))
        for w in (workers, workers + 1)
    )
    assert np.all(more <= here * 1.3)


@given(hopping(uncertain_workloads()), st.integers(1, 6))
@examples(8, explore=60)
def test_without_replicas_hopping_takes_the_open_shop_bound_of_every_epoch(
    workload: Workload, workers: int
) -> None:
    partitions = workload.hopping.partitions if workload.hopping else 1
    weightless = replace(workload.profile, transfer_s=0.0, save=Constant(0.0))
    alone = replace(workload, hopping=Hopping(partitions=partitions), most_slots=1, profile=weightless)
    workers = min(workers, partitions)
    draws = Draws(alone, samples=2, seed=5)
    predicted = Evaluator(alone, draws).makespan_s(
        0, Allocation(nodes=workers, gangs=workers, slots_per_trial=1)
    )
    for sample in range(draws.samples):
        bound = 0.0
        for epoch in range(alone.stages[0].iterations):
            durations = draws.epoch(0, epoch, 0).durations(1.0)[sample]
            bound += lower_bound_s(_open_shop(durations.tolist(), workers, partitions))
        assert predicted[sample] == pytest.approx(bound)


def _open_shop(trials_s: list[float], workers: int, partitions: int) -> Epoch:
    unit_s = {TrialId(trial): seconds / partitions for trial, seconds in enumerate(trials_s)}
    return Epoch(
        trials=tuple(unit_s),
        partitions=tuple(PartitionId(p) for p in range(partitions)),
        workers=tuple(
            HopWorker(
                id=WorkerId(f"w{w}"),
                partitions=frozenset(PartitionId(p) for p in range(w, partitions, workers)),
                unit_s=unit_s,
            )
            for w in range(workers)
        ),
    )


def test_the_graph_of_epochs_can_be_read() -> None:
    left = hops(Stage(trials=5, iterations=2, remaining=(1, 2, 1, 1, 1)), speedup=LINEAR)
    assert describe_dag(build_dag(left, on(4))).splitlines()[5:] == [
        "   5  stage 0  HOP trial 0 through epoch 0  after 1-4",
        "   6  stage 0  HOP trial 1 through epoch 0  after 1-4",
        "   7  stage 0  HOP trial 2 through epoch 0  after 1-4",
        "   8  stage 0  HOP trial 3 through epoch 0  after 1-4",
        "   9  stage 0  HOP trial 4 through epoch 0  after 1-4",
        "  10  stage 0  BUSIEST of 4 workers in epoch 0  after 1-4",
        "  11  stage 0  TRAIN trial 1 from epoch 1 on all 4 workers  after 5-10",
        "  12  stage 0  SYNC  after 11",
    ]


def test_the_graph_bills_busy_slots_by_function() -> None:
    left = hops(Stage(trials=5, iterations=2, remaining=(1, 2, 1, 1, 1)), speedup=LINEAR)
    left = replace(left, cluster=replace(ONE_SLOT, billing=Billing.FUNCTION))
    tasks = build_dag(left, on(4))
    spans = walk_dag(tasks, Draws(left, samples=1, seed=0), 0)
    assert bill_dag(left, on(4), tasks, spans) == pytest.approx(5 * 12 + 4 * 3)


def test_more_epochs_than_fit_the_cache_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = hops(Stage(trials=3, iterations=4), speedup=LINEAR)
    workload = replace(workload, profile=replace(workload.profile, spread=0.3))
    kept = Evaluator(workload, Draws(workload, samples=8, seed=1)).evaluate(on(2)).jct_s
    monkeypatch.setattr("elastune.planning.prediction.draws.CACHED_VALUES", 0)
    again = Evaluator(workload, Draws(workload, samples=8, seed=1)).evaluate(on(2)).jct_s
    assert np.array_equal(kept, again)
