"""Where a run is in its plan, what was planned before it, and what comes next.

The position moves with the clock also between events. Upcoming events come from the plan and from the timers
of the policy and the core.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from elastune.core import cluster_manager, limits, node_events
from elastune.core.ledger import StageAccount
from elastune.core.policy import Progress, ScheduledStage, TrackProgress, Upcoming
from elastune.core.state import State
from elastune.history.result import Estimate
from elastune.setup.run_setup import RunSetup
from elastune.views.live.snapshot import StageLine
from elastune.wording import format_duration, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlace:
    track: TrackProgress
    share: float  # of the work or time of the present stage
    planned_s: float  # when the plan reaches this point

    @property
    def left_s(self) -> float:
        return max(0.0, self.track.seconds - self.planned_s)

    @property
    def left_usd(self) -> float:
        return self.track.usd_at(self.track.seconds) - self.track.usd_at(self.planned_s)


def place_on(track: TrackProgress, state: State, now_s: float) -> PoolPlace:
    stage = track.stage
    if stage is None:
        return PoolPlace(track=track, share=1.0, planned_s=track.seconds)
    if track.ends_s is not None:
        left_s = min(stage.seconds, max(0.0, track.ends_s - now_s))
        share = 1.0 - left_s / stage.seconds if stage.seconds else 1.0
        return PoolPlace(track=track, share=share, planned_s=stage.end_s - left_s)
    if track.share > stage.done:
        left = (1.0 - track.share) / (1.0 - stage.done)
        planned_s = stage.end_s - left * (stage.seconds - stage.boot_s)
    elif stage.goal is None:
        planned_s = min(now_s, stage.begin_s)
    else:
        waited_s = now_s - max(stage.begin_s, _began_s(track, state))
        planned_s = stage.begin_s + min(stage.boot_s, max(0.0, waited_s))
    return PoolPlace(track=track, share=track.share, planned_s=planned_s)


def _began_s(track: TrackProgress, state: State) -> float:
    """When the present stage began; now, if it has not."""
    accounts = (each for each in reversed(state.ledger.stages) if each.pool == track.pool)
    return next((each.began_s for each in accounts if each.stage == track.present), state.now_s)


def stage_lines(places: Sequence[PoolPlace], state: State) -> tuple[StageLine, ...]:
    accounts = {(each.pool, each.stage): each for each in state.ledger.stages}
    return tuple(
        _line(stage, number, place, None if pool is None else accounts.get((pool, number)))
        for place in places
        for pool in [place.track.pool]
        for number, stage in enumerate(place.track.stages)
    )


def _line(stage: ScheduledStage, number: int, place: PoolPlace, account: StageAccount | None) -> StageLine:
    is_present = number == place.track.present
    return StageLine(
        name=stage.name,
        trials=stage.trials,
        iterations=stage.iterations,
        nodes=stage.nodes,
        planned_begin_s=stage.begin_s,
        planned_end_s=stage.end_s,
        began_s=None if account is None else account.began_s,
        ended_s=None if account is None else account.ended_s,
        is_present=is_present,
        share=place.share if is_present else float(number < place.track.present),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    predicted: Estimate | None
    plan: Progress

    @property
    def seconds(self) -> float:
        """Of all stages."""
        return max(track.seconds for track in self.plan.tracks)

    def usd_at(self, at_s: float) -> float | None:
        """None: nothing was predicted. Without tracks, money is spent evenly."""
        if self.plan.tracks:
            return sum(track.usd_at(at_s) for track in self.plan.tracks)
        if self.predicted is None:
            return None
        jct_s = self.predicted.jct_seconds
        return self.predicted.cost * (min(1.0, at_s / jct_s) if jct_s else 1.0)


def promise_of(setup: RunSetup, predicted: Estimate | None) -> Promise:
    """The plan of the policy at the start of a run."""
    policy, state = setup.make_policy(setup.job.seed), State(setup.terms)
    policy.start(state)
    return Promise(predicted=predicted, plan=policy.progress(state))


def upcoming_events(
    state: State, now_s: float, progress: Progress, places: Sequence[PoolPlace]
) -> tuple[Upcoming, ...]:
    """The next first."""
    if state.ended is not None:
        return ()
    if state.shutdown is not None or state.suspended:
        then = "is suspended, to be resumed" if state.suspended else f"ends: {state.shutdown}"
        return (Upcoming(at_s=None, text=f"training is saved, nodes are released; then the run {then}"),)
    ahead = [
        *_stages(now_s, progress.word, places),
        *node_events.upcoming(state),
        *progress.upcoming,
        *cluster_manager.upcoming(state),
        *limits.upcoming(state),
    ]
    last_s = state.limits.deadline_s
    in_time = [each for each in ahead if last_s is None or each.at_s is None or each.at_s <= last_s]
    return tuple(sorted(in_time, key=lambda each: math.inf if each.at_s is None else each.at_s))


def _stages(now_s: float, word: str, places: Sequence[PoolPlace]) -> Iterator[Upcoming]:
    for place in places:
        track, stage = place.track, place.track.stage
        if stage is None:
            continue
        if not track.trains:
            at_s = now_s + max(0.0, stage.begin_s + stage.boot_s - place.planned_s)
            yield Upcoming(at_s=at_s, text=_begins(word, stage))
        end_s = now_s + max(0.0, stage.end_s - place.planned_s)
        if track.next is not None:
            yield Upcoming(at_s=end_s, text=_begins(word, track.next) + _change(stage, track.next))
        elif len(places) == 1:
            yield Upcoming(at_s=end_s, text="the end: the best model is kept, all nodes are released")


def _change(stage: ScheduledStage, following: ScheduledStage) -> str:
    change = following.nodes - stage.nodes
    if not change:
        return ""
    verb = ("come" if change > 0 else "go") if abs(change) > 1 else "comes" if change > 0 else "goes"
    return f"; {plural(abs(change), 'node')} {verb}"


def _begins(word: str, stage: ScheduledStage) -> str:
    by_clock = stage.iterations is None
    work = format_duration(stage.seconds) if by_clock else plural(stage.iterations or 0, "more iteration")
    trials, nodes = plural(stage.trials, "trial"), plural(stage.nodes, "node")
    return f"{word} {stage.name}, {trials} for {work} on {nodes}"
