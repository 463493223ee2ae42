"""What a policy without a plan is expected to take: it is simulated, on learning curves that nobody knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from elastune.core import State
from elastune.errors import InfeasibleError
from elastune.journal import MemoryJournal
from elastune.planning.wording import tell_limits
from elastune.policies.tariff import Leg, Tariff
from elastune.runs.result import Estimate
from elastune.runs.setup import RunSetup
from elastune.runs.simulation import Simulation, unnamed
from elastune.trainables.unknown import UnknownTrainable
from elastune.units import format_duration, format_usd

# How far an asynchronous search goes is a matter of luck, so a prediction is the mean of several.
_MOST_REHEARSALS = 16
_REHEARSED_EVENTS = 20_000
# Where luck decides little, as for SEER's rounds by the clock, a few say it all.
_FEWEST_REHEARSALS = 3
_AGREEMENT = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsals:
    """Means over simulations of a policy of which nobody knows what it will see."""

    estimate: Estimate
    least: Estimate
    most: Estimate
    """Of time and of money, each by itself."""
    count: int
    trials: float
    iterations: float
    peak_nodes: int


def predict(setup: RunSetup) -> Estimate:
    """What the run is expected to take: by its plan or, where there is none, by rehearsals."""
    if setup.quote is not None:
        return Estimate(jct_seconds=setup.quote.jct_seconds, cost=setup.quote.cost)
    return rehearse(setup).estimate


def rehearse(setup: RunSetup) -> Rehearsals:
    """Simulations without faults, on learning curves of which nothing is known but that they rank the trials
    at random. Raises `InfeasibleError` if the limits leave no time for a single iteration.

    Their values mean nothing, so none of them is good enough to stop at: what is told is the whole search.
    """
    setup = replace(setup, terms=replace(setup.terms, target=None))
    outcomes: list[tuple[float, float]] = []
    trials, events, peak, iterations = 0, 0, 0, 0
    while len(outcomes) < _MOST_REHEARSALS and (not outcomes or events < _REHEARSED_EVENTS):
        state = _rehearse(setup, setup.job.seed + len(outcomes))
        outcomes.append((state.ended_s or 0.0, state.ledger.accrued_usd(state.now_s)))
        trials, events = trials + len(state.trials), events + state.events
        iterations += state.iterations
        peak = max([peak, *(stage.nodes for stage in state.ledger.stages)])
        if len(outcomes) >= _FEWEST_REHEARSALS and _agree(outcomes):
            break
    if not iterations:
        raise InfeasibleError(_tell_too_little(setup))
    seconds, usd = (sum(values) / len(values) for values in zip(*outcomes, strict=True))
    estimate = Estimate(jct_seconds=seconds, cost=usd)
    least, most = (
        Estimate(jct_seconds=end(seconds for seconds, _ in outcomes), cost=end(usd for _, usd in outcomes))
        for end in (min, max)
    )
    return Rehearsals(
        estimate=estimate,
        least=least,
        most=most,
        count=len(outcomes),
        trials=trials / len(outcomes),
        iterations=iterations / len(outcomes),
        peak_nodes=peak,
    )


def _tell_too_little(setup: RunSetup) -> str:
    """What one iteration of one trial takes, with everything around it."""
    terms = setup.terms
    tariff, least = Tariff.of(terms), terms.gangs.min_slots
    iteration_s = terms.profile.iteration.mean / terms.profile.speedup.at(least)
    leg = Leg(seconds=tariff.start_s + iteration_s, gangs=(least,))
    seconds = tariff.boot_s + leg.seconds + tariff.save_s
    given = tell_limits(terms.limits) or "what the job allows"
    usd = format_usd(tariff.price_usd([[leg]]))
    return (
        f"{setup.policy}: not one iteration would be trained within {given}. The first one takes "
        f"{format_duration(seconds)} (boot, start-up, iteration, save) and {usd}"
    )


def _agree(outcomes: Sequence[tuple[float, float]]) -> bool:
    return all(max(values) <= min(values) * (1 + _AGREEMENT) for values in zip(*outcomes, strict=True))


def _rehearse(setup: RunSetup, seed: int) -> State:
    simulation = Simulation(
        setup,
        seed=seed,
        journal=MemoryJournal(keeps_lines=False),
        record=unnamed(setup),
        trainable=UnknownTrainable(setup.terms.metric),
    )
    simulation.run()
    return simulation.core.state
