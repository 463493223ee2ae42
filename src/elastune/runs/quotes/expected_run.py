"""What a run that plans again at its barriers is expected to take and cost, from simulations.

The means of a plan are those of a run that keeps to it. If configurations differ in speed, a run does not: at
each barrier it plans the rest for the trials that go on and, if the worst case has not come, spends the time
kept for it to save money.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

from elastune.curves.source import UnknownSource
from elastune.history.result import Estimate
from elastune.journal.writer import MemoryJournal
from elastune.planning.quote import Quote, ReplannedMeans
from elastune.runs.quotes.policy_quote import UnrecordedDriver
from elastune.runs.quotes.replanning import is_simulated
from elastune.runs.simulation import Simulation, unnamed
from elastune.setup.run_setup import RunSetup

# So well the means shall be known (a standard error, as a share); with many trials they are less so.
_KNOWN_WELL = 0.015
_LEAST = 3
_FEWEST = 12
_MOST = 100
_SIMULATED_EVENTS = 10_000
# For the means of plans made in a simulation fewer samples suffice than for a promise.
_SAMPLES = 256


class _Outcome(NamedTuple):
    seconds: float
    usd: float


def replanned_means(quote: Quote, setup: RunSetup) -> ReplannedMeans | None:
    """What the run of a quote is expected to do; None: it keeps to its plan, or has too many trials."""
    return _simulated_means(setup) if is_simulated(quote) else None


def expected_of(quote: Quote) -> Estimate:
    """The means of the simulated runs or, without them, of the plan."""
    means = quote.replanned or quote
    return Estimate(jct_seconds=means.jct_seconds, cost=means.cost)


def _simulated_means(setup: RunSetup) -> ReplannedMeans:
    """From simulations of the same configurations, on curves that rank them at random."""
    setup = replace(setup, terms=replace(setup.terms, target=None), samples=min(setup.samples, _SAMPLES))
    outcomes: list[_Outcome] = []
    events = 0
    while not _is_enough(outcomes, events):
        simulation = Simulation(
            setup,
            seed=setup.job.seed + len(outcomes),
            drawn_with=setup.job.seed,
            journal=MemoryJournal(keeps_lines=False),
            record=unnamed(setup),
            trainable=UnknownSource(setup.terms.metric),
        )
        simulation.driver = UnrecordedDriver(simulation.core, simulation.writer)
        simulation.run()
        state = simulation.core.state
        outcomes.append(_Outcome(state.ended_s or 0.0, state.ledger.accrued_usd(state.now_s)))
        events += state.events
    seconds, usd = zip(*outcomes, strict=True)
    return ReplannedMeans(
        simulations=len(outcomes),
        jct_seconds=fmean(seconds),
        cost=fmean(usd),
        jct_seconds_range=_usual(seconds),
        cost_range=_usual(usd),
    )


def _usual(values: Sequence[float]) -> tuple[float, float]:
    """Without the twentieth at each end."""
    low, high = np.quantile(values, (0.05, 0.95)).tolist()
    return low, high


def _is_enough(outcomes: Sequence[_Outcome], events: int) -> bool:
    count = len(outcomes)
    if count < _FEWEST:
        return count >= _LEAST and events >= _SIMULATED_EVENTS
    known_well = all(
        stdev(each) <= _KNOWN_WELL * math.sqrt(count) * fmean(each) for each in zip(*outcomes, strict=True)
    )
    return known_well or events >= _SIMULATED_EVENTS or count >= _MOST
