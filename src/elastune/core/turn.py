"""One event being handled: the state it changes and the commands it causes."""

from __future__ import annotations

from elastune.core.commands import AnyCommand, CancelTimer, Note, SetTimer
from elastune.core.state import State


class Turn:
    """What the modules of the core pass on to each other while an event is handled."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.commands: list[AnyCommand] = []

    def tell(self, command: AnyCommand) -> None:
        self.commands.append(command)

    def note(self, topic: str, text: str) -> None:
        self.commands.append(Note(topic=topic, text=text))

    def set_timer(self, timer: str, at_s: float, *, fresh: bool = False) -> None:
        state, at_s = self.state, max(at_s, self.state.now_s)
        if state.timers.get(timer) != at_s:
            state.timers[timer] = at_s
            if fresh:
                state.fresh[timer] = None
            self.tell(SetTimer(timer=timer, at_s=at_s, fresh=fresh))

    def cancel_timer(self, timer: str) -> None:
        self.state.fresh.pop(timer, None)
        if self.state.timers.pop(timer, None) is not None:
            self.tell(CancelTimer(timer=timer))
