"""What the policy `forecast` expected of its leader during a run, and what came.

Made again from the journal: at each tenth of the run, the model of the policy gets the values that were known
by then and says what the leader will have reached at the iteration to which it was trained in the end. The
first rung of the policy is not in the journal; here it is the first iteration.
"""

from __future__ import annotations

from dataclasses import dataclass

from elastune.history.recorder import History
from elastune.history.trials import TrialHistory
from elastune.model.ids import TrialId
from elastune.model.metric import Mode
from elastune.policies.forecast.model import Ladder

_TENTHS = range(1, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedForecast:
    """`best` is the best value of the trial at that time; `came` that at the end."""

    at_s: float
    trial: TrialId
    iteration: int
    best: float
    until_iteration: int
    forecast: float
    spread: float
    came: float

    @property
    def error(self) -> float:
        return self.came - self.forecast


def checked_forecasts(history: History, mode: Mode) -> tuple[CheckedForecast, ...]:
    """Those of leaders that were trained further, each once."""
    sign = -1.0 if mode is Mode.MAX else 1.0
    found: dict[tuple[TrialId, int], CheckedForecast] = {}
    for tenth in _TENTHS:
        at_s = history.end_s * tenth / 10
        leader = next((step.trial for step in reversed(history.best) if step.at_s <= at_s), None)
        if leader is None:
            continue
        ladder = Ladder(1)
        scores = {number: _losses(trial, at_s, sign) for number, trial in history.trials.items()}
        for number, losses in scores.items():
            ladder.record(number, losses)
        known, all_ = scores[leader], _losses(history.trials[leader], history.end_s, sign)
        if not known or len(all_) <= len(known):
            continue
        told = ladder.forecast(leader, known, len(all_))
        found.setdefault(
            (leader, len(known)),
            CheckedForecast(
                at_s=at_s,
                trial=leader,
                iteration=len(known),
                best=sign * min(known),
                until_iteration=told.iterations,
                forecast=sign * told.score,
                spread=told.spread,
                came=sign * min(all_),
            ),
        )
    return tuple(found.values())


def _losses(trial: TrialHistory, until_s: float, sign: float) -> list[float]:
    """After iterations 1, 2, ...; of repeated ones the last. None of a trial that began with a parent's."""
    by_iteration = {point.iteration: sign * point.value for point in trial.points if point.at_s <= until_s}
    losses: list[float] = []
    while (loss := by_iteration.get(len(losses) + 1)) is not None:
        losses.append(loss)
    return losses
