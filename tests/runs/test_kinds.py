"""Which kind of node a job gets, and what interruptions do to a quote."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest
from rich.console import Console

import elastune
from elastune.errors import InfeasibleError, JobError
from elastune.job.job import Job
from elastune.planning.quote import Quote
from elastune.runs.prepared_run import prepare_best_kind, prepare_run
from elastune.runs.quotes.policy_quote import PolicyQuote
from elastune.runs.quotes.spot_risk import spot_risk_of
from elastune.views.terminal.plan import render_quote
from elastune.views.terminal.policy import render_policy_quote
from tests.job.example_jobs import job_data

SPEEDUP = {1: 1.0, 2: 1.9, 4: 3.6}


def kind(name: str, usd: float, iteration: str = "60s", **more: object) -> dict[str, object]:
    profile = {"iteration": iteration, "speedup": SPEEDUP}
    return {"name": name, "slots_per_node": 4, "price_per_hour": usd, "profile": profile, **more}


def job_of(*kinds: dict[str, object], **changes: object) -> Job:
    changes = {"trainable": "synthetic:hypersched", **changes}
    return Job.from_dict(job_data(profile=..., cluster={"max_nodes": 4, "kinds": list(kinds)}, **changes))


def shown(quote: Quote | PolicyQuote) -> str:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(render_quote(quote) if isinstance(quote, Quote) else render_policy_quote(quote))
    return console.export_text()


def chosen(quote: Quote | PolicyQuote) -> str:
    return next(each.name for each in quote.kinds if each.chosen)


FAST, CHEAP, SLOW = kind("fast", 12.0, "30s"), kind("cheap", 3.0), kind("slow", 0.5, "1h")


def test_the_cheapest_that_keeps_the_deadline_is_taken() -> None:
    quote = elastune.plan(job_of(FAST, CHEAP, SLOW, deadline="20m"))
    assert chosen(quote) == "cheap"
    assert quote.problem.cluster.price_per_hour == 3.0
    slow = quote.kinds[2]
    assert (slow.cost, slow.keeps) == (None, False)
    assert "deadline of 20m00s" in slow.why_not


def test_with_a_tighter_deadline_it_is_another() -> None:
    assert chosen(elastune.plan(job_of(FAST, CHEAP, deadline="3m"))) == "fast"


def test_with_a_budget_alone_it_is_the_fastest() -> None:
    assert chosen(elastune.plan(job_of(CHEAP, FAST, deadline=..., budget=50))) == "fast"


def test_the_choice_is_that_of_the_plain_jobs() -> None:
    """Each line of the comparison is what the job of that kind is quoted with by itself."""
    job = job_of(FAST, CHEAP)
    for line, each in zip(elastune.plan(job).kinds, job.cluster.kinds, strict=True):
        plain = elastune.plan(job.of_kind(each))
        assert (line.jct_seconds, line.cost) == (plain.jct_seconds, plain.cost)
        assert plain.kinds == ()


def test_no_kind_that_fits_is_reported_with_all_reasons() -> None:
    with pytest.raises(InfeasibleError) as caught:
        elastune.plan(job_of(FAST, SLOW, deadline="1m"))
    lines = str(caught.value).splitlines()
    assert lines[0] == "no kind of node keeps the limits:"
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["fast", "slow"]


def test_a_policy_is_compared_by_how_far_it_gets() -> None:
    """A node that is slow enough is always cheap."""
    search = {"algorithm": "asha", "max_iterations": 27}
    quote = elastune.quote(job_of(FAST, CHEAP, kind("snail", 0.1, "8m"), search=search))
    assert isinstance(quote, PolicyQuote)
    assert chosen(quote) == "fast"
    alike = elastune.quote(job_of(FAST, kind("same", 11.0, "30s"), search=search))
    assert chosen(alike) == "same"


def test_the_comparison_is_shown_and_in_the_data() -> None:
    quote = elastune.plan(job_of(FAST, CHEAP, SLOW))
    text = shown(quote)
    assert "Kinds of nodes" in text
    assert "chosen" in next(line for line in text.splitlines() if line.startswith("cheap"))
    data = json.loads(json.dumps(quote.to_dict()))
    assert [(each["name"], each["keeps_limits"], each["chosen"]) for each in data["kinds"]] == [
        ("fast", True, False),
        ("cheap", True, True),
        ("slow", False, False),
    ]


def test_a_simulation_takes_the_kind_of_the_quote_and_knows_of_no_other() -> None:
    setup = prepare_best_kind(job_of(FAST, CHEAP))
    assert (setup.job.cluster.kinds, setup.job.cluster.price_per_hour) == ((), 3.0)
    result = elastune.simulate(job_of(FAST, CHEAP))
    assert result.actual.cost == pytest.approx(elastune.plan(job_of(FAST, CHEAP)).cost, rel=0.1)


def test_measuring_needs_one_kind() -> None:
    with pytest.raises(JobError, match="a training is measured on one"):
        prepare_run(job_of(FAST, CHEAP), policy="profile", seed=0, address=None)


def test_without_kinds_and_interruptions_a_quote_says_nothing_of_them() -> None:
    job = Job.from_dict(job_data())
    data = elastune.plan(job).to_dict()
    assert not {"kinds", "risk", "price_per_hour", "price_source"} & data.keys()
    text = shown(elastune.plan(job))
    assert "spot" not in text
    assert "per node-hour" not in text


def test_interruptions_cost_time_and_money() -> None:
    job = Job.from_dict(job_data(cluster__init="60s", cluster__max_nodes=4, deadline="4h"))
    setup = prepare_best_kind(job.model_copy(update={"trainable": "synthetic:hypersched"}))
    assert setup.quote is not None
    calm, rough = spot_risk_of(setup, 1e-9), spot_risk_of(setup, 6.0)
    assert calm.interruptions == 0.0
    assert calm.jct_seconds == pytest.approx(setup.quote.jct_seconds, rel=0.05)
    assert rough.interruptions > 1.0
    assert rough.cost > calm.cost
    assert rough.jct_seconds > calm.jct_seconds
    assert rough.jct_seconds_range[0] <= rough.jct_seconds <= rough.jct_seconds_range[1]


def test_the_same_job_has_the_same_risk() -> None:
    job = job_of(kind("spot", 3.0, interruptions_per_hour=3))
    assert elastune.plan(job).risk == elastune.plan(job).risk


def test_any_provider_may_take_nodes_away() -> None:
    quote = elastune.plan(Job.from_dict(job_data(cluster__interruptions_per_hour=0.1)))
    assert quote.risk is not None
    assert quote.risk.kept <= quote.risk.rehearsals
    assert "spot" in shown(quote)


def test_a_kind_that_is_too_risky_is_not_taken_if_another_is_not() -> None:
    """It is cheaper on paper, but its simulations with interruptions miss the deadline."""
    rough = kind("rough", 2.0, interruptions_per_hour=12, init="60s")
    quote = elastune.plan(job_of(rough, kind("calm", 3.0, init="60s"), deadline="8m"))
    risk = quote.kinds[0].risk
    assert risk is not None
    assert risk.kept < 0.95 * risk.rehearsals
    assert quote.kinds[0].cost is not None
    assert quote.kinds[1].cost is not None
    assert quote.kinds[0].cost < quote.kinds[1].cost
    assert chosen(quote) == "calm"
    assert f"keeps the limits in only {risk.kept} of" in shown(quote)


def test_the_only_kind_is_taken_however_risky_and_that_is_said() -> None:
    quote = elastune.plan(job_of(kind("rough", 2.0, interruptions_per_hour=12, init="60s"), deadline="8m"))
    assert chosen(quote) == "rough"
    assert "no kind keeps the limits with the confidence of the job" in shown(quote)


def train(
    config: dict[str, float], worker: object, state: object
) -> Iterator[tuple[dict[str, float], object]]:
    while True:
        yield {"accuracy": config["lr"]}, dict


def test_an_offer_is_made_with_the_best_kind() -> None:
    job = job_of(
        FAST, CHEAP, trainable=train, metric="accuracy", space={"lr": {"float": [0.0, 1.0]}}
    )  # fmt: skip
    prepared = prepare_run(job, policy=None, seed=0, address=None)
    assert chosen(prepared.quote) == "cheap"
    assert prepared.setup.job.cluster.kinds == ()
    assert prepared.setup.terms.cluster.price_per_hour == 3.0
    assert prepared.setup.job.to_dict()["cluster"] == job.of_kind(job.cluster.kinds[1]).to_dict()["cluster"]


def test_what_is_proven_holds_for_the_plans_of_the_kind_that_is_named() -> None:
    """The other one has cheaper plans, which interruptions would break."""
    rough = kind("rough", 2.0, interruptions_per_hour=12, init="60s")
    quote = elastune.plan(job_of(rough, kind("calm", 3.0, init="60s"), deadline="8m"))
    assert quote.optimal
    assert quote.kinds[0].cost is not None
    assert quote.kinds[0].cost < quote.cost
    line = next(line for line in shown(quote).splitlines() if line.startswith("how good"))
    assert "on calm, optimal" in line


def test_the_best_of_all_kinds_is_called_so_if_all_have_a_plan() -> None:
    both = shown(elastune.plan(job_of(FAST, CHEAP)))
    assert "optimal: no plan that keeps the limits is cheaper (latencies are constant), on any kind" in (
        " ".join(both.split())
    )
    assert "on cheap, optimal" in shown(elastune.plan(job_of(FAST, CHEAP, SLOW)))


def test_the_bound_of_a_noisier_kind_counts_too() -> None:
    noisy = kind("noisy", 2.7)
    noisy["profile"] = {"iteration": {"mean": "60s", "sd": "40s"}, "spread": 0.5, "speedup": SPEEDUP}
    calm = kind("calm", 3.0)
    calm["profile"] = {"iteration": {"mean": "60s", "sd": "1s"}, "speedup": SPEEDUP}
    quote = elastune.plan(job_of(noisy, calm, deadline="10m"), samples=512)
    assert chosen(quote) == "calm"
    least = quote.bound_on_any_kind
    assert least is not None
    assert quote.lower_bound is not None
    assert least < quote.lower_bound
    assert "on any kind none below" in " ".join(shown(quote).split())


def test_a_frontier_is_that_of_one_kind() -> None:
    """The faster one has faster plans than any of these."""
    text = " ".join(shown(elastune.plan(job_of(FAST, CHEAP), frontier=True, compare=True)).split())
    assert "Time against money on cheap:" in text
    assert "All planners under the same limits on cheap" in text


def test_a_kind_that_exceeds_a_limit_does_not_change_how_the_others_are_compared() -> None:
    """Without the deadline that it may exceed, it is planned to be fast; the others to be cheap."""
    limits = {"deadline": "20m", "budget": 50, "may_exceed": "deadline"}
    small = kind("small", 3.0, max_nodes=1)
    assert prepare_best_kind(job_of(FAST, small, **limits)).job.cluster.price_per_hour == 3.0
    assert prepare_best_kind(job_of(FAST, small, SLOW, **limits)).job.cluster.price_per_hour == 3.0
