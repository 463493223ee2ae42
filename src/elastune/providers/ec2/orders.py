"""One request for nodes on its way through the wares: what was tried, what came of it, what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from elastune.errors import InvariantError
from elastune.providers.ec2.cloud import Launch, Ware

# Tries of the same call are this far apart at first, and at most; by chance up to half as much again.
FIRST_WAIT_S = 1.0
MOST_WAIT_S = 30.0


@dataclass(slots=True)
class Order:
    """Each ware is tried once, in order of preference; what none of them yields is refused."""

    token: str
    asked: int
    position: int = 0
    """In the list of wares."""
    granted: list[str] = field(default_factory=list)
    refused: int = 0
    reasons: list[str] = field(default_factory=list)
    due: float = 0.0
    """Not to be tried again before."""
    tries: int = 0
    """Of the present call."""
    under_way: Launch | None = None
    """A call without an answer. Whether it was heard only its repetition can tell."""
    awaited_until: float | None = None
    """Somebody has launched it before us: so long we wait until the listing shows what came of it."""

    def __post_init__(self) -> None:
        if self.asked < 1:
            raise InvariantError(f"request {self.token!r} asks for {self.asked} nodes, expected at least 1")

    @property
    def left(self) -> int:
        return max(0, self.asked - len(self.granted) - self.refused)

    def ware(self, wares: Sequence[Ware]) -> Ware | None:
        """What to try next; None: all were tried."""
        return wares[self.position] if self.position < len(wares) else None

    def grant(self, instance: str) -> None:
        if instance not in self.granted:
            self.granted.append(instance)

    def advance(self, why: str = "") -> None:
        """The rest has to come from the next ware."""
        if why:
            self.reasons.append(why)
        self.position += 1
        self.tries, self.due = 0, 0.0
        self.under_way = self.awaited_until = None

    def refuse(self, count: int, why: str) -> None:
        self.refused += min(count, self.left)
        self.reasons.append(why)

    def wait(self, now: float, chance: float) -> None:
        """Try the same again later; `chance` from 0 to 1 keeps many drivers out of step."""
        pause = min(MOST_WAIT_S, FIRST_WAIT_S * 2 ** min(self.tries, 10))
        self.tries += 1
        self.due = now + pause * (1.0 + chance / 2)

    @property
    def reason(self) -> str:
        return "; ".join(dict.fromkeys(self.reasons))
