"""The metrics of one iteration that is made of several visits: means by the rows of each partition.

A tally travels with the model from worker to worker, so that whoever has the last visit can tell the row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

_KINDS = ("training", "evaluation")


@dataclass(slots=True)
class Means:
    """Sums of value times rows, and of rows, by metric."""

    sums: dict[str, float] = field(default_factory=dict)
    rows: dict[str, float] = field(default_factory=dict)

    def add(self, metrics: Mapping[str, float], rows: float) -> None:
        for name, value in metrics.items():
            self.sums[name] = self.sums.get(name, 0.0) + value * rows
            self.rows[name] = self.rows.get(name, 0.0) + rows

    def read(self) -> dict[str, float]:
        return {name: total / self.rows[name] for name, total in self.sums.items() if self.rows[name]}


@dataclass(slots=True)
class Tally:
    """Of training and of evaluation; where both tell the same metric, the evaluation's counts."""

    training: Means = field(default_factory=Means)
    evaluation: Means = field(default_factory=Means)
    unsaved_s: float = 0.0
    """Training since the last durable state."""

    def add(self, metrics: Mapping[str, float], rows: float, *, evaluates: bool) -> None:
        (self.evaluation if evaluates else self.training).add(metrics, rows)

    def row(self) -> dict[str, float]:
        return {**self.training.read(), **self.evaluation.read()}

    def plain(self) -> dict[str, Any]:
        """As it is kept in a checkpoint."""
        return {
            "training": [dict(self.training.sums), dict(self.training.rows)],
            "evaluation": [dict(self.evaluation.sums), dict(self.evaluation.rows)],
            "unsaved_s": self.unsaved_s,
        }

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        training, evaluation = (_means(plain[kind]) for kind in _KINDS)
        return cls(training, evaluation, float(plain["unsaved_s"]))


def _means(plain: Sequence[Mapping[str, float]]) -> Means:
    return Means(*(dict(each) for each in plain))
