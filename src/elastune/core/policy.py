"""The contract of a policy: events in, advice out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from elastune.core.events import AnyEvent
from elastune.core.progress import Progress
from elastune.core.wishes import Advice

if TYPE_CHECKING:
    from elastune.core.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Vetoed:
    """Not an event of the journal.

    The core refused nodes that the policy wants, and follows from the state.
    """

    at_s: float
    pool: int
    wanted: int
    allowed: int
    why: str


class Policy(Protocol):
    """Decides which trials train, on how many slots, for how long, and how many nodes that needs.

    It may keep a memory of its own, but only of what it was told: the same events give the same advice. It
    looks at the state and does not touch it.
    """

    def start(self, state: State) -> Advice:
        """The run begins."""

    def handle(self, event: AnyEvent | Vetoed, state: State) -> Advice | None:
        """Something happened and is already part of the state. None: all wishes stand."""

    def progress(self, state: State) -> Progress:
        """How far it is, what it has planned and what its timers are for. It changes nothing.

        A policy that derives from this class and has no plan need not say anything.
        """
        return Progress()
