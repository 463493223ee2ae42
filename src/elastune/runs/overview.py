"""Several runs of one job at a glance: what `simulate` shows in the end, and `status` at any time after."""

from __future__ import annotations

from dataclasses import dataclass

from elastune.journal import RunFolder
from elastune.runs.summary import PolicySummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Of the runs that have ended. `asked` is how many there were to be."""

    name: str
    faults: str | None
    """None: not known."""
    runs: tuple[str, ...]
    """Their ids."""
    asked: int
    summaries: tuple[PolicySummary, ...]
    folder: RunFolder | None

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(sorted({seed for summary in self.summaries for seed in summary.seeds}))
