"""What a run is expected to take on nodes that may be taken away: it is rehearsed with interruptions.

The price of a search that decides while it runs: what it means to do, and what rehearsals of it took.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from elastune.core.commands import AnyCommand, Ending
from elastune.core.core import Core
from elastune.core.events import AnyEvent, NodeNoticed
from elastune.core.state import State
from elastune.curves.source import UnknownSource
from elastune.job.job import Job
from elastune.journal.writer import MemoryJournal
from elastune.planning.quote import Quote, SpotRisk
from elastune.providers.simulated_faults import NodeFaults
from elastune.runs.policy_quote import PolicyQuote, simulate_policy
from elastune.runs.simulation import Driver, Simulation, unnamed
from elastune.runtime.simulated.cloud import Faults
from elastune.setup.run_setup import MEASURING, RunSetup, SetupPurpose, interruptions_per_hour, prepare

# As many as tell 19 in 20 from less.
_MOST_REHEARSALS = 20
_FEWEST_REHEARSALS = 3
_REHEARSED_EVENTS = 40_000
# EC2's notice; others give less or as much.
_NOTICE_S = 120.0
# Sums of floats are not exact.
_ROUNDING = 1e-9
# A plan for the rest is made at every interruption: rough ones are good enough here.
_SAMPLES = 64

AnyQuote = TypeVar("AnyQuote", bound=Quote | PolicyQuote)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    seconds: float
    usd: float
    interruptions: int
    iterations: int
    kept: bool


def with_risk(quote: AnyQuote, setup: RunSetup) -> AnyQuote:
    """The quote with what interruptions do to it, where any are expected."""
    per_hour = 0.0 if setup.policy == MEASURING else interruptions_per_hour(setup.job)
    return replace(quote, risk=rehearse_interruptions(setup, per_hour)) if per_hour else quote


def rehearse_interruptions(setup: RunSetup, per_hour: float) -> SpotRisk:
    """Simulations on curves that rank the trials at random, each with luck of its own."""
    setup = replace(setup, terms=replace(setup.terms, target=None), samples=min(setup.samples, _SAMPLES))
    outcomes: list[_Outcome] = []
    events = 0
    while len(outcomes) < _MOST_REHEARSALS and (
        len(outcomes) < _FEWEST_REHEARSALS or events < _REHEARSED_EVENTS
    ):
        rehearsal = _Rehearsal.of(setup, setup.job.seed + len(outcomes), per_hour)
        rehearsal.run()
        outcomes.append(_outcome(setup, rehearsal.core.state, rehearsal.count.interruptions))
        events += rehearsal.core.state.events
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


def _outcome(setup: RunSetup, state: State, interruptions: int) -> _Outcome:
    """A plan that is cut off at a limit has not kept it; a policy that fills the time it has, has."""
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


class _Count:
    def __init__(self) -> None:
        self.interruptions = 0


class _CountingDriver(Driver):
    def __init__(self, core: Core, simulation: _Rehearsal) -> None:
        super().__init__(core, simulation.writer)
        self._count = simulation.count

    def __call__(self, event: AnyEvent) -> Sequence[AnyCommand]:
        self._count.interruptions += isinstance(event, NodeNoticed)
        return super().__call__(event)


class _Rehearsal(Simulation):
    """A simulation that knows how often it was interrupted."""

    @classmethod
    def of(cls, setup: RunSetup, seed: int, per_hour: float) -> _Rehearsal:
        cloud = NodeFaults(noticed_per_hour=per_hour, notice_s=_NOTICE_S)
        return cls(
            setup,
            seed=seed,
            journal=MemoryJournal(keeps_lines=False),
            record=unnamed(setup),
            faults=Faults(nodes=cloud),
            trainable=UnknownSource(setup.terms.metric),
        )

    def _drive(self, core: Core) -> Driver:
        self.count = _Count()
        return _CountingDriver(core, self)


def quote_policy(job: Job, policy: str | None = None) -> PolicyQuote:
    """Raises `InfeasibleError` if the policy cannot keep the limits."""

    setup = prepare(job, policy, purpose=SetupPurpose.QUOTE)
    return with_risk(quote_of(setup), setup)


def quote_of(setup: RunSetup) -> PolicyQuote:
    simulated = simulate_policy(setup)
    return PolicyQuote(
        choice=setup.choice,
        limits=setup.terms.limits,
        predicted=rehearsed.estimate,
        least=rehearsed.least,
        most=rehearsed.most,
        rehearsals=rehearsed.count,
        trials=rehearsed.trials,
        peak_nodes=rehearsed.peak_nodes,
        outline=setup.outline(),
        minimum_charge_s=setup.terms.cluster.minimum_charge_s,
        stop_when=None if setup.terms.target is None else str(setup.terms.target),
        iterations=rehearsed.iterations,
        cluster=setup.terms.cluster,
    )
