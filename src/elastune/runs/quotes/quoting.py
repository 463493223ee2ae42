"""Quotes with what simulations tell: the price of a search that decides during the run, the spot risk of any
run, and the means of a run that plans again."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from elastune.core.state import State
from elastune.history.result import Estimate
from elastune.job.job import Job
from elastune.planning.quote import Quote
from elastune.runs.quotes.expected_run import expected_of, replanned_means
from elastune.runs.quotes.policy_quote import PolicyQuote, simulate_policy
from elastune.runs.quotes.spot_risk import spot_risk_of
from elastune.setup.run_setup import MEASURING, RunSetup, SetupPurpose, interruptions_per_hour, prepare

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
