"""The messages between driver, agents and slot processes. Orders go to the slots, news come back.

Times in them are of the monotonic clock of the agent's machine; the driver converts them. News of a gang
carry its trial and generation, like the events they become. This module does not import the core: every slot
process pays for what it imports.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from elastune.checkpoints.store import Store
    from elastune.data.dataset import Dataset
    from elastune.model.checkpoint_rule import CheckpointRule
    from elastune.model.configuration import Configuration


RowMessage = tuple[int, float, Mapping[str, float]]
"""Iteration, the time of its end, metrics."""


class GangId(NamedTuple):
    trial: int
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeReference:
    """The trainable as it is sent: by its name, or as a pickled object if it has none."""

    name: str
    metric: str
    fidelity: str | None = None
    """The argument that tells a function how much to train."""
    saves: bool = True
    """False: no model is saved, even if the trainable could."""
    reference: str | None = None
    pickled: bytes | None = None
    source: str | None = None
    """The text of a file that the worker's machine may not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeParcel:
    """A folder of the driver's machine, for machines that do not have it."""

    origin: str
    data: Any
    """The name of its zip in the object store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedParcel:
    """A file of shared data of the driver's machine."""

    name: str
    pieces: tuple[Any, ...]
    """The names of its parts in the object store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeBundle:
    """What a node unpacks, unless it is on `machine`, the driver's own."""

    machine: str
    parcels: tuple[CodeParcel, ...]
    shared: tuple[SharedParcel, ...] = ()


class WarmAddress(NamedTuple):
    """Where the nodes of the driver's machine find its warm process."""

    name: str
    """Of its socket, which has no file."""
    interpreter: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    script: CodeReference
    store: Store
    checkpoints: CheckpointRule
    pickles: bool
    threads: int
    logs: str | None
    """A folder for one file per trial; None: to the node's output."""
    host: str | None = None
    """The address on which rank 0 meets the others; None: the one by which Ray knows the node."""
    gpus_per_slot: int = 0
    preload: tuple[str, ...] = ()
    """Modules that the fork server imports once for all slots."""
    paths: tuple[str, ...] = ()
    """Folders from which the user's code imports."""
    dataset: Dataset | None = None
    """Where models hop: the partitions. Each slot reads each partition that it needs once."""
    data_bytes: int | None = None
    """How much of them a slot may hold in memory."""
    spill: str | None = None
    """A folder for the rest."""
    shared: tuple[str, ...] = ()
    """Folders of shared data (see `elastune.training.shared_data`); the slots write into the first."""
    bundle: CodeBundle | None = None
    """For nodes on other machines; None: there are none. It is sent beside the rest."""
    warm: WarmAddress | None = None
    """None: each node imports everything itself."""

    def seal(self) -> Sealed:
        light = pickle.dumps(replace(self, bundle=None))
        return Sealed(
            worker_spec=light,
            threads=self.threads,
            logs=self.logs,
            bundle=self.bundle,
            hops=self.dataset is not None,
            warm=self.warm,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A pickled worker spec. Agents pass it on unopened: its imports would dominate their start."""

    worker_spec: bytes
    threads: int
    logs: str | None
    bundle: CodeBundle | None = None
    hops: bool = False
    """Models move between nodes."""
    warm: WarmAddress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GangTerms:
    """A lease. `until` is a time of the monotonic clock."""

    until_iteration: int
    until: float | None
    keep_above: float | None


class VisitOrder(NamedTuple):
    """One visit of an iteration of `of` visits, after `done` others."""

    partition: int
    done: int
    of: int
    evaluates: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """How other nodes get the models of a node: from a port of its own, or from the actor of this name."""

    host: str
    port: int
    token: bytes
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldModel:
    """Where a large state is: in the shared memory of a node, under the visit that it is from."""

    key: GangId
    size: int
    segment: int = 0
    """Its number in the process that wrote it."""
    source: ModelSource | None = field(default=None, compare=False)
    """The agent fills it in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedModel:
    """In a slot process: a state in shared memory that came with an order."""

    handle: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A trial's model after `iteration` iterations and `visits` visits of the next one.

    `data` is its state, as bytes if it is small.
    """

    trial: int
    iteration: int
    visits: int
    data: bytes | HeldModel | MappedModel
    tally: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class GangMessage:
    gang: GangId


@dataclass(frozen=True, slots=True, kw_only=True)
class GangReport(GangMessage):
    at: float


# Orders.


@dataclass(frozen=True, slots=True, kw_only=True)
class Form(GangMessage):
    """Join a gang as this rank, load the checkpoint, and train."""

    rank: int
    size: int
    config: Configuration
    seed: int
    after_iteration: int
    origin: int
    """The trial whose checkpoint of `after_iteration` is loaded, unless that is 0."""
    expected_s: float
    """Of one iteration, until some are measured."""
    terms: GangTerms
    meeting: tuple[str, int] | None = None
    """The address of rank 0, if it is known before this slot is free."""
    share: tuple[int, ...] = ()
    """The partitions that this slot is to hold, those of the validation data numbered after the others."""
    visit: VisitOrder | None = None
    """Only this part of the next iteration; `Visited` answers."""
    model: Model | None = None
    """The model to continue; None: read it from the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(GangMessage):
    meeting: tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extend(GangMessage):
    terms: GangTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt(GangMessage):
    """End the lease after the present iteration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep(GangMessage):
    """Save durably, then dissolve. `stay`: wait in the gang for another lease instead."""

    stay: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dissolve(GangMessage):
    """Leave the gang. A process that has not left after `grace_s`, such as amid an iteration, is replaced."""

    grace_s: float = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """Report all rows up to now, then `Flushed`."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefetch:
    """To a node: fetch this model now, the next one on this slot."""

    model: Model


@dataclass(frozen=True, slots=True, kw_only=True)
class DropModel:
    """To a node: there is a newer model of this trial."""

    key: GangId


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """To a slot process: this segment of its shared memory is not read any more."""

    segment: int


GangOrder = Join | Extend | Halt | Keep | Dissolve
"""To a gang that was formed."""
Order = Form | GangOrder | Flush
"""To a slot process, by way of its node."""
SlotOrder = Order | Reuse
NodeOrder = Order | Prefetch | DropModel
Orders = Sequence[tuple[int, NodeOrder]]
"""To the slots of a node, by their numbers."""

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
    """The process has left its gang and waits for the next one."""

    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening(GangMessage):
    meeting: tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GangBegan(GangReport):
    """Training begins. If the trainable cannot be saved: `repeated` iterations were trained again first;
    `changed`: how the metrics of the last of them differ from before."""

    repeated: int = 0
    changed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeating(GangReport):
    """A sign of life: a trainable that cannot be saved trains again what it had done before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained(GangReport):
    """Rows and durable checkpoints; `reason`: why the gang has stopped training."""

    rows: tuple[RowMessage, ...] = ()
    saved: tuple[int, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Visited(GangReport):
    """A visit is over. The last one of an iteration has its row."""

    seconds: float
    load_s: float
    model: Model
    size: int
    """Bytes of the model."""
    kept: bool
    row: RowMessage | None = None
    left_out: tuple[str, ...] = ()
    """Metrics of the row that some visits did not report."""
    unused: str = ""
    """What the training left out of the partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept(GangReport):
    """The state after the last row is durable. `stays`: the gang waits for an order."""

    stays: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken(GangReport):
    """The gang cannot continue. `fault`: the user's code is to blame, not the machine."""

    error: str
    fault: bool = True
    model_lost: bool = False
    """The model for this visit cannot be fetched."""
    log: tuple[str, str] | None = None
    """From a machine whose files the driver cannot read: the name of the log, and its last lines."""
    rows: tuple[RowMessage, ...] = ()
    saved: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Flushed:
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """The data have changed or are missing: no trial can continue."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFailed:
    error: str


SlotNews = SlotReady | SlotUnfit | SlotIdle
GangNews = Listening | Repeating | GangBegan | Trained | Visited | Kept | Broken
News = SlotNews | GangNews | Flushed | Unreadable | AgentFailed


def log_name(trial: int, rank: int) -> str:
    """`trial-00003.log`; `trial-00003.rank-1.log` for its second worker."""
    return f"trial-{trial:05d}{f'.rank-{rank}' if rank else ''}.log"
