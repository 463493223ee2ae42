"""The spot risk of a run, from simulations in which nodes are reclaimed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from elastune.core.commands import AnyCommand, Ending
from elastune.core.events import AnyEvent, NodeNoticed
from elastune.core.state import State
from elastune.curves.source import UnknownSource
from elastune.journal.writer import MemoryJournal
from elastune.planning.quote import SpotRisk
from elastune.providers.simulated_faults import NodeFaults
from elastune.runs.quotes.policy_quote import UnrecordedDriver
from elastune.runs.simulation import Simulation, unnamed
from elastune.runtime.simulated.cloud import Faults
from elastune.setup.run_setup import RunSetup

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _SpotOutcome:
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


def spot_risk_of(setup: RunSetup, per_hour: float) -> SpotRisk:
    """From simulations on curves that rank the trials at random, each with its own seed."""
    setup = replace(setup, terms=replace(setup.terms, target=None), samples=min(setup.samples, _SAMPLES))
    outcomes: list[_SpotOutcome] = []
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


def _simulate(setup: RunSetup, seed: int, per_hour: float) -> tuple[_SpotOutcome, int]:
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


def _outcome(setup: RunSetup, state: State, interruptions: int) -> _SpotOutcome:
    """A plan cut off at a limit has not kept it; a policy that uses all the time it has, did keep it."""
    seconds, usd = state.ended_s or 0.0, state.ledger.accrued_usd(state.now_s)
    deadline, budget = setup.job.deadline, setup.job.budget
    in_time = deadline is None or seconds <= deadline * (1 + _ROUNDING)
    in_budget = budget is None or usd <= budget * (1 + _ROUNDING)
    whole = state.ended is Ending.COMPLETE if setup.quote is not None else state.ended is not Ending.FAILED
    return _SpotOutcome(
        seconds=seconds,
        usd=usd,
        interruptions=interruptions,
        iterations=state.iterations,
        kept=in_time and in_budget and whole,
    )
