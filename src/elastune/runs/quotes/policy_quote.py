"""The quote of a policy without a plan, from policy simulations on unknown learning curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from elastune.core.commands import AnyCommand
from elastune.core.events import AnyEvent
from elastune.core.state import State
from elastune.core.terms import RunTerms
from elastune.curves.source import UnknownSource
from elastune.errors import InfeasibleError
from elastune.history.result import Estimate
from elastune.job.policy_choice import PolicyChoice
from elastune.journal.writer import MemoryJournal
from elastune.model.cluster import ClusterTerms
from elastune.model.limits import Limits, describe_limits
from elastune.planning.quote import KindQuote, SpotRisk, price_keys
from elastune.policies.costs import RoundCost, RoundCosts
from elastune.policies.outline import Outline
from elastune.runs.simulation import Driver, Simulation, unnamed
from elastune.setup.run_setup import RunSetup
from elastune.space.space import Space
from elastune.wording import format_duration, format_usd

# How far an asynchronous search goes is random, so a prediction is the mean of several simulations.
_MOST_SIMULATIONS = 16
_SIMULATED_EVENTS = 20_000
# A few are enough if they agree, as for SEER's rounds by the clock.
_FEWEST_SIMULATIONS = 3
_AGREEMENT = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySimulations:
    estimate: Estimate
    least: Estimate
    most: Estimate  # `least` and `most`: time and money separately
    count: int
    trials: float
    iterations: float
    peak_nodes: int


def simulate_policy(setup: RunSetup) -> PolicySimulations:
    """Without faults, on learning curves that rank the trials at random. Raises `InfeasibleError` if the
    limits leave no time for a single iteration.

    The values of these curves mean nothing, so no target stops the search: the whole search is simulated.
    """
    setup = replace(setup, terms=replace(setup.terms, target=None))
    tuning = setup.tuning
    if not isinstance(tuning.space, Space) or tuning.trainable.table or tuning.warm_start:
        return _simulate_enough(setup)  # depends on code or files, which may change
    parts = (setup.job.to_dict(), setup.search, setup.measuring, setup.samples, tuning.space, tuning.starts)
    question = _Question(policy=setup.policy, terms=setup.terms, parts=repr(parts))
    if question not in _ANSWERS:
        while len(_ANSWERS) >= _MOST_ANSWERS:
            del _ANSWERS[next(iter(_ANSWERS))]
        _ANSWERS[question] = _simulate_enough(setup)
    return _ANSWERS[question]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """Equal for setups with equal simulations. It holds nothing of the user's: a training has its data."""

    policy: str
    terms: RunTerms
    parts: str


# A run asks for the quote that its plan has shown, and a further seed for the same one.
_ANSWERS: dict[_Question, PolicySimulations] = {}
_MOST_ANSWERS = 64


def _simulate_enough(setup: RunSetup) -> PolicySimulations:
    outcomes: list[tuple[float, float]] = []
    trials, events, peak, iterations = 0, 0, 0, 0
    while len(outcomes) < _MOST_SIMULATIONS and (not outcomes or events < _SIMULATED_EVENTS):
        state = _simulate(setup, setup.job.seed + len(outcomes))
        outcomes.append((state.ended_s or 0.0, state.ledger.accrued_usd(state.now_s)))
        trials, events = trials + len(state.trials), events + state.events
        iterations += state.iterations
        peak = max([peak, *(stage.peak_nodes for stage in state.ledger.stages)])
        if len(outcomes) >= _FEWEST_SIMULATIONS and _agree(outcomes):
            break
    if not iterations:
        raise InfeasibleError(_describe_first_iteration(setup))
    seconds, usd = (sum(values) / len(values) for values in zip(*outcomes, strict=True))
    estimate = Estimate(jct_seconds=seconds, cost=usd)
    least, most = (
        Estimate(jct_seconds=end(seconds for seconds, _ in outcomes), cost=end(usd for _, usd in outcomes))
        for end in (min, max)
    )
    return PolicySimulations(
        estimate=estimate,
        least=least,
        most=most,
        count=len(outcomes),
        trials=trials / len(outcomes),
        iterations=iterations / len(outcomes),
        peak_nodes=peak,
    )


def _describe_first_iteration(setup: RunSetup) -> str:
    """What one iteration of one trial takes, with boot, start-up and save."""
    terms = setup.terms
    costs, least = RoundCosts.of(terms), terms.gangs.min_slots
    iteration_s = terms.profile.iteration.mean / terms.profile.speedup.at(least)
    first = RoundCost(seconds=costs.start_s + iteration_s, gangs=(least,))
    seconds = costs.boot_s + first.seconds + costs.save_s
    given = describe_limits(terms.limits) or "what the job allows"
    usd = costs.price_usd([[first]])
    money = f" and {format_usd(usd)}" if usd else ""
    return (
        f"{setup.policy}: not one iteration would be trained within {given}. The first one takes "
        f"{format_duration(seconds)} (boot, start-up, iteration, save){money}"
    )


def _agree(outcomes: Sequence[tuple[float, float]]) -> bool:
    return all(max(values) <= min(values) * (1 + _AGREEMENT) for values in zip(*outcomes, strict=True))


class UnrecordedDriver(Driver):
    """Encodes nothing: no line of these simulations is ever read."""

    def __call__(self, event: AnyEvent) -> Sequence[AnyCommand]:
        return self.core.handle(event)


def _simulate(setup: RunSetup, seed: int) -> State:
    simulation = Simulation(
        setup,
        seed=seed,
        journal=MemoryJournal(keeps_lines=False),
        record=unnamed(setup),
        trainable=UnknownSource(setup.terms.metric),
    )
    simulation.driver = UnrecordedDriver(simulation.core, simulation.writer)
    simulation.run()
    return simulation.core.state


_ALIKE = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyQuote:
    """`predicted` are means. The run always keeps the limits, by ending early if necessary."""

    choice: PolicyChoice
    limits: Limits
    predicted: Estimate
    least: Estimate
    most: Estimate
    """`least` and `most` over the policy simulations, time and money separately."""
    rehearsals: int
    """Number of policy simulations."""
    trials: float
    """Mean of the policy simulations."""
    peak_nodes: int
    outline: Outline | None
    """The rounds, if the policy knows them in advance."""
    minimum_charge_s: float = 0.0
    stop_when: str | None = None
    """The target that may end the run earlier than predicted."""
    iterations: float = 0.0
    """Mean of the policy simulations."""
    cluster: ClusterTerms | None = None
    risk: SpotRisk | None = None
    """None: nodes are not reclaimed."""
    kinds: tuple[KindQuote, ...] = ()
    """All node kinds compared, if the job names several."""
    intentions: tuple[str, ...] = ()
    """What the policy means to do with the limits, in sentences."""

    @property
    def jct_seconds(self) -> float:
        return self.predicted.jct_seconds

    @property
    def cost(self) -> float:
        return self.predicted.cost

    @property
    def is_free(self) -> bool:
        """Whether nothing costs anything."""
        return self.cluster is not None and self.cluster.is_free

    @property
    def is_luck(self) -> bool:
        """Whether the simulations differ enough to show their range."""
        least, most = self.least, self.most
        return most.jct_seconds > least.jct_seconds * _ALIKE or most.cost > least.cost * _ALIKE

    def to_dict(self) -> dict[str, object]:
        """Plain data with stable keys."""
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
            **({"intentions": list(self.intentions)} if self.intentions else {}),
            **({} if self.outline is None else self.outline.to_dict()),
        }
