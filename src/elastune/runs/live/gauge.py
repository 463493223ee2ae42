"""Time or money against what is allowed and what was planned."""

from __future__ import annotations

from dataclasses import dataclass

# Nobody wants to hear of less: a plan is a mean, and an iteration is counted when it ends.
_NEARLY = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """None: there is no such limit, or no plan that says so."""

    now: float
    limit: float | None = None
    planned_now: float | None = None
    """What the plan has used when it is as far as the run is now."""
    planned_end: float | None = None
    expected_end: float | None = None
    """By what was used so far, and by the plan for the rest."""
    grain: float = 0.0
    """Differences below this say nothing."""

    @property
    def full(self) -> float:
        """Where a bar ends."""
        ends = (self.limit, self.planned_end, self.expected_end)
        known = [end for end in ends if end is not None]
        return max(self.now, self.limit if self.limit is not None else max(known, default=self.now))

    @property
    def ahead(self) -> float | None:
        """By how much the run used more than the plan, to be as far; 0.0: as planned."""
        if self.planned_now is None:
            return None
        more = self.now - self.planned_now
        least = max(self.grain, _NEARLY * (self.planned_end or 0.0))
        return more if abs(more) > least else 0.0

    @property
    def is_in_danger(self) -> bool:
        """The limit will be exceeded, as things are."""
        return self.limit is not None and (self.expected_end or self.now) > self.limit
