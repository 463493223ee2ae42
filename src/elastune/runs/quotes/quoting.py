"""Quotes with what simulations tell: the price of a search that decides during the run, the spot risk of any
run, and the means of a run that plans again. And what to warn of."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from elastune.core.state import State
from elastune.history.result import Estimate
from elastune.job.job import Job
from elastune.job.machine import describe_crowding
from elastune.job.policy_choice import ENOUGH_TRIALS
from elastune.job.search_options import DeclaredSearch, SeerSearch
from elastune.planning.quote import Quote
from elastune.policies.seer import SeerOptions
from elastune.runs.quotes.expected_run import expected_of, replanned_means
from elastune.runs.quotes.policy_quote import PolicyQuote, simulate_policy
from elastune.runs.quotes.spot_risk import spot_risk_of
from elastune.setup.run_setup import MEASURING, RunSetup, SetupPurpose, interruptions_per_hour, prepare
from elastune.wording import either, format_duration, format_usd, plural

AnyQuote = TypeVar("AnyQuote", bound=Quote | PolicyQuote)


def with_simulations(quote: AnyQuote, setup: RunSetup) -> AnyQuote:
    """The quote with what simulations tell: its spot risk, if interruptions are expected, or the means of a
    run that plans again."""
    per_hour = 0.0 if setup.policy == MEASURING else interruptions_per_hour(setup.job)
    if per_hour:
        return replace(quote, risk=spot_risk_of(setup, per_hour))
    if isinstance(quote, Quote):
        return replace(quote, replanned=replanned_means(quote, setup))
    return quote


def with_expectation(setup: RunSetup) -> RunSetup:
    """The setup whose quote has the means of a run that plans again."""
    quote = setup.quote
    if quote is None or quote.replanned is not None:
        return setup
    return replace(setup, quote=replace(quote, replanned=replanned_means(quote, setup)))


def predict(setup: RunSetup) -> Estimate:
    """Expected time and cost of a run: from its plan or, without one, from policy simulations."""
    quote = with_expectation(setup).quote
    return simulate_policy(setup).estimate if quote is None else expected_of(quote)


def quote_policy(job: Job, policy: str | None = None) -> PolicyQuote:
    """Raises `InfeasibleError` if the policy cannot keep the limits."""
    setup = prepare(job, policy, purpose=SetupPurpose.QUOTE)
    return with_simulations(quote_of(setup), setup)


def quote_of(setup: RunSetup) -> PolicyQuote:
    simulated = simulate_policy(setup)
    return PolicyQuote(
        choice=setup.choice,
        limits=setup.terms.limits,
        predicted=simulated.estimate,
        least=simulated.least,
        most=simulated.most,
        rehearsals=simulated.count,
        trials=simulated.trials,
        peak_nodes=simulated.peak_nodes,
        outline=setup.outline(),
        minimum_charge_s=setup.terms.cluster.minimum_charge_s,
        stop_when=None if setup.terms.target is None else str(setup.terms.target),
        iterations=simulated.iterations,
        cluster=setup.terms.cluster,
        intentions=setup.make_policy(setup.job.seed).intentions(State(setup.terms)),
    )


_LOCAL = "local"
# Policies that train every trial they start to the end, or as long as the others.
_TO_THE_END = ("random", "grid", "pbt", "e-grid")


def quote_warnings(job: Job, quote: Quote | PolicyQuote, *, address: str | None = None) -> Iterator[str]:
    """`address`: the Ray cluster on which the job would run."""
    if address is None and job.cluster.provider == _LOCAL and job.slot.cpus is not None:
        crowding = describe_crowding(quote.peak_nodes * job.cluster.slots_per_node, job.slot.cpus)
        if crowding is not None:
            yield crowding
    if isinstance(quote, PolicyQuote) and round(quote.trials) < _wanted(job):
        yield _describe_few(job, quote)
    if isinstance(quote, PolicyQuote) and _learns_nothing(job, quote):
        yield (
            "the sampler learns nothing: seer draws all trials at once, because the limits leave no time for "
            "several waves; expected a longer deadline, or search: asha"
        )


def _learns_nothing(job: Job, quote: PolicyQuote) -> bool:
    """Whether the sampler learns, and all trials are drawn before any has trained."""
    search, outline = job.search, quote.outline
    return isinstance(search, SeerSearch) and search.learns and outline is not None and outline.draws == 1


def _wanted(job: Job) -> int:
    """Trials that a search should have; not more than the job asks for."""
    asked = getattr(job.search, "trials", None)
    if isinstance(job.search, DeclaredSearch) or (asked is not None and not job.names_search_only):
        return 0
    return ENOUGH_TRIALS


def _describe_few(job: Job, quote: PolicyQuote) -> str:
    """Which change would help, and by how much."""
    trials = max(1, round(quote.trials))
    times = math.ceil(ENOUGH_TRIALS / trials)
    cluster = job.cluster
    ways: list[str] = []
    if isinstance(job.search, SeerOptions) and job.search.min_round is not None:
        ways.append("no search.min_round (a round then lasts about as long as an iteration)")
    if quote.choice.policy in _TO_THE_END:
        ways.append("search: asha, which stops bad trials early")
    elif quote.choice.policy == "seer":
        ways.append("search: hypersched, whose trials take turns on the slots")
    if job.deadline is not None:
        ways.append(f"deadline: {format_duration(job.deadline * times)}")
    if job.budget is not None:
        ways.append(f"budget: {format_usd(job.budget * times)}")
    if job.budget is None and cluster.price_per_hour:
        key = "nodes" if cluster.nodes is not None else "max_nodes"
        ways.append(f"cluster.{key}: {cluster.most_nodes * times}")
    found = f"about {plural(trials, 'trial')} will be tried, too few for a search"
    return f"{found}; more would be with {either(ways)}" if ways else found
