"""How a run ends: it winds up (nothing new begins, what runs is saved), then everything is given back."""

from __future__ import annotations

from elastune.core import gangs, manager
from elastune.core.commands import Ending, EndRun
from elastune.core.lifecycle import Phase
from elastune.core.turn import Turn
from elastune.core.wishes import Wishes


def close(turn: Turn, ending: Ending) -> None:
    """Wind up. The first reason counts."""
    state = turn.state
    if state.closing is not None or state.ended is not None:
        return
    state.closing = ending
    state.wishes, state.wished = Wishes(), {}
    for room in state.rooms.values():
        room.queue.clear()
        room.targets = None
    for number in tuple(state.held):
        gangs.revoke(turn, state.trials[number])


def end_run(turn: Turn, ending: Ending) -> None:
    """Everything ends now: gangs, nodes, timers."""
    state = turn.state
    if state.ended is not None:
        return
    close(turn, ending)
    for number in tuple(state.held):
        gangs.stop(turn, state.trials[number])
    for trial in state.living():
        trial.step(Phase.STOPPED)
    for room in state.rooms.values():
        manager.release(turn, room, list(room.pool.nodes.values()))
    for timer in tuple(state.timers):
        turn.cancel_timer(timer)
    state.ended, state.ended_s = state.closing, state.now_s
    state.ledger.close(state.now_s)
    turn.tell(EndRun(reason=state.closing or ending, best=state.best))
