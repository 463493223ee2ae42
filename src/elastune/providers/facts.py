"""What is new since the last survey, one frozen value per fact.

`at_s` is when it came about, as far as the provider tells: the start of INIT for a grant, the end of it for
readiness. For everything else it is the time of the survey that showed it. So a fact may be older than one
that was told before.
"""

from __future__ import annotations

from dataclasses import dataclass

from elastune.place import NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """These nodes boot and are billed from now on."""

    at_s: float
    token: str
    nodes: tuple[NodeId, ...]
    usd_per_hour: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """So many nodes of this request will not come."""

    at_s: float
    token: str
    count: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """All nodes that came up at this instant."""

    at_s: float
    nodes: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noticed:
    """The provider will take this node away."""

    at_s: float
    node: NodeId
    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """This node is gone though the run did not release it."""

    at_s: float
    node: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphaned:
    """A machine that nobody holds: of a token the run does not know, or listed again after it was given up.

    It costs money and does nothing. The answer is to release it (again).
    """

    at_s: float
    node: NodeId


Fact = Granted | Refused | Ready | Noticed | Lost | Orphaned

_AT_ONE_INSTANT = (Granted, Refused, Ready, Noticed, Lost, Orphaned)


def chronology(fact: Fact) -> tuple[float, int]:
    """Sorts facts by time and, within an instant, as a node lives: granted, ready, noticed, lost."""
    return fact.at_s, _AT_ONE_INSTANT.index(type(fact))
