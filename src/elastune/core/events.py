"""Events, which alone change the state of a run. A runtime observes and reports; it decides nothing.

Every event has the time `at_s` on the run's own clock, which stands still while the driver is down. A trial's
events have the generation of its gang, by which those of an earlier gang are ignored.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from elastune.model.configuration import Configuration
from elastune.model.ids import NodeId, TrialId

Config = Configuration


class Sampled(NamedTuple):
    """A new trial and its hyperparameters."""

    trial: TrialId
    config: Config


class Row(NamedTuple):
    """The metrics of one iteration, and when it ended."""

    iteration: int
    at_s: float
    metrics: Mapping[str, float]


class LeaseEnd(enum.StrEnum):
    """Why a gang stopped training and waits."""

    REACHED = "reached"  # the iteration of its lease
    TIME = "time"  # the next iteration would end too late
    REVOKED = "revoked"
    RETURNED = "returned"  # the trainable is finished


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """The first event. With job and seed in it, the journal suffices to replay a run."""

    policy: str
    seed: int
    job: Mapping[str, object]
    startup_s: float = 0.0
    """What the command took until now, which its deadline counts."""
    deadline_s: float | None = None
    """What is left of the deadline. None: that of the job, which the plan is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialsSampled(Event):
    """The answer to `Sample`. `exhausted`: the space has fewer than requested."""

    trials: tuple[Sampled, ...]
    exhausted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesGranted(Event):
    """The provider granted nodes, which boot. `billed_s`: how long they have been billed already."""

    request: int
    nodes: tuple[NodeId, ...]
    billed_s: float = 0.0
    usd_per_hour: float | None = None
    """The price of each; None: that of the job's nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesRefused(Event):
    request: int
    count: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesReady(Event):
    """`hosts`: names and addresses of each node's machine, where data depend on them."""

    nodes: tuple[NodeId, ...]
    hosts: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNoticed(Event):
    """The provider will take the node away at `until_s` (spot)."""

    node: NodeId
    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLost(Event):
    """The node is lost, with everything on it. `billed_s`: its billed life, where the provider knows it."""

    node: NodeId
    billed_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFound(Event):
    """A node of this run that is alive, but unknown to it or thought released."""

    node: NodeId
    billed_s: float
    usd_per_hour: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GangStarted(Event):
    """The workers are connected and have loaded the checkpoint; training begins. A trial that cannot be saved
    has trained `repeated` iterations again; `changed`: how the last of them differs from before."""

    trial: TrialId
    generation: int
    repeated: int = 0
    changed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed(Event):
    """Rows since the last report, and iterations whose checkpoints have become durable."""

    trial: TrialId
    generation: int
    rows: tuple[Row, ...] = ()
    saved: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseEnded(Progressed):
    """The gang stopped after an iteration and waits for a longer lease, `Pause` or `Stop`."""

    reason: LeaseEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitEnded(Progressed):
    """A visit is over and its slot free; the model is on that node. The last one of an iteration brings its
    row and a durable model."""

    seconds: float
    """Of training alone, without loading of model and data."""
    load_s: float = 0.0
    """Of that: reading the partition, which is kept from then on."""
    kept: bool = False
    """The model after this visit is durable."""
    model_bytes: int = 0
    hopped: bool = False
    """The model came from another worker."""
    left_out: tuple[str, ...] = ()
    """Metrics of the row that some visits did not report: their means are over the others."""
    unused: str = ""
    """What the training left out of its partition, if anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCrashed(Progressed):
    """The user's code raised, hung or exited; the gang is gone."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GangLost(Progressed):
    """The gang is gone, not through the user's code: a worker was killed, say. `model_lost`: the model to be
    loaded (where models hop) exists only in the store."""

    error: str
    model_lost: bool = False


def has_stopped(event: Progressed) -> bool:
    """Whether the trial has done an iteration and waits for the next wish."""
    if isinstance(event, LeaseEnded):
        return event.reason is LeaseEnd.REACHED
    return isinstance(event, VisitEnded) and bool(event.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPaused(Event):
    """The state after the last iteration is durable and the slots are free. `stays`: the gang keeps them and
    waits for an order."""

    trial: TrialId
    generation: int
    stays: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStowed(Event):
    """The answer to `Stow`. `error`: why the model could not be saved."""

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
    """A person or a program requests the end of the run."""

    reason: str
    request_id: str = ""
    """Of the request that came from outside, by which it is applied once; empty: not from outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestAsked(Event):
    """A person suspends the run: everything is saved and released until `Resumed`."""

    reason: str
    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunExtended(Event):
    """A person or a program changed the limits of the run; None: the limit stays. A run that had ended goes
    on: it is suspended until `Resumed`."""

    request_id: str
    deadline_s: float | None = None
    """By the run's clock."""
    budget_usd: float | None = None
    max_nodes: int | None = None
    more_trials: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStopAsked(Event):
    """A person or a program ends one trial; the search goes on without it."""

    request_id: str
    trial: TrialId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAdded(Event):
    """A person or a program wants this configuration to be the next new trial. Missing values are drawn."""

    request_id: str
    config: Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Event):
    """The driver is back after `down_s` and has listed what is alive; no gang survived. `lost`: nodes lost
    meanwhile or were to be released, each with all the time for which it was billed."""

    down_s: float
    lost: tuple[tuple[NodeId, float], ...] = ()
    deadline_s: float | None = None
    """A new deadline, on the run's clock; None: it stays."""
    budget_usd: float | None = None

    @property
    def has_other_limits(self) -> bool:
        return self.deadline_s is not None or self.budget_usd is not None


_NodeEvent = NodesGranted | NodesRefused | NodesReady | NodeNoticed | NodeLost | NodeFound
_TrialEvent = TrialsSampled | GangStarted | TrialPaused | ModelStowed
_ProgressEvent = LeaseEnded | VisitEnded | TrialCrashed | GangLost | Progressed
_RunEvent = RunStarted | TimerFired | BarrierPassed | Resumed
AnyRequest = StopAsked | RestAsked | RunExtended | TrialStopAsked | ConfigAdded
"""What a person or a program asked of a run. `Core.refusal` says whether it is possible."""
AnyEvent = _RunEvent | AnyRequest | _NodeEvent | _TrialEvent | _ProgressEvent
