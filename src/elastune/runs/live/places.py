"""How far a run is on its course: in which stage, how much of it is done, and when the plan was as far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from elastune.core import State, Trial
from elastune.core.ledger import StageAccount
from elastune.core.trials import Activity
from elastune.runs.live.course import Course, Leg, Track
from elastune.runs.live.scene import StageLine

_ROUND = "round:"
# An iteration is heard of when it ends; on average, half of the next one is done.
_UNSEEN = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """On one track. `leg` is beyond the last where all is done."""

    track: Track
    leg: int
    share: float
    """Of the work or time of the leg."""
    planned_s: float
    """When the plan is as far."""
    trains: bool
    """False: its nodes are still awaited."""

    @property
    def left_s(self) -> float:
        return max(0.0, self.track.seconds - self.planned_s)

    @property
    def left_usd(self) -> float:
        return self.track.usd_at(self.track.seconds) - self.track.usd_at(self.planned_s)

    @property
    def left_of_leg_s(self) -> float:
        return max(0.0, self.track.legs[self.leg].end_s - self.planned_s)

    @property
    def present(self) -> Leg | None:
        return self.track.legs[self.leg] if self.leg < len(self.track.legs) else None

    @property
    def next(self) -> Leg | None:
        return self.track.legs[self.leg + 1] if self.leg + 1 < len(self.track.legs) else None


def places_of(course: Course, state: State, now_s: float) -> tuple[Place, ...]:
    if course.is_by_clock:
        return tuple(_by_clock(course, number, state, now_s) for number in range(len(course.tracks)))
    return tuple(_by_work(track, pool, state, now_s) for pool, track in enumerate(course.tracks))


def _by_work(track: Track, pool: int, state: State, now_s: float) -> Place:
    room = state.rooms.get(pool)
    number = 0 if room is None else room.pool.stage
    if number >= len(track.legs) or state.ended is not None:
        return Place(track=track, leg=len(track.legs), share=1.0, planned_s=track.seconds, trains=False)
    leg = track.legs[number]
    share = done_share(leg, pool, state)
    trains = any(wish.pool == pool for wish in state.wished.values())
    if share > leg.done:
        planned_s = leg.end_s - (1.0 - share) / (1.0 - leg.done) * (leg.seconds - leg.boot_s)
    else:
        waited_s = now_s - max(leg.begin_s, began_s(state, pool, number))
        planned_s = leg.begin_s + min(leg.boot_s, max(0.0, waited_s))
    return Place(track=track, leg=number, share=share, planned_s=planned_s, trains=trains)


def done_share(leg: Leg, pool: int, state: State) -> float:
    """Of the work of the present stage of a pool."""
    assert leg.goal is not None
    assert leg.iterations is not None
    before, goal = leg.goal - leg.iterations, leg.goal
    done, trials = 0.0, 0
    for wish in state.wished.values():
        if wish.pool == pool:
            trial = state.trials[wish.trial]
            iterations = len(trial.values)
            trials += 1
            if trial.phase.is_over or iterations >= goal:
                done += goal - before
            else:
                done += max(0, iterations - before) + _begun(state, trial)
    return min(1.0, done / (trials * leg.iterations)) if trials else 0.0


def _begun(state: State, trial: Trial) -> float:
    """Of the next iteration; where models hop, visits are heard of."""
    if state.terms.data is None or (trial.activity is not None and trial.visit is None):
        return _UNSEEN if trial.activity is Activity.TRAINING else 0.0
    tour = state.tours.get(trial.number)
    seen = () if tour is None or tour.iteration != trial.iteration + 1 else tour.seen
    return sum(state.terms.data.part_of_iteration(partition) for partition in seen)


def _by_clock(course: Course, number: int, state: State, now_s: float) -> Place:
    """With one track the core's stages are its rounds; where several share them, the plan's clock tells."""
    track = course.tracks[number]
    end_s = state.timers.get(f"{_ROUND}{number}")
    if len(course.tracks) == 1:
        room = state.rooms.get(0)
        leg = 0 if room is None else room.pool.stage
    else:
        leg = sum(now_s >= each.end_s for each in track.legs)
    if leg >= len(track.legs) or state.ended is not None:
        return Place(track=track, leg=len(track.legs), share=1.0, planned_s=track.seconds, trains=False)
    present = track.legs[leg]
    if end_s is None:
        planned_s = min(now_s, present.begin_s)
        return Place(track=track, leg=leg, share=0.0, planned_s=planned_s, trains=False)
    left_s = min(present.seconds, max(0.0, end_s - now_s))
    share = 1.0 - left_s / present.seconds if present.seconds else 1.0
    return Place(track=track, leg=leg, share=share, planned_s=present.end_s - left_s, trains=True)


def stage_lines(course: Course, places: Sequence[Place], state: State) -> tuple[StageLine, ...]:
    accounts = {(each.pool, each.stage): each for each in state.ledger.stages}
    shared = course.is_by_clock and len(course.tracks) > 1
    return tuple(
        _line(leg, number, places[pool], None if shared else accounts.get((pool, number)))
        for pool, track in enumerate(course.tracks)
        for number, leg in enumerate(track.legs)
    )


def _line(leg: Leg, number: int, place: Place, account: StageAccount | None) -> StageLine:
    is_present = number == place.leg
    return StageLine(
        name=leg.name,
        trials=leg.trials,
        iterations=leg.iterations,
        nodes=leg.nodes,
        planned_begin_s=leg.begin_s,
        planned_end_s=leg.end_s,
        began_s=None if account is None else account.began_s,
        ended_s=None if account is None else account.ended_s,
        is_present=is_present,
        share=place.share if is_present else float(number < place.leg),
    )


def began_s(state: State, pool: int, stage: int) -> float:
    """When a stage really began; the present, if it has not."""
    for account in reversed(state.ledger.stages):
        if account.pool == pool and account.stage == stage:
            return account.began_s
    return state.now_s
