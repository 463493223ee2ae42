"""What nodes that may be taken away do to a quote: figures of rehearsals in which they are."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotRisk:
    """Time and money are means of the rehearsals, beside the least and the most of them."""

    interruptions_per_hour: float
    """Of one node, as expected."""
    rehearsals: int
    kept: int
    """Of the rehearsals, those that kept deadline and budget; with a plan, to its end."""
    interruptions: float
    """In one rehearsal."""
    jct_seconds: float
    jct_seconds_range: tuple[float, float]
    cost: float
    cost_range: tuple[float, float]
    iterations: float
    """Trained in one rehearsal."""

    @property
    def share_kept(self) -> float:
        return self.kept / self.rehearsals

    def to_dict(self) -> dict[str, object]:
        return asdict(self)
