"""Quotes: what programs read, and that the same seed gives the same."""

from __future__ import annotations

import json

import pytest

import elastune
from elastune.model.limits import Objective

JOB = {
    "search": {"algorithm": "sha", "trials": 9, "max_iterations": 9},
    "deadline": "20m",
    "profile": {"iteration": {"mean": "60s", "sd": "5s"}, "speedup": {2: 1.8, 4: 3.2}, "spread": 0.1},
    "cluster": {"slots_per_node": 4, "max_nodes": 8, "price_per_hour": 10},
}


def test_the_keys_that_programs_rely_on_are_there() -> None:
    data = elastune.plan(JOB, frontier=True, compare=True).to_dict()
    assert {
        "planner", "objective", "jct_seconds", "cost", "jct_quantile_seconds", "cost_quantile",
        "deadline_seconds", "confidence", "optimal", "lower_bound", "stages", "frontier", "comparison",
    } <= data.keys()  # fmt: skip
    plain = json.loads(json.dumps(data))
    assert set(plain["stages"][0]) == {
        "trials", "iterations", "slots", "slots_per_trial", "nodes", "nodes_held", "seconds", "cost",
    }  # fmt: skip
    assert {"jct_seconds", "cost"} <= plain["frontier"][0].keys()
    assert set(plain["comparison"]) == {"exact", "greedy", "static", "naive-elastic"}
    assert plain["deadline_seconds"] == 1200.0
    assert plain["optimal"] is False


def test_what_was_not_asked_for_is_not_there() -> None:
    data = elastune.plan(JOB).to_dict()
    assert "frontier" not in data
    assert "comparison" not in data


def test_the_same_seed_gives_the_same_quote_and_another_seed_another() -> None:
    first, again, other = (elastune.plan(JOB, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.jct_quantile_seconds != other.jct_quantile_seconds


def test_stages_add_up_to_the_totals() -> None:
    quote = elastune.plan(JOB)
    assert quote.cost == pytest.approx(sum(stage.cost for stage in quote.stages))
    assert quote.jct_seconds == pytest.approx(sum(stage.seconds for stage in quote.stages))
    assert quote.jct_quantile_seconds <= 1200.0
    assert quote.cost_quantile >= quote.cost


def test_without_noise_the_quantiles_are_the_means_and_the_plan_is_optimal() -> None:
    calm = {**JOB, "profile": {"iteration": "60s", "speedup": {2: 1.8, 4: 3.2}}}
    quote = elastune.plan(calm)
    assert quote.optimal
    assert quote.jct_quantile_seconds == quote.jct_seconds
    assert quote.lower_bound == quote.cost
    assert quote.gap == 0.0


def test_the_objective_follows_the_limits_and_can_be_chosen() -> None:
    only_budget = {key: value for key, value in JOB.items() if key != "deadline"} | {"budget": 8}
    no_limits = {key: value for key, value in JOB.items() if key != "deadline"}
    assert elastune.plan(JOB).objective is Objective.COST
    assert elastune.plan(only_budget).objective is Objective.TIME
    assert elastune.plan(no_limits).objective is Objective.COST
    assert elastune.plan(JOB, objective="time").jct_seconds <= elastune.plan(JOB).jct_seconds


def test_slots_per_trial_stay_within_their_limits() -> None:
    search = {**JOB["search"], "min_slots_per_trial": 2, "max_slots_per_trial": 3}  # type: ignore[dict-item]
    for planner in elastune.plan(JOB, compare=True).comparison or {}:
        quote = elastune.plan({**JOB, "search": search, "deadline": "2h"}, planner=planner)
        assert {stage.slots_per_trial for stage in quote.stages} <= {2, 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"planner": "magic"},
            "planner is 'magic'; expected one of: exact, greedy, greedy-fair, static, naive-elastic",
        ),
        ({"objective": "joy"}, "objective is 'joy'; expected one of: cost, time"),
        ({"samples": 0}, "samples is 0; expected a whole number from 1 to 1,000,000"),
        ({"samples": "many"}, "samples is 'many'; expected a whole number"),
        ({"seed": -1}, "seed is -1; expected a whole number from 0"),
    ],
)
def test_wrong_options_are_told(options: dict[str, object], message: str) -> None:
    with pytest.raises(elastune.JobError, match=message):
        elastune.plan(JOB, **options)  # type: ignore[arg-type]


def test_one_sample_is_enough_to_plan_though_not_to_promise() -> None:
    assert elastune.plan(JOB, samples=1).samples == 1


def test_a_job_with_a_free_cluster_costs_nothing() -> None:
    cluster = {**JOB["cluster"], "price_per_hour": 0}  # type: ignore[dict-item]
    quote = elastune.plan({**JOB, "cluster": cluster}, compare=True, frontier=True)
    assert quote.cost == 0.0
