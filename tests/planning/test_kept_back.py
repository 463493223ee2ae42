"""Money that is kept back for nodes that outlive their driver."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from elastune.errors import InfeasibleError
from elastune.job.job import Job
from elastune.journal.writer import MemoryJournal
from elastune.planning.problem import Problem
from elastune.planning.quoting import make_quote
from elastune.runs.simulation import Simulation, unnamed
from elastune.setup.run_setup import prepare

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
