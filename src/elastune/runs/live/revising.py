"""A course that was planned again: what is over stays, the new plan begins when it was made."""

from __future__ import annotations

from dataclasses import replace

from elastune.core import Policy, State
from elastune.policies.bracket import Bracket
from elastune.policies.rubberband import RubberBand
from elastune.runs.live.course import Course, Leg, Track
from elastune.runs.live.places import done_share

Plans = tuple[tuple[int, int, int], ...]
"""Which plan each bracket follows, and from which stage on."""


def plans_of(policy: Policy | None) -> Plans:
    """Empty for a policy without a plan. Another value means that there is another plan."""
    if not isinstance(policy, RubberBand):
        return ()
    return tuple((id(bracket.quote), bracket.quoted, bracket.first_stage) for bracket in policy.brackets)


def revised(course: Course, policy: Policy | None, state: State, *, at_s: float, now_s: float) -> Course:
    """`at_s`: when the plan was made, which may be a moment ago."""
    if not isinstance(policy, RubberBand) or len(policy.brackets) != len(course.tracks):
        return course
    tracks = tuple(
        _revised(track, bracket, state, at_s, now_s)
        for track, bracket in zip(course.tracks, policy.brackets, strict=True)
    )
    return replace(course, tracks=tracks)


def _revised(track: Track, bracket: Bracket, state: State, at_s: float, now_s: float) -> Track:
    if bracket.is_done or not bracket.first_stage < len(track.legs):
        return track
    over = track.legs[: bracket.first_stage]
    quoted = bracket.quote.brackets[bracket.quoted].stages
    cluster = state.terms.cluster
    boot_s = cluster.queue.mean + cluster.init.mean
    held = state.pool(bracket.pool).ready
    usd = track.legs[bracket.first_stage].begin_usd
    legs: list[Leg] = []
    for leg, stage in zip(track.legs[bracket.first_stage :], quoted, strict=False):
        legs.append(
            replace(
                leg,
                nodes=stage.nodes_held,
                begin_s=at_s,
                seconds=stage.seconds,
                boot_s=min(boot_s, stage.seconds) if stage.nodes_held > held else 0.0,
                begin_usd=usd,
                usd=stage.cost,
                done=0.0 if legs else _done_before(leg, stage.seconds, bracket.pool, state, now_s - at_s),
            )
        )
        at_s, usd, held = at_s + stage.seconds, usd + stage.cost, stage.nodes_held
    return Track(legs=(*over, *legs))


def _done_before(leg: Leg, seconds: float, pool: int, state: State, passed_s: float) -> float:
    """Of a stage, what was done when the plan was made; since then it has gone on as planned."""
    share = done_share(leg, pool, state)
    since = passed_s / seconds if seconds else 0.0
    return min(1.0, max(0.0, (share - since) / (1.0 - since))) if since < 1.0 else 0.0
