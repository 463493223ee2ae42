"""What comes next, and when, as far as it can be known: by plan, by the timers of the policy and the core."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from elastune.core import Progress, ScheduledStage, State, Upcoming, guards, manager, membership
from elastune.runs.live.places import Place
from elastune.units import format_duration, plural


def coming_up(
    state: State, now_s: float, progress: Progress, places: Sequence[Place]
) -> tuple[Upcoming, ...]:
    """The next first."""
    if state.ended is not None:
        return ()
    if state.closing is not None or state.resting:
        then = "the run rests, to be resumed" if state.resting else f"the run ends: {state.closing}"
        return (Upcoming(at_s=None, text=f"what trains is saved, nodes go; then {then}"),)
    ahead = [
        *_stages(now_s, progress.word, places),
        *membership.upcoming(state),
        *progress.upcoming,
        *manager.upcoming(state),
        *guards.upcoming(state),
    ]
    last_s = state.limits.deadline_s
    in_time = [each for each in ahead if last_s is None or each.at_s is None or each.at_s <= last_s]
    return tuple(sorted(in_time, key=lambda each: math.inf if each.at_s is None else each.at_s))


def _stages(now_s: float, word: str, places: Sequence[Place]) -> Iterator[Upcoming]:
    for place in places:
        track = place.track
        stage = track.stage
        if stage is None:
            continue
        if not track.trains:
            at_s = now_s + max(0.0, stage.begin_s + stage.boot_s - place.planned_s)
            yield Upcoming(at_s=at_s, text=_begins(word, stage))
        end_s = now_s + max(0.0, stage.end_s - place.planned_s)
        if track.next is not None:
            yield Upcoming(at_s=end_s, text=_begins(word, track.next) + _change(stage, track.next))
        elif len(places) == 1:
            yield Upcoming(at_s=end_s, text="the end: the best model is kept, all nodes go")


def _change(stage: ScheduledStage, following: ScheduledStage) -> str:
    change = following.nodes - stage.nodes
    if not change:
        return ""
    one = abs(change) == 1
    verb = ("comes" if one else "come") if change > 0 else ("goes" if one else "go")
    return f"; {plural(abs(change), 'node')} {verb}"


def _begins(word: str, stage: ScheduledStage) -> str:
    work = "" if stage.iterations is None else f" for {plural(stage.iterations, 'more iteration')}"
    long = f" for {format_duration(stage.seconds)}" if stage.iterations is None else ""
    where = f" on {plural(stage.nodes, 'node')}"
    return f"{word} {stage.name}, {plural(stage.trials, 'trial')}{work}{long}{where}"
