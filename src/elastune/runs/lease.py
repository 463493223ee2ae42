"""Until when nodes may live if nobody watches them, as the run last said."""

from __future__ import annotations

from elastune.core import State, guards


class Lease:
    """Written by the run after everything that happens, read by whoever renews leases, from any thread."""

    def __init__(self) -> None:
        self._until_s: float | None = None

    def __call__(self) -> float | None:
        """By the run's clock; None: the run has not begun yet, or not begun again."""
        return self._until_s

    def shorten(self, state: State) -> None:
        """Before anything is done about what happened: more nodes may be about to share the money."""
        until_s = guards.may_live_until_s(state)
        self._until_s = until_s if self._until_s is None else min(until_s, self._until_s)

    def reckon(self, state: State) -> None:
        """Once it is done: those that were given back cost nothing more."""
        self._until_s = guards.may_live_until_s(state)
