"""The names of nodes and trials, and the slots of a gang."""

from __future__ import annotations

from typing import NamedTuple, NewType

NodeId = NewType("NodeId", str)
TrialId = NewType("TrialId", int)


class Slot(NamedTuple):
    node: NodeId
    number: int


Gang = tuple[Slot, ...]
