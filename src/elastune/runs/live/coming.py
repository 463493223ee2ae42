"""What comes next, and when, as far as it can be known: by plan, by the clock, by the timers of the core."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from elastune.core import State
from elastune.core.guards import DEADLINE_CALL
from elastune.core.manager import RETRY
from elastune.core.membership import BOOT
from elastune.runs.live.course import Course, Leg
from elastune.runs.live.places import Place
from elastune.runs.live.scene import Coming
from elastune.units import format_duration, plural

_TIMERS = {
    "rounds:boot": "the first round begins with the nodes that are up by then",
    "hypersched:review": "the slots are shared out again, by how the trials do",
    "profile:step": "the next thing is measured",
    DEADLINE_CALL: "last call: what still trains is saved, to be done by the deadline",
}
_LATE = "late:"


def coming_up(state: State, now_s: float, course: Course, places: Sequence[Place]) -> tuple[Coming, ...]:
    """The next first."""
    if state.ended is not None:
        return ()
    if state.closing is not None or state.resting:
        then = "the run rests, to be resumed" if state.resting else f"the run ends: {state.closing}"
        return (Coming(at_s=None, text=f"what trains is saved, nodes go; then {then}"),)
    ahead = [*_stages(now_s, course, places), *_timers(state, course)]
    last_s = state.limits.deadline_s
    in_time = [each for each in ahead if last_s is None or each.at_s is None or each.at_s <= last_s]
    return tuple(sorted(in_time, key=lambda each: math.inf if each.at_s is None else each.at_s))


def _stages(now_s: float, course: Course, places: Sequence[Place]) -> Iterator[Coming]:
    for place in places:
        leg = place.present
        if leg is None:
            continue
        if not place.trains:
            at_s = now_s + max(0.0, leg.begin_s + leg.boot_s - place.planned_s)
            yield Coming(at_s=at_s, text=_begins(course.word, leg))
        end_s = now_s + place.left_of_leg_s
        following = place.next
        if following is not None:
            text = _begins(course.word, following)
            change = following.nodes - leg.nodes
            if change:
                one = abs(change) == 1
                verb = ("comes" if one else "come") if change > 0 else ("goes" if one else "go")
                text += f"; {plural(abs(change), 'node')} {verb}"
            yield Coming(at_s=end_s, text=text)
        elif len(places) == 1:
            yield Coming(at_s=end_s, text="the end: the best model is kept, all nodes go")


def _begins(word: str, leg: Leg) -> str:
    work = "" if leg.iterations is None else f" for {plural(leg.iterations, 'more iteration')}"
    long = f" for {format_duration(leg.seconds)}" if leg.iterations is None else ""
    where = f" on {plural(leg.nodes, 'node')}"
    return f"{word} {leg.name}, {plural(leg.trials, 'trial')}{work}{long}{where}"


def _timers(state: State, course: Course) -> Iterator[Coming]:
    boots = [at_s for timer, at_s in state.timers.items() if timer.startswith(BOOT)]
    if boots:
        yield Coming(at_s=min(boots), text="nodes that are not up by then are given back")
    for timer, at_s in state.timers.items():
        if timer in _TIMERS:
            yield Coming(at_s=at_s, text=_TIMERS[timer])
        elif timer.startswith(RETRY):
            yield Coming(at_s=at_s, text="more nodes are asked for once more")
        elif timer.startswith(_LATE):
            _, pool, stage = timer.split(":")
            leg = _leg(course, int(pool), int(stage))
            is_present = leg is not None and state.pool(int(pool)).stage == int(stage)
            if leg is not None and is_present and at_s < state.timers.get(DEADLINE_CALL, math.inf):
                yield Coming(at_s=at_s, text=f"if stage {leg.name} still trains, the rest is planned again")
    if state.limits.budget_usd is not None and state.money_call_s is not None:
        yield Coming(at_s=state.money_call_s, text="the budget is used up, if all nodes of now stay")


def _leg(course: Course, pool: int, stage: int) -> Leg | None:
    if pool >= len(course.tracks) or stage >= len(course.tracks[pool].legs):
        return None
    return course.tracks[pool].legs[stage]
