"""What a policy wants. It suggests; the core grants what capacity, deadline and budget allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from elastune.core.commands import Ending
from elastune.model.ids import TrialId
from elastune.model.limits import Limit


class Wish(NamedTuple):
    """Train this trial on so many slots until it has done so many iterations."""

    trial: TrialId
    slots: int
    until_iteration: int
    pool: int = 0
    final: bool = False
    """Then it is finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What should be so from now on, best first; it stands until other wishes replace it.

    Trials that are not named pause. A wish whose iteration is reached is fulfilled: its trial pauses, its
    slots go to the next in the list. `steady`: gangs keep their size and place, and who finds no room
    waits; otherwise placement may move and shrink gangs so that the better trials get theirs.
    """

    trials: tuple[Wish, ...] = ()
    nodes: Mapping[int, int] = field(default_factory=dict)
    """Nodes wanted, by pool."""
    at_once: Mapping[int, int] = field(default_factory=dict)
    """The most gangs at a time, by pool, where free slots alone are not the limit."""
    steady: bool = True
    together: bool | None = None
    """Where models hop: whether each trial in turn has all workers instead. None: as is faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A policy's answer to an event: new wishes, and things to do once."""

    wishes: Wishes | None = None
    sample: int = 0
    """New trials to draw."""
    fork: tuple[TrialId, ...] = ()
    """A new trial for each: a changed copy of this one, from its last checkpoint on."""
    stop: tuple[TrialId, ...] = ()
    barriers: tuple[tuple[int, int], ...] = ()
    """Stages to synchronise, as (pool, stage)."""
    timers: Mapping[str, float] = field(default_factory=dict)
    reviews: Mapping[str, float] = field(default_factory=dict)
    """Timers before which all rows are reported, for a policy that is going to compare trials."""
    concede: Limit | None = None
    """Give this limit up; the core agrees only if the job says that it may be exceeded."""
    notes: tuple[tuple[str, str], ...] = ()
    """What was decided and why, as (topic, text)."""
    done: Ending | None = None
