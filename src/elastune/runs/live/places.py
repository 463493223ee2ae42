"""How far a run is on its tracks by a clock that goes on between events, and when the plan was as far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from elastune.core import ScheduledStage, State, TrackProgress
from elastune.core.ledger import StageAccount
from elastune.runs.live.scene import StageLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    track: TrackProgress
    share: float
    """Of the work or time of the present stage."""
    planned_s: float
    """When the plan is as far."""

    @property
    def left_s(self) -> float:
        return max(0.0, self.track.seconds - self.planned_s)

    @property
    def left_usd(self) -> float:
        return self.track.usd_at(self.track.seconds) - self.track.usd_at(self.planned_s)


def place_on(track: TrackProgress, state: State, now_s: float) -> Place:
    stage = track.stage
    if stage is None:
        return Place(track=track, share=1.0, planned_s=track.seconds)
    if track.ends_s is not None:
        left_s = min(stage.seconds, max(0.0, track.ends_s - now_s))
        share = 1.0 - left_s / stage.seconds if stage.seconds else 1.0
        return Place(track=track, share=share, planned_s=stage.end_s - left_s)
    if track.share > stage.done:
        left = (1.0 - track.share) / (1.0 - stage.done)
        planned_s = stage.end_s - left * (stage.seconds - stage.boot_s)
    elif stage.goal is None:
        planned_s = min(now_s, stage.begin_s)
    else:
        waited_s = now_s - max(stage.begin_s, _began_s(track, state))
        planned_s = stage.begin_s + min(stage.boot_s, max(0.0, waited_s))
    return Place(track=track, share=track.share, planned_s=planned_s)


def _began_s(track: TrackProgress, state: State) -> float:
    """When the present stage really began; now, if it has not."""
    for account in reversed(state.ledger.stages):
        if account.pool == track.pool and account.stage == track.present:
            return account.began_s
    return state.now_s


def stage_lines(places: Sequence[Place], state: State) -> tuple[StageLine, ...]:
    accounts = {(each.pool, each.stage): each for each in state.ledger.stages}
    return tuple(
        _line(stage, number, place, None if pool is None else accounts.get((pool, number)))
        for place in places
        for pool in [place.track.pool]
        for number, stage in enumerate(place.track.stages)
    )


def _line(stage: ScheduledStage, number: int, place: Place, account: StageAccount | None) -> StageLine:
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
