"""What was promised before the run: the stages of the policy, a time and a price."""

from __future__ import annotations

from dataclasses import dataclass

from elastune.core import Progress, State
from elastune.runs.result import Estimate
from elastune.runs.setup import RunSetup


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    predicted: Estimate | None
    plan: Progress

    @property
    def seconds(self) -> float:
        """Of all stages."""
        return max(track.seconds for track in self.plan.tracks)

    def usd_at(self, at_s: float) -> float | None:
        """None: nothing was predicted. Without tracks, money goes evenly."""
        if self.plan.tracks:
            return sum(track.usd_at(at_s) for track in self.plan.tracks)
        if self.predicted is None:
            return None
        jct_s = self.predicted.jct_seconds
        return self.predicted.cost * (min(1.0, at_s / jct_s) if jct_s else 1.0)


def course_of(setup: RunSetup, predicted: Estimate | None) -> Course:
    """By what the policy has planned when a run begins."""
    policy, state = setup.make_policy(setup.job.seed), State(setup.terms)
    policy.start(state)
    return Course(predicted=predicted, plan=policy.progress(state))
