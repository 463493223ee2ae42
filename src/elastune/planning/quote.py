"""The quote of a job: expected time and cost, their quantiles, the plan, and the choice of a kind of node.

`SpotRisk` has the figures of simulations in which nodes are interrupted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from elastune.model.cluster import ClusterTerms
from elastune.model.limits import ROUNDING, Objective
from elastune.planning.brackets import Answer
from elastune.planning.prediction.hopping import manners_of
from elastune.planning.prediction.plan import Plan, Workload
from elastune.planning.problem import Problem, Solution


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """`jct_seconds` and `cost` are means, the quantiles those at the job's confidence."""

    jct_seconds: float
    cost: float
    jct_quantile_seconds: float
    cost_quantile: float
    peak_nodes: int


def forecast(answer: Answer | None, confidence: float) -> Forecast | None:
    if answer is None:
        return None
    return Forecast(
        jct_seconds=answer.outcome.mean_jct_s,
        cost=answer.outcome.mean_cost_usd,
        jct_quantile_seconds=answer.outcome.jct_quantile_s(confidence),
        cost_quantile=answer.outcome.cost_quantile_usd(confidence),
        peak_nodes=answer.peak_nodes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedRange:
    """Where the quantiles of a quote come from if configurations differ in speed.

    The quote's own quantiles are for the worst case: the slower configurations survive. These are for
    survivors whose speed has nothing to do with their quality.
    """

    known: int  # configurations whose speed the quote knows something of, by their hyperparameters
    trials: int
    spread: float  # what is unknown of a configuration's speed, on average: a coefficient of variation
    jct_quantile_seconds: float
    cost_quantile: float

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplannedMeans:
    """Means over simulated runs, which plan again at each barrier."""

    simulations: int
    jct_seconds: float
    cost: float
    jct_seconds_range: tuple[float, float]
    cost_range: tuple[float, float]
    """Nine of ten simulated runs are within `jct_seconds_range`, and nine of ten within `cost_range`."""

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotRisk:
    """Time and cost are means over the simulations (`rehearsals`), with their range."""

    interruptions_per_hour: float  # expected, of one node
    rehearsals: int
    kept: int  # simulations that kept deadline and budget and, with a plan, reached its end
    interruptions: float  # in one simulation
    jct_seconds: float
    jct_seconds_range: tuple[float, float]
    cost: float
    cost_range: tuple[float, float]
    iterations: float  # trained in one simulation

    @property
    def share_kept(self) -> float:
        return self.kept / self.rehearsals

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def price_source(terms: ClusterTerms) -> str | None:
    """The source of a price that was looked up; None if the job states the price."""
    return None if terms.is_priced_by_job else terms.price_source


def price_keys(terms: ClusterTerms | None) -> dict[str, object]:
    """A price that was looked up, as plain data."""
    if terms is None or (source := price_source(terms)) is None:
        return {}
    keys: dict[str, object] = {"price_per_hour": terms.price_per_hour, "price_source": source}
    most = terms.most_price_per_hour
    return keys if most is None else {**keys, "most_price_per_hour": most}


@dataclass(frozen=True, slots=True, kw_only=True)
class KindQuote:
    name: str
    price_per_hour: float
    price_source: str | None
    jct_seconds: float | None
    cost: float | None  # without interruptions; None: no quote, because the limits cannot be kept
    risk: SpotRisk | None
    iterations: float | None  # trained in a simulation of a search without a plan
    keeps: bool  # the limits, at the confidence of the job
    why_not: str = ""
    chosen: bool = False
    objective: Objective | None = None  # of its plan; None: it has none
    lower_bound: float | None = None
    """On the mean of the objective, as in `Quote`, of plans on this kind; None: nothing is proven."""

    @property
    def expected_cost(self) -> float:
        """With interruptions, if there are any."""
        cost = self.cost if self.risk is None else self.risk.cost
        return math.inf if cost is None else cost

    @property
    def expected_seconds(self) -> float:
        seconds = self.jct_seconds if self.risk is None else self.risk.jct_seconds
        return math.inf if seconds is None else seconds

    def to_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "price_per_hour": self.price_per_hour,
            "price_source": self.price_source,
            "jct_seconds": self.jct_seconds,
            "cost": self.cost,
            **({} if self.iterations is None else {"iterations": self.iterations}),
            "risk": None if self.risk is None else self.risk.to_dict(),
            "keeps_limits": self.keeps,
            "why_not": self.why_not or None,
            "chosen": self.chosen,
            **({} if self.lower_bound is None else {"lower_bound": self.lower_bound}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StageQuote:
    """One line of the stage table. Seconds and dollars are means."""

    trials: int
    iterations: int
    slots: int  # the workers, if models hop
    slots_per_trial: int
    nodes: int
    nodes_held: int
    seconds: float
    cost: float
    manner: str | None = None  # the training mode, if models hop

    def to_dict(self) -> dict[str, object]:
        """Plain data; without `manner` if models do not hop."""
        return {key: value for key, value in asdict(self).items() if key != "manner" or value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class BracketQuote:
    """The plan of one spec. Successive Halving has one, Hyperband several."""

    name: str
    plan: Plan
    stages: tuple[StageQuote, ...]
    jct_seconds: float
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierPoint:
    """Mean time and mean cost of a plan that no other beats in both."""

    jct_seconds: float
    cost: float
    peak_nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A priced plan. `jct_seconds` and `cost` are means; the quantiles are at `problem.limits.confidence`."""

    planner: str
    objective: Objective
    problem: Problem
    jct_seconds: float
    cost: float
    jct_quantile_seconds: float
    cost_quantile: float
    optimal: bool
    lower_bound: float | None
    """On the mean of the objective: dollars for `cost`, seconds for `time`. As `optimal`, of plans on the
    chosen kind of node, if there are `kinds`."""
    brackets: tuple[BracketQuote, ...]
    static: Forecast | None
    """The best cluster of fixed size under the same limits; None if no such cluster keeps them."""
    samples: int
    seed: int
    frontier: tuple[FrontierPoint, ...] | None = None
    comparison: Mapping[str, Forecast | None] | None = None
    why: str = ""
    """Why this policy, in words."""
    stop_when: str | None = None
    """The target that may end the run earlier than planned."""
    risk: SpotRisk | None = None
    """None: nodes are not interrupted."""
    speeds: SpeedRange | None = None
    """None: all configurations are equally fast, or there is only one stage."""
    replanned: ReplannedMeans | None = None
    """None: the run keeps to its plan, unless something happens, or it was not simulated."""
    kinds: tuple[KindQuote, ...] = ()
    """All kinds of nodes, if the job has a choice."""

    @property
    def stages(self) -> tuple[StageQuote, ...]:
        return tuple(stage for bracket in self.brackets for stage in bracket.stages)

    @property
    def peak_nodes(self) -> int:
        return sum(bracket.plan.peak_nodes for bracket in self.brackets)

    @property
    def kind(self) -> KindQuote | None:
        """The chosen kind of node, if the job has a choice."""
        return next((kind for kind in self.kinds if kind.chosen), None)

    @property
    def bound_on_any_kind(self) -> float | None:
        """As `lower_bound`, of plans on all kinds of nodes; None: nothing is proven of one of them."""
        alike = [kind for kind in self.kinds if kind.objective is self.objective]
        bounds = [kind.lower_bound for kind in alike if kind.lower_bound is not None]
        return min(bounds) if bounds and len(bounds) == len(self.kinds) else None

    @property
    def is_thinly_sampled(self) -> bool:
        """Too few samples beyond the confidence for a reliable quantile."""
        beyond = (1 - self.problem.limits.confidence) * self.samples
        return not self.problem.is_deterministic and beyond < 10 * (1 - ROUNDING)

    @property
    def gap(self) -> float | None:
        """How much worse than the best plan it may be, as a share of the lower bound."""
        value = self.cost if self.objective is Objective.COST else self.jct_seconds
        if self.lower_bound is None:
            return None
        if value <= self.lower_bound:
            return 0.0
        return value / self.lower_bound - 1 if self.lower_bound else None

    def to_dict(self) -> dict[str, object]:
        """Plain data with stable keys; `jct_seconds` and `cost` are means."""
        limits = self.problem.limits
        several = len(self.brackets) > 1
        data: dict[str, object] = {
            "policy": "rubberband",
            "why": self.why,
            "planner": self.planner,
            "objective": self.objective.value,
            "jct_seconds": self.jct_seconds,
            "cost": self.cost,
            "jct_quantile_seconds": self.jct_quantile_seconds,
            "cost_quantile": self.cost_quantile,
            "deadline_seconds": limits.deadline_s,
            "budget": limits.budget_usd,
            "confidence": limits.confidence,
            "optimal": self.optimal,
            "lower_bound": self.lower_bound,
            "gap": self.gap,
            "peak_nodes": self.peak_nodes,
            "samples": self.samples,
            "seed": self.seed,
            "stages": [
                {**stage.to_dict(), **({"bracket": bracket.name} if several else {})}
                for bracket in self.brackets
                for stage in bracket.stages
            ],
        }
        if self.stop_when is not None:
            data["stop_when"] = self.stop_when
        data |= price_keys(self.problem.cluster)
        if self.risk is not None:
            data["risk"] = self.risk.to_dict()
        if self.speeds is not None:
            data["speeds"] = self.speeds.to_dict()
        if self.replanned is not None:
            data["replanned"] = self.replanned.to_dict()
        if self.kinds:
            data["kinds"] = [kind.to_dict() for kind in self.kinds]
        if self.frontier is not None:
            data["frontier"] = [asdict(point) for point in self.frontier]
        if self.comparison is not None:
            data["comparison"] = {
                name: None if other is None else asdict(other) for name, other in self.comparison.items()
            }
        return data


def quote_stages(workload: Workload, solution: Solution) -> tuple[StageQuote, ...]:
    outcome, stages = solution.outcome, solution.plan.stages
    rows = zip(workload.stages, stages, outcome.stage_mean_s, outcome.stage_mean_usd, strict=True)
    return tuple(
        StageQuote(
            trials=stage.trials,
            iterations=stage.iterations,
            slots=planned.allocation.slots,
            slots_per_trial=planned.allocation.slots_per_trial,
            nodes=planned.allocation.nodes,
            nodes_held=planned.nodes_held,
            seconds=seconds,
            cost=usd,
            manner=_manner(workload, number, planned.allocation.gangs),
        )
        for number, (stage, planned, seconds, usd) in enumerate(rows)
    )


def _manner(workload: Workload, stage: int, workers: int) -> str | None:
    """`hopping`, `together` or, if trials leave in the middle of a stage, one after the other."""
    if workload.hopping is None:
        return None
    return ", then ".join(manner.value for manner in manners_of(workload, stage, workers))
