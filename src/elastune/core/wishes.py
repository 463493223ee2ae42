"""What a policy asks for. The core grants what capacity, deadline and budget allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from elastune.core.commands import Ending
from elastune.model.ids import TrialId
from elastune.model.limits import Limit


class Wish(NamedTuple):
    """Train this trial on `slots` slots until it has done `until_iteration` iterations."""

    trial: TrialId
    slots: int
    until_iteration: int
    pool: int = 0
    final: bool = False
    """The trial is finished then."""
    stay: bool = False
    """Then its gang saves and keeps its slots until other wishes come, or until a trial needs them. No effect
    where models hop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The wanted trials, best first, and nodes; valid until other wishes replace them.

    Trials that are not named pause. A wish whose iteration is reached is fulfilled: its trial pauses (or
    stays), its slots go to the next in the list. `steady`: gangs keep their size and place, and trials
    without room wait; otherwise placement may move and shrink gangs in favour of better trials.
    """

    trials: tuple[Wish, ...] = ()
    nodes: Mapping[int, int] = field(default_factory=dict)
    """Nodes wanted, by pool."""
    at_once: Mapping[int, int] = field(default_factory=dict)
    """The most gangs at a time, by pool, if fewer than the slots allow."""
    steady: bool = True
    pack: bool = False
    """If steady: as few gangs as possible move so that no more nodes than wanted are held. Otherwise a node
    that is not wanted any more is released when its gangs have ended."""
    together: bool | None = None
    """Where models hop: whether each trial in turn gets all workers instead. None: whichever is faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A policy's answer to an event: new wishes, and actions to take once."""

    wishes: Wishes | None = None
    sample: int = 0
    """New trials to draw."""
    fork: tuple[TrialId, ...] = ()
    """A new trial for each: a changed copy, from its last checkpoint on."""
    stop: tuple[TrialId, ...] = ()
    drop: tuple[TrialId, ...] = ()
    """Trials whose gangs leave at once, without a save; they are paused at their last checkpoint."""
    barriers: tuple[tuple[int, int], ...] = ()
    """Stages to synchronise, as (pool, stage)."""
    timers: Mapping[str, float] = field(default_factory=dict)
    reviews: Mapping[str, float] = field(default_factory=dict)
    """Timers before which all rows are reported, for policies that then compare trials."""
    concede: Limit | None = None
    """Give this limit up; the core does so only if the job allows it."""
    notes: tuple[tuple[str, str], ...] = ()
    """What was decided and why, as (topic, text)."""
    done: Ending | None = None
