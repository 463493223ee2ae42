"""Quotes of policies that decide while they run: what people read and what programs get."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping

import pytest
from rich.console import Console

import elastune
from elastune.errors import InfeasibleError, JobError
from elastune.job.job import Job
from elastune.runs.quotes.policy_quote import PolicyQuote, simulate_policy
from elastune.runs.quotes.quoting import quote_policy
from elastune.setup.run_setup import SetupPurpose, prepare
from elastune.views.terminal.policy import render_policy_quote

BASE: dict[str, object] = {
    "deadline": "10m",
    "budget": 80,
    "profile": {"iteration": "5s", "speedup": {"1": 1.0, "2": 1.8, "4": 3.0}},
    "cluster": {"slots_per_node": 1, "max_nodes": 64, "price_per_hour": 60, "minimum_charge": 0},
}


def quoted(**changes: object) -> PolicyQuote:
    return quote_policy(Job.from_dict({**BASE, **changes}))


def shown(quote: PolicyQuote) -> str:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(render_policy_quote(quote))
    return console.export_text()


def test_a_job_with_two_limits_and_no_search_is_run_by_forecast() -> None:
    text = shown(quoted())
    assert "forecast, because a deadline and a budget were given and no search was declared" in text
    assert "the winner can reach" in text
    assert "both limits are hard: the run ends before them" in text


def test_a_policy_in_rounds_shows_them() -> None:
    text = shown(quoted(search="seer"))
    assert "SEER, because search names it" in text
    assert "round  trials  of slots  slots  nodes" in text
    assert "both limits are hard: the run ends before them" in text


def test_brackets_are_shown_where_the_first_round_begins_with_them() -> None:
    head = "bracket  slots/trial  trials  slot minutes  budget"
    assert head in shown(quoted(search={"algorithm": "seer", "letter": True}))
    assert head not in shown(quoted(search="seer"))


def test_the_keys_that_programs_rely_on() -> None:
    letter = {"algorithm": "seer", "eta": 2, "min_round": "60s", "letter": True}
    data = json.loads(json.dumps(quoted(search=letter).to_dict()))
    assert (data["policy"], data["rounds"]) == ("seer", 3)
    assert data["first_round_seconds"] == pytest.approx(85.714, abs=1e-3)
    assert [(b["slots_per_trial"], b["trials"]) for b in data["brackets"]] == [(1, 8), (2, 4)]
    assert data["cost"] <= 80.0 * (1 + 1e-9)
    assert data["jct_seconds"] <= 600.0


@pytest.mark.parametrize(
    "search",
    [
        {"algorithm": "asha", "max_iterations": 27},
        {"algorithm": "hypersched"},
        {"algorithm": "bohb", "max_iterations": 9},
        {"algorithm": "pbt", "max_iterations": 20},
        {"algorithm": "random"},
        {"algorithm": "e-hyperband"},
        {"algorithm": "e-grid"},
    ],
    ids=lambda search: search["algorithm"],
)
def test_every_policy_is_quoted_without_a_trainable(search: Mapping[str, object]) -> None:
    quote = quoted(search=search)
    assert 0.0 < quote.jct_seconds <= 600.0
    assert 0.0 < quote.cost <= 80.0 * (1 + 1e-9)
    assert quote.trials >= 1
    assert quote.peak_nodes >= 1
    assert "because search.algorithm names it" in shown(quote)


def test_slots_that_do_not_help_are_pointed_out() -> None:
    letter = quoted(search={"algorithm": "seer", "letter": True}, profile={"iteration": "5s"})
    assert "make this training no faster" in shown(letter)
    assert "make this training no faster" not in shown(quoted())


def test_a_round_shorter_than_an_iteration_is_pointed_out() -> None:
    short = quoted(search={"algorithm": "seer", "min_round": "60s"}, profile={"iteration": "5m"})
    assert "the first round is shorter than an iteration" in shown(short)


def test_nothing_in_time_is_told() -> None:
    with pytest.raises(InfeasibleError, match="not one iteration would be trained within a deadline"):
        quoted(search={"algorithm": "asha", "max_iterations": 9}, profile={"iteration": "1h"})


def test_options_of_planners_are_for_declared_searches() -> None:
    with pytest.raises(JobError, match="compare is for declared searches"):
        elastune.quote(Job.from_dict(BASE), compare=True)


def test_in_python_plan_points_to_quote() -> None:
    with pytest.raises(JobError, match=r"elastune\.quote"):
        elastune.plan(Job.from_dict(BASE))
    assert isinstance(elastune.quote(Job.from_dict(BASE)), PolicyQuote)


def test_the_same_question_is_simulated_once_and_another_one_anew() -> None:
    search = {"algorithm": "asha", "trials": 8, "max_iterations": 4}
    setup = prepare(Job.from_dict({**BASE, "search": search}), purpose=SetupPurpose.QUOTE)
    again = prepare(Job.from_dict({**BASE, "search": search}), purpose=SetupPurpose.QUOTE)
    assert simulate_policy(again) is simulate_policy(setup)
    for changes in ({"seed": 1}, {"search": {**search, "trials": 9}}, {"deadline": "9m"}):
        other = prepare(Job.from_dict({**BASE, "search": search, **changes}), purpose=SetupPurpose.QUOTE)
        assert simulate_policy(other) is not simulate_policy(setup)


def test_forecast_says_before_the_run_how_it_divides_time_and_money_and_what_a_dollar_buys() -> None:
    quote = quoted(search={"algorithm": "forecast"})
    text = shown(quote)
    assert "60% of the money for new trials, each at first 1 iteration on 1 slot" in text
    assert "the winner can reach" in text
    assert "each $1.00 buys 12 iterations on 1 slot" in text  # $60 per hour, 5 s each
    assert quote.to_dict()["intentions"] == list(quote.intentions)
    free = quoted(search={"algorithm": "forecast", "trials": 30}, budget=None)
    assert free.intentions[0].startswith("until 2m30s: all slots for up to 30 new trials")
    dear = quoted(
        search={"algorithm": "forecast"},
        cluster={"slots_per_node": 1, "max_nodes": 64, "price_per_hour": 1200, "minimum_charge": 0},
        budget=1600,
    )
    assert dear.intentions[2] == "each iteration on 1 slot costs $1.67"
    assert "intentions" not in quoted(search="asha").to_dict()
