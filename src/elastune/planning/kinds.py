"""One kind of node against the others, and what is said of a price."""

from __future__ import annotations

from dataclasses import dataclass

from elastune.cluster import ClusterTerms
from elastune.planning.risk import SpotRisk


def price_source(terms: ClusterTerms) -> str | None:
    """Where a price comes from that was looked up."""
    return None if terms.is_priced_by_job else terms.price_source


def price_keys(terms: ClusterTerms | None) -> dict[str, object]:
    """For programs: a price that was looked up."""
    source = None if terms is None else price_source(terms)
    if terms is None or source is None:
        return {}
    most = terms.most_price_per_hour
    return {
        "price_per_hour": terms.price_per_hour,
        "price_source": source,
        **({} if most is None else {"most_price_per_hour": most}),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class KindQuote:
    """What the job takes on one kind of node."""

    name: str
    price_per_hour: float
    price_source: str | None
    jct_seconds: float | None
    cost: float | None
    """As in a quote without interruptions; None: there is none, because the limits cannot be kept."""
    risk: SpotRisk | None
    iterations: float | None
    """Trained in a rehearsal, of a search that goes as far as its limits let it; None: of a plan."""
    keeps: bool
    """The limits, and as surely as the job wants it."""
    why_not: str = ""
    chosen: bool = False

    @property
    def expected_cost(self) -> float:
        """With interruptions, where there are any."""
        return self._figure(None if self.risk is None else self.risk.cost, self.cost)

    @property
    def expected_seconds(self) -> float:
        return self._figure(None if self.risk is None else self.risk.jct_seconds, self.jct_seconds)

    @staticmethod
    def _figure(risky: float | None, plain: float | None) -> float:
        return next((value for value in (risky, plain) if value is not None), float("inf"))

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
        }
