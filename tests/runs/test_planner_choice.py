"""Any planner can be run: the plan, the plans made on the way, the journal and what is shown all name it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import elastune
from elastune.api.simulating import simulate_many
from elastune.core.commands import Ending
from elastune.errors import JobError
from elastune.history.status import status_of
from elastune.journal.run_folders import find_run
from elastune.model.limits import Limits, Objective
from elastune.model.quantities import PlannerName
from elastune.planning.planners.registry import DEFAULT_PLANNER, PLANNERS
from elastune.providers.simulated_faults import NodeFaults
from elastune.runs.reopening import reopen
from elastune.runtime.simulated.cloud import Faults
from elastune.setup.run_setup import forget_plans, prepare
from tests.runs.checked_run import SAMPLES, checked_run, job_of

LOSSES = Faults(nodes=NodeFaults(lost_per_hour=20.0, refused=0.3, straggler=0.2))
ASHA = {"algorithm": "asha", "trials": 9, "max_iterations": 9}
each_planner = pytest.mark.parametrize("planner", list(PlannerName))


def test_the_names_are_those_of_the_registry_and_the_default_is_the_same() -> None:
    assert list(PlannerName) == list(PLANNERS)
    assert job_of().planner == DEFAULT_PLANNER


@each_planner
def test_a_run_follows_the_plan_of_its_planner(planner: str) -> None:
    run = checked_run(job_of(planner=planner, deadline=200.0))
    assert run.state.ended is Ending.COMPLETE
    assert run.quote.planner == planner
    assert run.seconds == pytest.approx(run.quote.jct_seconds)
    assert run.usd == pytest.approx(run.quote.cost)
    held = [stage.nodes_held for stage in run.quote.stages]
    if planner == "static":
        assert len(set(held)) == 1
    if planner == "naive-elastic":
        assert len({stage.slots_per_trial for stage in run.quote.stages}) == 1


def test_a_static_cluster_does_not_shrink_when_its_plan_is_made_again() -> None:
    """At each barrier the rest is planned with the survivors' own speeds, and there is time to spare."""
    run = checked_run(job_of(planner="static", deadline=250.0, profile__spread=0.3), seed=1)
    assert run.state.ended is Ending.COMPLETE
    replanned = [stage.nodes for stage in run.state.ledger.stages]
    assert len(replanned) == 3
    assert len({run.quote.stages[0].nodes_held, *replanned}) == 1


@each_planner
@pytest.mark.parametrize("seed", range(3))
def test_a_run_that_loses_nodes_plans_again_and_ends(planner: str, seed: int) -> None:
    run = checked_run(job_of(planner=planner), seed=seed, faults=LOSSES)
    assert run.state.ended is Ending.COMPLETE
    assert run.state.best is not None


@each_planner
def test_plans_on_the_way_are_made_by_the_same_planner(planner: str) -> None:
    setup = prepare(job_of(planner=planner), samples=SAMPLES)
    assert setup.quote is not None
    again = setup.plan(replace(setup.quote.problem, limits=Limits(deadline_s=300.0)), Objective.COST)
    assert again is not None
    assert again.planner == planner


def test_without_limits_any_plan_is_better_than_none() -> None:
    """Nine trials at once do not fit on one node of two slots, so naive-elastic has no plan there."""
    setup = prepare(job_of(planner="naive-elastic"), samples=SAMPLES)
    assert setup.quote is not None
    problem = setup.quote.problem
    small = replace(problem, cluster=replace(problem.cluster, max_nodes=1))
    assert setup.plan(replace(small, limits=Limits(deadline_s=3000.0)), Objective.TIME) is None
    last_resort = setup.plan(replace(small, limits=Limits()), Objective.TIME)
    assert last_resort is not None
    assert last_resort.planner == "exact"


@each_planner
def test_the_argument_is_the_key_of_the_job(planner: str, tmp_path: Path) -> None:
    job = job_of(deadline=200.0)
    asked = elastune.simulate(job, planner=planner)
    written = elastune.simulate(job_of(deadline=200.0, planner=planner))
    assert asked.planner == written.planner == planner
    assert asked.to_dict()["planner"] == planner
    assert asked.journal_sha256 == written.journal_sha256
    assert elastune.plan(job, planner=planner) == elastune.plan(job_of(deadline=200.0, planner=planner))


@each_planner
def test_the_journal_knows_the_planner_so_that_a_replay_decides_the_same(
    planner: str, tmp_path: Path
) -> None:
    job = job_of(deadline=200.0, trainable="synthetic:hypersched", metric=None, mode=None, space=None)
    campaign = simulate_many(job, planner=planner, folder=tmp_path, faults="harsh", seed=3)
    assert campaign.folder is not None
    found = reopen(find_run(tmp_path, "last"), audited=True)
    assert found.job.planner == planner
    assert found.standing.planner == planner
    assert found.to_dict()["planner"] == planner
    assert found.audit is not None
    assert found.audit.is_clean
    assert json.loads(campaign.folder.plan.read_text(encoding="utf-8"))["planner"] == planner


def test_a_job_without_the_key_has_the_journal_that_it_always_had() -> None:
    assert "planner" not in job_of().to_dict()
    assert job_of(planner="greedy").to_dict()["planner"] == "greedy"


def test_what_is_shown_names_a_planner_that_is_not_the_default() -> None:
    setup = prepare(job_of(planner="static", deadline=200.0), samples=SAMPLES)
    assert str(setup.choice).endswith("least cost by then; planned by static")
    assert str(prepare(job_of(deadline=200.0), samples=SAMPLES).choice).endswith("least cost by then")


def test_the_same_problem_is_planned_once() -> None:
    first, second = (prepare(job_of(deadline=203.0), samples=SAMPLES) for _ in range(2))
    assert first.quote is second.quote
    assert first.quote is not None
    problem = first.quote.problem
    assert first.plan(problem, None) is second.plan(problem, None) is not None
    forget_plans()
    assert first.plan(problem, None) is not second.quote


def test_a_policy_without_a_plan_has_no_planner() -> None:
    run = checked_run(job_of(search=ASHA))
    assert status_of(run.setup, run.state, seed=0, predicted=None).planner is None
    assert elastune.simulate(job_of(search=ASHA)).planner is None


@pytest.mark.parametrize(
    ("search", "options", "message"),
    [
        (
            None,
            {"planner": "magic"},
            "planner is 'magic'; expected one of: exact, greedy, greedy-fair, static",
        ),
        (ASHA, {"planner": "static"}, "planner is static, but asha decides while it runs and has no plan"),
        (None, {"planner": "static", "policy": "asha"}, "planner is static, but asha follows no plan"),
    ],
)
def test_a_planner_that_cannot_be_used_is_refused(
    search: object, options: dict[str, str], message: str
) -> None:
    with pytest.raises(JobError, match=message):
        elastune.simulate(job_of(**({} if search is None else {"search": search})), **options)  # type: ignore[arg-type]


def test_the_key_is_refused_for_a_search_without_stages() -> None:
    with pytest.raises(JobError, match="planner is greedy, but asha decides while it runs and has no plan"):
        job_of(search=ASHA, planner="greedy")
    with pytest.raises(JobError, match="planner is 'exakt'; expected exact, greedy, greedy-fair, static"):
        job_of(planner="exakt")


def test_among_several_policies_the_planner_is_for_the_one_that_plans() -> None:
    campaign = simulate_many(job_of(deadline=200.0), policies=["rubberband", "asha"], planner="greedy")
    assert [result.planner for result in campaign.results] == ["greedy", None]
