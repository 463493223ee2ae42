"""What the core orders a runtime to do. Commands are journalled with the event that caused them.

A command's place in the journal (event number, index) is its id, with which an external effect is requested
at most once. A runtime ignores orders to a gang that no longer exists.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from elastune.core.events import Sampled
from elastune.model.ids import Gang, NodeId, TrialId


class Ending(enum.StrEnum):
    """Why a run ended."""

    COMPLETE = "complete"
    TARGET = "target"  # a model reached the job's target
    DEADLINE = "deadline"
    BUDGET = "budget"
    STOPPED = "stopped"
    FAILED = "failed"  # no trial is left, or no node is available


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
    """Draw configurations for these new trials. `given`: values that some of them have to have."""

    trials: tuple[TrialId, ...]
    given: tuple[Sampled, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork(Command):
    """Draw a changed copy of the parent's configuration for a new trial, which continues from the parent's
    checkpoint of `iteration`; keep that checkpoint."""

    trial: TrialId
    parent: TrialId
    iteration: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestNodes(Command):
    """Request nodes from the provider. `request` is the idempotency token."""

    request: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseNodes(Command):
    """Release these nodes now; nothing runs on them."""

    nodes: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitNodes(Command):
    """The provider may have so many nodes at once from now on."""

    most: int


class Visit(NamedTuple):
    """Part of an iteration where models hop: the trial trains on one partition, on a worker that holds it."""

    partition: int
    done: int
    """Earlier visits of this iteration: they identify the model to continue from."""
    of: int
    """Visits in an iteration. The last one makes the model durable."""
    evaluates: bool = False
    """The partition has validation data; the model does not change."""

    @property
    def is_last(self) -> bool:
        return self.done + 1 == self.of


@dataclass(frozen=True, slots=True, kw_only=True)
class Train(Command):
    """A lease: train until an iteration, and start none that is expected to end after `until_s`.

    A new generation first forms its gang and loads the checkpoint of `after_iteration`; the present one gets
    a changed lease. A row better than `keep_above` is worth a checkpoint of its own.
    """

    trial: TrialId
    generation: int
    gang: Gang
    after_iteration: int
    until_iteration: int
    until_s: float | None = None
    keep_above: float | None = None
    origin: TrialId | None = None
    """The trial whose checkpoint a fork without one of its own loads."""
    shares: tuple[tuple[int, ...], ...] = ()
    """Where data are partitioned: the partitions that each member of the gang holds."""
    visit: Visit | None = None
    """Only this part of the next iteration; `VisitEnded` answers and frees the slot."""
    then: TrialId | None = None
    """The trial most likely to be next on this slot: its model may be loaded meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoke(Command):
    """End the lease after the present iteration."""

    trial: TrialId
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(Command):
    """Save the state of a waiting gang durably, then dissolve it. `stay`: it goes on waiting instead, for
    another lease or `Stop`."""

    trial: TrialId
    generation: int
    stay: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(Command):
    """Dissolve the gang at once; nothing is saved."""

    trial: TrialId
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stow(Command):
    """Save an idle model in the middle of an iteration durably; `ModelStowed` answers."""

    trial: TrialId
    generation: int
    iteration: int
    visits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTimer(Command):
    """Send `TimerFired` at `at_s`. A timer that is set again moves. `fresh`: first report all rows so far,
    as trials will be compared."""

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
    """Why the core or the policy decided something, for people and reports. `topic` is one word."""

    topic: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest(Command):
    """The run is suspended: everything is saved and released, and the driver may exit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRun(Command):
    reason: Ending
    best: Best | None


_GangCommand = Train | Revoke | Pause | Stop | Stow
_RunCommand = SetTimer | CancelTimer | Barrier | Note | Rest | EndRun
AnyCommand = Sample | Fork | RequestNodes | ReleaseNodes | LimitNodes | _GangCommand | _RunCommand
