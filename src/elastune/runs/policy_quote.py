"""What a policy without a plan is expected to take: it is simulated, on learning curves that nobody knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from elastune.core.state import State
from elastune.curves.source import UnknownSource
from elastune.errors import InfeasibleError
from elastune.history.result import Estimate
from elastune.job.policy_choice import PolicyChoice
from elastune.journal.writer import MemoryJournal
from elastune.model.cluster import ClusterTerms
from elastune.model.limits import Limits, tell_limits
from elastune.planning.quote import KindQuote, SpotRisk, price_keys
from elastune.policies.costs import RoundCost, RoundCosts
from elastune.policies.outline import Outline
from elastune.runs.simulation import Simulation, unnamed
from elastune.setup.run_setup import RunSetup
from elastune.wording import format_duration, format_usd

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
    most: Estimate  # `least` and `most`: time and money separately
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
    tariff, least = RoundCosts.of(terms), terms.gangs.min_slots
    iteration_s = terms.profile.iteration.mean / terms.profile.speedup.at(least)
    leg = RoundCost(seconds=tariff.start_s + iteration_s, gangs=(least,))
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
        trainable=UnknownSource(setup.terms.metric),
    )
    simulation.run()
    return simulation.core.state


_ALIKE = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyQuote:
    """`predicted` are means; the limits are kept whatever happens, by ending the run."""

    choice: PolicyChoice
    limits: Limits
    predicted: Estimate
    least: Estimate
    most: Estimate
    """Of time and of money, each by itself, in the rehearsals: how far a search goes is a matter of luck."""
    rehearsals: int
    trials: float
    """In the mean of the rehearsals."""
    peak_nodes: int
    outline: Outline | None
    """The rounds, of a policy that knows them beforehand."""
    minimum_charge_s: float = 0.0
    stop_when: str | None = None
    """What may end the run earlier than predicted."""
    iterations: float = 0.0
    """In the mean of the rehearsals."""
    cluster: ClusterTerms | None = None
    risk: SpotRisk | None = None
    """None: nobody takes nodes away."""
    kinds: tuple[KindQuote, ...] = ()
    """Of a job that had a choice, all of them."""

    @property
    def jct_seconds(self) -> float:
        return self.predicted.jct_seconds

    @property
    def cost(self) -> float:
        return self.predicted.cost

    @property
    def is_luck(self) -> bool:
        """Whether rehearsals differ enough to be told."""
        return (
            self.most.jct_seconds > self.least.jct_seconds * _ALIKE
            or self.most.cost > self.least.cost * _ALIKE
        )

    def to_dict(self) -> dict[str, object]:
        """Plain data with the keys that programs may rely on."""
        return {
            "policy": self.choice.policy,
            "why": str(self.choice),
            "jct_seconds": self.predicted.jct_seconds,
            "cost": self.predicted.cost,
            "jct_seconds_range": [self.least.jct_seconds, self.most.jct_seconds],
            "cost_range": [self.least.cost, self.most.cost],
            "deadline_seconds": self.limits.deadline_s,
            "budget": self.limits.budget_usd,
            "trials": self.trials,
            "peak_nodes": self.peak_nodes,
            **({} if self.stop_when is None else {"stop_when": self.stop_when}),
            **price_keys(self.cluster),
            **({} if self.risk is None else {"risk": self.risk.to_dict()}),
            **({"kinds": [kind.to_dict() for kind in self.kinds]} if self.kinds else {}),
            **({} if self.outline is None else self.outline.to_dict()),
        }
