"""Where models hop: how far the present epochs are, and who holds what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from elastune.core import Progress, State, Trial
from elastune.core.tours import Hall
from elastune.place import NodeId
from elastune.runs.live.scene import RoundLine


def round_lines(state: State, progress: Progress) -> tuple[RoundLine, ...]:
    return tuple(
        line
        for pool, room in state.rooms.items()
        if (line := _line(state, room.hall, _epochs(progress, pool))) is not None
    )


def _line(state: State, hall: Hall, epochs: int | None) -> RoundLine | None:
    now = hall.round
    if now is None or state.ended is not None:
        return None
    visits = len(now.floor.trials) * len(now.floor.partitions)
    left = int(now.floor.todo.sum()) + len(now.floor.running)
    underway = [state.trials[trial].iteration + 1 for trial in now.open]
    through = [state.trials[trial].iteration for trial in now.floor.trials]
    return RoundLine(
        epoch=max(underway or through),
        epochs=epochs,
        trials=len(now.open),
        done=visits - left,
        visits=visits,
        evaluates=now.evaluates,
        workers=len(hall.roster),
    )


def _epochs(progress: Progress, pool: int) -> int | None:
    """By the plan."""
    return next((track.stages[-1].goal for track in progress.tracks if track.pool == pool), None)


def partitions_held(state: State) -> Counter[NodeId] | None:
    """By node; None: the data are not partitioned."""
    if state.terms.data is None:
        return None
    held: Counter[NodeId] = Counter()
    for room in state.rooms.values():
        nodes = {f"{slot.node}:{slot.number}": slot.node for slot in room.hall.roster}
        for worker, partitions in room.hall.layout.items():
            if worker in nodes:
                held[nodes[worker]] += len(partitions)
    return held


def together(state: State) -> Iterator[int]:
    """Trials that have all workers of their pool."""
    for number in state.held:
        trial = state.trials[number]
        if trial.shares and trial.visit is None:
            yield trial.number


def where(trial: Trial) -> str:
    """`on partition 4, n0:1`; nothing for a trial that is on no visit."""
    if trial.visit is None or not trial.gang:
        return ""
    slot = trial.gang[0]
    return f"on partition {trial.visit.partition}, {slot.node}:{slot.number}"
