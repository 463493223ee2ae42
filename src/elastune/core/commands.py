"""What a body is told to do. Commands are journalled beside the event that caused them.

A command's place in the journal (event number, index) is its id, with which an outside effect is asked for at
most once. After an order to a gang that is meanwhile gone, a body does nothing.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from elastune.model.ids import Gang, NodeId, TrialId


class Ending(enum.StrEnum):
    """Why a run is over."""

    COMPLETE = "complete"
    TARGET = "target"  # a model is as good as the job asks for
    DEADLINE = "deadline"
    BUDGET = "budget"
    STOPPED = "stopped"
    FAILED = "failed"  # no trial is left, or no node can be had


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The best model so far; its checkpoint is durable."""

    trial: TrialId
    iteration: int
    metric: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Command: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Command):
    """Draw configurations for these new trials."""

    trials: tuple[TrialId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork(Command):
    """Draw a changed copy of the parent's configuration for a new trial.

    It will go on from the parent's checkpoint of `iteration`, which is to be kept for it.
    """

    trial: TrialId
    parent: TrialId
    iteration: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestNodes(Command):
    """Ask the provider for nodes. The request's number is the idempotency token."""

    request: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseNodes(Command):
    """Give these nodes back, now; nothing runs on them any more."""

    nodes: tuple[NodeId, ...]


class Visit(NamedTuple):
    """A part of an iteration where models hop: the trial trains on one partition, there where it lies."""

    partition: int
    done: int
    """Visits of this iteration before this one: from which state it goes on."""
    of: int
    """Visits in an iteration. The last one makes the state durable."""
    evaluates: bool = False
    """The partition is of the validation data; nothing is learned there."""

    @property
    def is_last(self) -> bool:
        return self.done + 1 == self.of


@dataclass(frozen=True, slots=True, kw_only=True)
class Train(Command):
    """A lease: train until an iteration, and begin none that is expected to end after `until_s`.

    A new generation forms its gang first and loads the checkpoint of `after_iteration`; for the present one
    the terms of its lease change. A row better than `keep_above` is worth a checkpoint of its own.
    """

    trial: TrialId
    generation: int
    gang: Gang
    after_iteration: int
    until_iteration: int
    until_s: float | None = None
    keep_above: float | None = None
    origin: TrialId | None = None
    """The trial whose checkpoint is loaded, for a fork that has none of its own yet."""
    shares: tuple[tuple[int, ...], ...] = ()
    """Where data are partitioned: the partitions that each member of the gang is to hold."""
    visit: Visit | None = None
    """This part of the next iteration only; `VisitEnded` answers it, and the slot is free."""
    then: TrialId | None = None
    """The trial that will most likely be the next there: its model may be brought meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoke(Command):
    """End the lease after the iteration that is being trained."""

    trial: TrialId
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(Command):
    """The gang waits: save its state durably, then dissolve it."""

    trial: TrialId
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(Command):
    """Dissolve the gang at once; nothing is saved."""

    trial: TrialId
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stow(Command):
    """Make a model durable that lies on a node and is at rest amid an iteration; `ModelStowed` answers."""

    trial: TrialId
    generation: int
    iteration: int
    visits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTimer(Command):
    """Wake the core at that time. A timer that is set again moves.

    `fresh`: somebody is going to compare trials, so all rows up to that time are reported first.
    """

    timer: str
    at_s: float
    fresh: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTimer(Command):
    timer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier(Command):
    """Synchronise the end of a stage."""

    pool: int
    stage: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(Command):
    """Why the core or the policy did what it did, for people and reports. `topic` is one word."""

    topic: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest(Command):
    """Everything is saved and given back; the driver may go. The run is not over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRun(Command):
    reason: Ending
    best: Best | None


AnyCommand = (
    Sample
    | Fork
    | RequestNodes
    | ReleaseNodes
    | Train
    | Revoke
    | Pause
    | Stop
    | Stow
    | SetTimer
    | CancelTimer
    | Barrier
    | Note
    | Rest
    | EndRun
)
