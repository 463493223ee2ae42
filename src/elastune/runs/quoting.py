"""The price of a search that decides while it runs: what it means to do, and what rehearsals of it took."""

from __future__ import annotations

from dataclasses import dataclass

from elastune.cluster import ClusterTerms
from elastune.job import Job
from elastune.job.choice import Choice
from elastune.planning import Limits
from elastune.planning.kinds import KindQuote, price_keys
from elastune.planning.risk import SpotRisk
from elastune.policies import Outline
from elastune.runs.rehearsing import rehearse
from elastune.runs.result import Estimate
from elastune.runs.setup import Purpose, RunSetup, prepare

_ALIKE = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyQuote:
    """`predicted` are means; the limits are kept whatever happens, by ending the run."""

    choice: Choice
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


def quote_policy(job: Job, policy: str | None = None) -> PolicyQuote:
    """Raises `InfeasibleError` if the policy cannot keep the limits."""
    from elastune.runs.interruptions import with_risk  # noqa: PLC0415  which needs what is quoted here

    setup = prepare(job, policy, purpose=Purpose.QUOTE)
    return with_risk(quote_of(setup), setup)


def quote_of(setup: RunSetup) -> PolicyQuote:
    rehearsed = rehearse(setup)
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
