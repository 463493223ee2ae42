"""What can happen: the only thing that changes the state of a run.

A body observes and reports; it decides nothing. Every event carries the time `at_s` on the run's own clock,
which stands still while the driver is down. A trial's events carry the generation of its gang, so that news
of a gang that is gone can be told from news of the present one.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from elastune.model.ids import NodeId, TrialId

Config = Mapping[str, str | int | float | bool | None]


class Sampled(NamedTuple):
    """A new trial and its hyperparameters."""

    trial: TrialId
    config: Config


class Row(NamedTuple):
    """What one iteration of training yielded, and when it ended."""

    iteration: int
    at_s: float
    metrics: Mapping[str, float]


class LeaseEnd(enum.StrEnum):
    """Why a gang stopped training and waits."""

    REACHED = "reached"  # the iteration it was allowed
    TIME = "time"  # the next iteration would end too late
    REVOKED = "revoked"
    RETURNED = "returned"  # the trainable has nothing more to train


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """The first event. With the job and the seed the journal alone suffices to replay a run."""

    policy: str
    seed: int
    job: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialsSampled(Event):
    """The answer to `Sample`. Fewer than asked: the space is `exhausted`."""

    trials: tuple[Sampled, ...]
    exhausted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesGranted(Event):
    """The provider gave nodes; they boot. `billed_s`: how long they have been billed already."""

    request: int
    nodes: tuple[NodeId, ...]
    billed_s: float = 0.0
    usd_per_hour: float | None = None
    """What each costs, if not what the job's nodes do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesRefused(Event):
    request: int
    count: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesReady(Event):
    """`hosts`: the names and addresses of each node's machine, where it matters which one it is."""

    nodes: tuple[NodeId, ...]
    hosts: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNoticed(Event):
    """The provider will take the node away at `until_s` (a spot machine)."""

    node: NodeId
    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLost(Event):
    """The node is gone, with everything on it.

    `billed_s`: its billed life, where the provider knows better.
    """

    node: NodeId
    billed_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFound(Event):
    """A node that is alive and ours, but that this run does not know or believes released."""

    node: NodeId
    billed_s: float
    usd_per_hour: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GangStarted(Event):
    """The workers are connected and the checkpoint is loaded; training begins."""

    trial: TrialId
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed(Event):
    """Rows since the last report, and the iterations whose checkpoints have become durable."""

    trial: TrialId
    generation: int
    rows: tuple[Row, ...] = ()
    saved: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseEnded(Progressed):
    """The gang stopped at an iteration's end and waits for a longer lease, `Pause` or `Stop`."""

    reason: LeaseEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitEnded(Progressed):
    """A visit is over and its slot free; the model lies on that node. The last one of an iteration has its
    row and has saved it."""

    seconds: float
    """Of training alone, without what loading of model and data took."""
    load_s: float = 0.0
    """Of that: reading the partition, which is kept from then on."""
    kept: bool = False
    """The state after this visit is durable."""
    model_bytes: int = 0
    hopped: bool = False
    """The model came from another worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCrashed(Progressed):
    """The user's code raised, hung or exited; the gang is gone."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GangLost(Progressed):
    """The gang is gone and the user's code is not to blame: somebody killed a worker, say.

    `model_lost`: where models hop, the one that was to come is nowhere but in the store.
    """

    error: str
    model_lost: bool = False


def has_stopped(event: Progressed) -> bool:
    """Whether the trial has done an iteration and waits for what is wished of it next."""
    if isinstance(event, LeaseEnded):
        return event.reason is LeaseEnd.REACHED
    return isinstance(event, VisitEnded) and bool(event.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPaused(Event):
    """The state after the last iteration is durable and the slots are free."""

    trial: TrialId
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStowed(Event):
    """The answer to `Stow`. `error`: it could not be made durable."""

    trial: TrialId
    generation: int
    iteration: int
    visits: int
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired(Event):
    timer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BarrierPassed(Event):
    """The stage of this pool is synchronised."""

    pool: int
    stage: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAsked(Event):
    """A person or a program wants the run to end."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestAsked(Event):
    """A person wants to go on later: all is saved and given back; `Resumed` ends the rest."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Event):
    """The driver is back after `down_s` and has listed what is alive. No gang survived.

    `lost` are the nodes that went meanwhile, each with the time for which it was billed in all; also those
    that the run had meant to release.
    """

    down_s: float
    lost: tuple[tuple[NodeId, float], ...] = ()
    deadline_s: float | None = None
    """A new deadline, on the run's clock; None: it stays as it is."""
    budget_usd: float | None = None

    @property
    def has_other_limits(self) -> bool:
        return self.deadline_s is not None or self.budget_usd is not None


AnyEvent = (
    RunStarted
    | TrialsSampled
    | NodesGranted
    | NodesRefused
    | NodesReady
    | NodeNoticed
    | NodeLost
    | NodeFound
    | GangStarted
    | LeaseEnded
    | VisitEnded
    | TrialCrashed
    | GangLost
    | Progressed
    | TrialPaused
    | ModelStowed
    | TimerFired
    | BarrierPassed
    | StopAsked
    | RestAsked
    | Resumed
)
