"""The job decides which policy runs, and the choice says why."""

from __future__ import annotations

import pytest

import elastune
from elastune.errors import JobError
from elastune.job.job import Job
from elastune.job.policy_choice import choose
from elastune.job.section import with_current_keys
from elastune.runs.quotes.policy_quote import PolicyQuote

BASE: dict[str, object] = {
    "profile": {"iteration": "10s"},
    "cluster": {"slots_per_node": 4, "max_nodes": 8, "price_per_hour": 10},
}
FIXED: dict[str, object] = {"slots_per_node": 4, "nodes": 8, "price_per_hour": 10}
SHA = {"algorithm": "sha", "trials": 8, "max_iterations": 9}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (
            {"search": SHA, "deadline": "1h"},
            "RubberBand, because sha was declared with a deadline: least cost",
        ),
        (
            {"search": SHA, "deadline": "1h", "budget": 9},
            "RubberBand, because sha was declared with a deadline: least cost by then within the budget",
        ),
        (
            {"search": SHA, "budget": 9},
            "RubberBand, because sha was declared with a budget: least time for it",
        ),
        (
            {"search": {"algorithm": "stages", "stages": [{"trials": 8, "iterations": 9}]}, "deadline": "1h"},
            "RubberBand, because stages were declared with a deadline: least cost",
        ),
        ({"search": SHA}, "RubberBand, because sha was declared; without a deadline or a budget nothing is"),
        (
            {"deadline": "1h", "budget": 9},
            "forecast, because a deadline and a budget were given and no search was declared",
        ),
        (
            {"deadline": "1h", "cluster": FIXED},
            "HyperSched, because a deadline and a fixed cluster were given and no search was declared",
        ),
        (
            {"deadline": "1h", "budget": 9, "cluster": FIXED},
            "forecast, because a deadline and a budget were given and no search was declared",
        ),
        (
            {"search": {"algorithm": "asha", "max_iterations": 9}, "deadline": "1h", "budget": 9},
            "ASHA, because search.algorithm names it",
        ),
    ],
)
def test_the_first_rule_that_matches(given: dict[str, object], reason: str) -> None:
    assert str(choose(Job.from_dict({**BASE, **given}))).startswith(reason)


def test_the_default_tries_enough_trials_where_there_is_little_money() -> None:
    """Finding: 2m and $0.05 on one node of 2 slots, and SEER tried two configurations."""
    cluster = {"slots_per_node": 2, "nodes": 1, "price_per_hour": 1.5}
    job = Job.from_dict(
        {"profile": {"iteration": "300ms"}, "deadline": "2m", "budget": 0.05, "cluster": cluster}
    )
    assert str(choose(Job.from_dict(job.to_dict()))) == str(choose(job))
    quote = elastune.quote(job)
    assert isinstance(quote, PolicyQuote)
    assert quote.trials >= 10


def test_a_record_of_the_first_version_keeps_its_defaults() -> None:
    job = Job.from_dict({**BASE, "deadline": "1h", "budget": 9})
    recorded = {key: value for key, value in job.to_dict().items() if key != "search"}
    before = Job.from_dict(with_current_keys(recorded))
    assert before.search.algorithm == "seer"
    assert getattr(before.search, "min_round", None) == 60.0
    assert not before.declares_search
    assert "search" not in before.to_dict()


def test_what_is_asked_for_beside_the_job_wins() -> None:
    job = Job.from_dict({**BASE, "deadline": "1h", "budget": 9})
    assert str(choose(job, "asha")) == "ASHA, because it was asked for"


@pytest.mark.parametrize("given", [{}, {"deadline": "1h"}, {"budget": 9}])
def test_a_job_that_leaves_it_open_has_to_say(given: dict[str, object]) -> None:
    with pytest.raises(JobError, match="search is missing; expected what to search, and how"):
        Job.from_dict({**BASE, **given})


def test_a_job_without_a_search_comes_back_without_one() -> None:
    job = Job.from_dict({**BASE, "deadline": "1h", "budget": 9})
    data = job.to_dict()
    assert data["search"] == "auto"
    assert Job.from_dict(data) == job
    assert not Job.from_dict(data).declares_search
