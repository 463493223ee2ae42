"""Quotes from simulations: the price of a search that decides during the run, and the spot risk of any run.

The spot risk comes from simulations in which nodes are reclaimed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from elastune.core.commands import AnyCommand, Ending
from elastune.core.events import AnyEvent, NodeNoticed
from elastune.core.state import State
from elastune.curves.source import UnknownSource
from elastune.history.result import Estimate
from elastune.job.job import Job
from elastune.job.machine import describe_crowding
from elastune.job.policy_choice import ENOUGH_TRIALS
from elastune.job.search_options import DeclaredSearch, SeerSearch
from elastune.journal.writer import MemoryJournal
from elastune.planning.quote import Quote, SpotRisk
from elastune.policies.seer import SeerOptions
from elastune.providers.simulated_faults import NodeFaults
from elastune.runs.expected_run import expected_of, replanned_means
from elastune.runs.policy_quote import PolicyQuote, UnrecordedDriver, simulate_policy
from elastune.runs.simulation import Simulation, unnamed
from elastune.runtime.simulated.cloud import Faults
from elastune.setup.run_setup import MEASURING, RunSetup, SetupPurpose, interruptions_per_hour, prepare
from elastune.wording import either, format_duration, format_usd, plural

# Enough to distinguish 19 in 20 from less.
_MOST_SIMULATIONS = 20
_FEWEST_SIMULATIONS = 3
_SIMULATED_EVENTS = 40_000
# EC2's notice; other providers give at most as much.
_NOTICE_S = 120.0
# Sums of floats are not exact.
_ROUNDING = 1e-9
# Every interruption makes a new plan, for which few samples are enough here.
_SAMPLES = 64

AnyQuote = TypeVar("AnyQuote", bound=Quote | PolicyQuote)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    seconds: float
    usd: float
    interruptions: int
    iterations: int
    kept: bool


class _CountingDriver(UnrecordedDriver):
    interruptions = 0

    def __call__(self, event: AnyEvent) -> Sequence[AnyCommand]:
        self.interruptions += isinstance(event, NodeNoticed)
        return super().__call__(event)


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


def spot_risk_of(setup: RunSetup, per_hour: float) -> SpotRisk:
    """From simulations on curves that rank the trials at random, each with its own seed."""
    setup = replace(setup, terms=replace(setup.terms, target=None), samples=min(setup.samples, _SAMPLES))
    outcomes: list[_Outcome] = []
    events = 0
    while len(outcomes) < _MOST_SIMULATIONS and (
        len(outcomes) < _FEWEST_SIMULATIONS or events < _SIMULATED_EVENTS
    ):
        outcome, count = _simulate(setup, setup.job.seed + len(outcomes), per_hour)
        outcomes.append(outcome)
        events += count
    seconds, usd = [each.seconds for each in outcomes], [each.usd for each in outcomes]
    return SpotRisk(
        interruptions_per_hour=per_hour,
        rehearsals=len(outcomes),
        kept=sum(each.kept for each in outcomes),
        interruptions=sum(each.interruptions for each in outcomes) / len(outcomes),
        jct_seconds=sum(seconds) / len(seconds),
        jct_seconds_range=(min(seconds), max(seconds)),
        cost=sum(usd) / len(usd),
        cost_range=(min(usd), max(usd)),
        iterations=sum(each.iterations for each in outcomes) / len(outcomes),
    )


def _simulate(setup: RunSetup, seed: int, per_hour: float) -> tuple[_Outcome, int]:
    """The outcome of one simulation with interruptions, and its number of events."""
    simulation = Simulation(
        setup,
        seed=seed,
        journal=MemoryJournal(keeps_lines=False),
        record=unnamed(setup),
        faults=Faults(nodes=NodeFaults(noticed_per_hour=per_hour, notice_s=_NOTICE_S)),
        trainable=UnknownSource(setup.terms.metric),
    )
    simulation.driver = driver = _CountingDriver(simulation.core, simulation.writer)
    simulation.run()
    return _outcome(setup, driver.core.state, driver.interruptions), driver.core.state.events


def _outcome(setup: RunSetup, state: State, interruptions: int) -> _Outcome:
    """A plan cut off at a limit has not kept it; a policy that uses all the time it has, did keep it."""
    seconds, usd = state.ended_s or 0.0, state.ledger.accrued_usd(state.now_s)
    deadline, budget = setup.job.deadline, setup.job.budget
    in_time = deadline is None or seconds <= deadline * (1 + _ROUNDING)
    in_budget = budget is None or usd <= budget * (1 + _ROUNDING)
    whole = state.ended is Ending.COMPLETE if setup.quote is not None else state.ended is not Ending.FAILED
    return _Outcome(
        seconds=seconds,
        usd=usd,
        interruptions=interruptions,
        iterations=state.iterations,
        kept=in_time and in_budget and whole,
    )


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
