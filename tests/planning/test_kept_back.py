"""Money that is kept back for nodes that outlive their driver."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from elastune.errors import InfeasibleError
from elastune.job.job import Job
from elastune.journal.writer import MemoryJournal
from elastune.model.cluster import ClusterTerms
from elastune.model.distributions import Constant
from elastune.model.limits import GangLimits, Limits, Objective
from elastune.model.profile import Profile, Speedup
from elastune.model.stages import Spec, Stage
from elastune.planning.problem import Problem
from elastune.planning.quoting import QuoteRequest, make_quote
from elastune.runs.simulation import Simulation, unnamed
from elastune.setup.run_setup import prepare
from tests.planning.brute_force import make_case, try_all

JOB = {
    "trainable": "sin",
    "search": {"algorithm": "sha", "trials": 8, "min_iterations": 1, "max_iterations": 8, "eta": 2},
    "profile": {"iteration": 30.0, "startup": 2.0, "save": 1.0},
    "cluster": {"slots_per_node": 1, "max_nodes": 8, "price_per_hour": 36.0, "init": 20.0},
}


def problem(*, budget: float | None, shutdown_s: float) -> Problem:
    limits = {} if budget is None else {"budget": budget}
    plain = {key: value for key, value in JOB.items() if key != "trainable"}
    made = Job.from_dict({**plain, **limits}).to_problem()
    return replace(made, cluster=replace(made.cluster, shutdown_s=shutdown_s))


def test_without_such_nodes_the_whole_budget_buys_a_plan() -> None:
    free = make_quote(problem(budget=None, shutdown_s=0.0))
    assert make_quote(problem(budget=free.cost, shutdown_s=0.0)).cost <= free.cost * (1 + 1e-9)


def test_what_is_kept_back_buys_no_plan() -> None:
    """A node is a cent per second: 60 s of each are kept."""
    least = make_quote(problem(budget=None, shutdown_s=0.0)).cost
    with pytest.raises(InfeasibleError, match=r"Of the budget \$0.60 per node is kept back"):
        make_quote(problem(budget=least, shutdown_s=60.0))
    for budget in (least + 0.61, least + 1.5, least + 6.0):
        quote = make_quote(problem(budget=budget, shutdown_s=60.0))
        assert quote.cost_quantile + 0.6 * quote.peak_nodes <= budget * (1 + 1e-9)
        assert quote.problem.limits.budget_usd == budget


@pytest.mark.parametrize("objective", list(Objective))
def test_a_plan_that_is_called_optimal_is_the_best_with_its_own_nodes_kept_back(objective: Objective) -> None:
    """With money kept back for many nodes there is little left to train: the best plan may have fewer."""
    cluster = ClusterTerms(
        slots_per_node=2, max_nodes=4, price_per_hour=3600.0, minimum_charge_s=150.0, init=Constant(40.0)
    )
    small = Problem(
        specs=(Spec(name="", stages=(Stage(trials=4, iterations=7),)),),
        profile=Profile(iteration=Constant(5.0), speedup=Speedup.of({2: 1.5, 4: 3.2})),
        cluster=replace(cluster, shutdown_s=200.0),
        gangs=GangLimits(max_slots=4),
    )
    tried = try_all(make_case(small.workloads()[0]).evaluator)
    kept_usd = [one.cost_usd + 200.0 * one.plan.peak_nodes for one in tried]
    for budget in sorted(set(kept_usd)):
        fitting = [one for one, usd in zip(tried, kept_usd, strict=True) if usd <= budget * (1 + 1e-9)]
        limited = replace(small, limits=Limits(budget_usd=budget))
        quote = make_quote(limited, QuoteRequest(objective=objective, static=False))
        by_cost = objective is Objective.COST
        best = min(one.cost_usd if by_cost else one.jct_s for one in fitting)
        assert quote.optimal
        assert (quote.cost if by_cost else quote.jct_seconds) == pytest.approx(best)


@pytest.mark.parametrize("more", [0.61, 1.5, 6.0])
def test_a_run_on_a_tight_budget_comes_to_its_end(more: float) -> None:
    least = make_quote(problem(budget=None, shutdown_s=0.0)).cost
    plain = {key: value for key, value in JOB.items() if key != "trainable"}
    learn = f"{Path(__file__).parents[1] / 'fire' / 'curves.py'}:learn"
    space = {
        "limit": {"float": [0.1, 1.0]},
        "pace": {"float": [1.0, 20.0]},
        "breaks_at": {"choice": [1000]},
        "how": {"int": [4, 4]},
    }
    job = Job.from_dict(
        {
            **plain,
            "trainable": learn,
            "space": space,
            "metric": "score",
            "mode": "max",
            "budget": least + more,
        }
    )
    cluster = job.cluster.model_copy(update={"provider": "ec2"})
    setup = prepare(job.model_copy(update={"cluster": cluster}), samples=64)
    assert setup.terms.cluster.shutdown_s == 60.0
    run = Simulation(setup, seed=1, journal=MemoryJournal(), record=unnamed(setup))
    run.run()
    assert run.core.state.ended is not None
    assert run.core.state.ended.value == "complete"
