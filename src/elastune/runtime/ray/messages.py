"""What driver, agents and slot processes say to each other. Orders go down, news come up.

Times in them are of the monotonic clock of the agent's machine; the driver translates. News of a gang carry
its trial and generation, like the events they become. Nothing here knows the brain: what a slot process
imports, every node pays for.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from elastune.checkpoints.store import Store
    from elastune.data.dataset import Dataset
    from elastune.model.checkpoint_rule import CheckpointRule


Config = Mapping[str, str | int | float | bool | None]
RowMessage = tuple[int, float, Mapping[str, float]]
"""Iteration, the time of its end, metrics."""


class GangId(NamedTuple):
    trial: int
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeReference:
    """The trainable, as it travels: by its name, or as a pickled object where it has none."""

    name: str
    metric: str
    reference: str | None = None
    pickled: bytes | None = None
    source: str | None = None
    """Of a file that may be missing where the worker runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeParcel:
    """A folder of the driver's machine, for machines that do not have it."""

    origin: str
    data: Any
    """Its zip, by its name in the object store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeBundle:
    """What a node unpacks, unless it is on `machine`, the driver's own."""

    machine: str
    parcels: tuple[CodeParcel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """All that a slot process needs to know before its first gang."""

    script: CodeReference
    store: Store
    checkpoints: CheckpointRule
    pickles: bool
    threads: int
    logs: str | None
    """A folder for one file per trial; None: output goes where the node's output goes."""
    host: str | None = None
    """The address on which rank 0 meets the others; None: the one by which Ray knows the node."""
    gpus_per_slot: int = 0
    preload: tuple[str, ...] = ()
    """Modules that the zygote imports once for all slots."""
    paths: tuple[str, ...] = ()
    """Folders from which the user's code imports."""
    dataset: Dataset | None = None
    """Where models hop: the partitions. Each slot reads those that it visits, once."""
    data_bytes: int | None = None
    """How much of them a slot may hold in memory."""
    spill: str | None = None
    """A folder for what it may not."""

    bundle: CodeBundle | None = None
    """For nodes on other machines; None: there are none. It travels beside the rest."""

    def seal(self) -> Sealed:
        light = pickle.dumps(replace(self, bundle=None))
        return Sealed(worker_spec=light, threads=self.threads, logs=self.logs, bundle=self.bundle)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A manual on its way to the slots. Who passes it on does not open it, for the imports would take longer
    than all the rest."""

    worker_spec: bytes
    threads: int
    logs: str | None
    bundle: CodeBundle | None = None

    def open(self) -> WorkerSpec:
        worker_spec: WorkerSpec = pickle.loads(self.worker_spec)  # noqa: S301  from our own driver
        return worker_spec


@dataclass(frozen=True, slots=True, kw_only=True)
class GangTerms:
    """A lease. `until` is of the monotonic clock."""

    until_iteration: int
    until: float | None
    keep_above: float | None


class VisitOrder(NamedTuple):
    """One visit of an iteration: `done` came before it, and there are `of` in all."""

    partition: int
    done: int
    of: int
    evaluates: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A trial's model on its way: after so many iterations, and visits of the next one.

    `data` are the bytes of its state or, between nodes, their name in the object store.
    """

    trial: int
    iteration: int
    visits: int
    data: object
    tally: Mapping[str, object]


# Orders.


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Take your place in a gang, load the checkpoint, and train."""

    gang: GangId
    rank: int
    size: int
    config: Config
    seed: int
    after_iteration: int
    origin: int
    """Whose checkpoint of `after_iteration` is loaded, unless that is 0."""
    expected_s: float
    """Of one iteration, until some are measured."""
    terms: GangTerms
    meeting: tuple[str, int] | None = None
    """Where rank 0 listens, if that is known before this slot is free."""
    share: tuple[int, ...] = ()
    """The partitions that this slot is to hold, those of the validation data numbered after the others."""
    visit: VisitOrder | None = None
    """Only this part of the next iteration; `Visited` answers."""
    model: Model | None = None
    """The model to go on with; None: the store has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Rank 0 listens there."""

    gang: GangId
    meeting: tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extend:
    gang: GangId
    terms: GangTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """End the lease after the present iteration."""

    gang: GangId


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Save durably, then dissolve."""

    gang: GangId


@dataclass(frozen=True, slots=True, kw_only=True)
class Dissolve:
    """A process that has not left the gang after `grace_s`, amid an iteration say, is replaced."""

    gang: GangId
    grace_s: float = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """Tell all rows that there are, then `Flushed`."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bring:
    """To a node: have this model at hand, it will be needed on this slot next."""

    model: Model


Order = Form | Join | Extend | Halt | Keep | Dissolve | Flush
"""To a slot process."""

# News.


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotReady:
    slot: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotUnfit:
    """The user's code cannot be imported there."""

    slot: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotIdle:
    """The gang is gone and the process waits for the next one."""

    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    gang: GangId
    meeting: tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GangBegan:
    gang: GangId
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """Rows and durable checkpoints; `reason`: the gang waits now."""

    gang: GangId
    at: float
    rows: tuple[RowMessage, ...] = ()
    saved: tuple[int, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Visited:
    """A visit is over. The last one of an iteration has its row."""

    gang: GangId
    at: float
    seconds: float
    load_s: float
    model: Model
    size: int
    """Bytes of the model."""
    kept: bool
    row: RowMessage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The state after the last row is durable."""

    gang: GangId
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The gang cannot go on. `fault`: the user's code is to blame, not the machine."""

    gang: GangId
    at: float
    error: str
    fault: bool = True
    model_lost: bool = False
    """The model that was to come cannot be fetched."""
    log: tuple[str, str] | None = None
    """From a machine where the driver cannot read it: the name of the log, and its last lines."""
    rows: tuple[RowMessage, ...] = ()
    saved: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Flushed:
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """The data are not what they were, or not there: no trial will get on."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFailed:
    """Nothing works on this node."""

    error: str


News = (
    SlotReady
    | SlotUnfit
    | SlotIdle
    | Listening
    | GangBegan
    | Trained
    | Visited
    | Kept
    | Broken
    | Flushed
    | Unreadable
    | AgentFailed
)
