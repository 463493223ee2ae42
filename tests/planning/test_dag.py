"""The graph: its shape, its reading, and that the evaluator computes the same, sample by sample."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.model.cluster import ClusterTerms
from elastune.model.distributions import Constant
from elastune.model.profile import Profile, Speedup
from elastune.model.stages import Stage
from elastune.planning.prediction.draws import Draws
from elastune.planning.prediction.evaluator import Evaluator
from elastune.planning.prediction.graph import bill_dag, build_dag, dag_to_dot, describe_dag, walk_dag
from elastune.planning.prediction.plan import Allocation, Plan, StagePlan, Workload, allocate
from tests.thoroughness import examples
from tests.workloads import certain_workloads, plans_for, uncertain_workloads


def check_agreement(workload: Workload, plan: Plan, samples: int) -> None:
    draws = Draws(workload, samples=samples, seed=7)
    outcome = Evaluator(workload, draws).evaluate(plan)
    tasks = build_dag(workload, plan)
    for sample in range(draws.samples):
        spans = walk_dag(tasks, draws, sample)
        assert outcome.jct_s[sample] == pytest.approx(spans[-1].end_s)
        assert outcome.cost_usd[sample] == pytest.approx(bill_dag(workload, plan, tasks, spans))
    assert outcome.mean_jct_s == pytest.approx(sum(outcome.stage_mean_s))
    assert outcome.mean_cost_usd == pytest.approx(sum(outcome.stage_mean_usd))


@given(st.data())
@examples(37, explore=150)
def test_graph_and_evaluator_agree_on_every_sample(data: st.DataObject) -> None:
    workload = data.draw(uncertain_workloads())
    check_agreement(workload, data.draw(plans_for(workload)), samples=5)


@given(st.data())
@examples(25, explore=100)
def test_graph_and_evaluator_agree_when_nothing_is_random(data: st.DataObject) -> None:
    workload = data.draw(certain_workloads())
    check_agreement(workload, data.draw(plans_for(workload)), samples=5)


def two_stage_workload() -> tuple[Workload, Plan]:
    """Four trials on two slots, then one trial on two slots of one node; nodes of one slot."""
    workload = Workload(
        stages=(Stage(trials=4, iterations=2), Stage(trials=1, iterations=6)),
        profile=Profile(
            iteration=Constant(10.0),
            speedup=Speedup.of({2: 1.5}),
            startup=Constant(1.0),
            save=Constant(2.0),
            sync=Constant(3.0),
        ),
        cluster=ClusterTerms(
            slots_per_node=2,
            max_nodes=4,
            price_per_hour=3600.0,
            minimum_charge_s=0.0,
            queue=Constant(5.0),
            init=Constant(7.0),
        ),
    )
    queue_of_two = Allocation(nodes=1, gangs=2, slots_per_trial=1)
    pair = allocate(gangs=1, slots_per_trial=2, slots_per_node=2)
    plan = Plan((StagePlan(allocation=queue_of_two, nodes_held=1), StagePlan(allocation=pair, nodes_held=2)))
    return workload, plan


def test_the_graph_can_be_read() -> None:
    assert describe_dag(build_dag(*two_stage_workload())).splitlines() == [
        "   0  stage 0  SCALE +1",
        "   1  stage 0  INIT_INSTANCE 1/1  after 0",
        "   2  stage 0  TRAIN trial 0 on 1  after 1",
        "   3  stage 0  TRAIN trial 1 on 1  after 1",
        "   4  stage 0  TRAIN trial 2 on 1  after 1, when one of 2 gangs is free",
        "   5  stage 0  TRAIN trial 3 on 1  after 1, when one of 2 gangs is free",
        "   6  stage 0  SYNC  after 2-5",
        "   7  stage 1  SCALE +1  after 6",
        "   8  stage 1  INIT_INSTANCE 1/1  after 7",
        "   9  stage 1  TRAIN trial 0 on 2  after 8",
        "  10  stage 1  SYNC  after 9",
    ]


def test_the_walk_gives_every_task_its_time() -> None:
    workload, plan = two_stage_workload()
    draws = Draws(workload, samples=1, seed=0)
    spans = walk_dag(build_dag(workload, plan), draws, 0)
    assert [(span.start_s, span.end_s) for span in spans] == [
        (0, 5),
        (5, 12),
        (12, 35),
        (12, 35),
        (35, 58),
        (35, 58),
        (58, 61),
        (61, 66),
        (66, 73),
        (73, 116),
        (116, 119),
    ]


def test_nodes_are_billed_from_their_init_to_their_release() -> None:
    workload, plan = two_stage_workload()
    draws = Draws(workload, samples=1, seed=0)
    tasks = build_dag(workload, plan)
    # one node from 5 to 119 and one from 66 to 119, at a dollar a second
    assert bill_dag(workload, plan, tasks, walk_dag(tasks, draws, 0)) == pytest.approx(114 + 53)


def test_the_graph_can_be_drawn() -> None:
    dot = dag_to_dot(build_dag(*two_stage_workload()))
    assert dot.startswith("digraph plan {")
    assert 't6 [label="SYNC"];' in dot
    assert "t5 -> t6;" in dot
