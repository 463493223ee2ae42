"""What the driver orders from the processes of a check, and what they report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from elastune.checks.comparing import Difference
from elastune.checks.report import CodePlace
from elastune.checks.sizes import HeldValue
from elastune.checks.unsaved_memory import ChangedGlobal
from elastune.runtime.ray.messages import CodeReference
from elastune.training.sharing import Numbers

if TYPE_CHECKING:
    from elastune.data.dataset import Dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOrder:
    script: CodeReference
    configs: tuple[Mapping[str, Any], ...]
    """The first is trained; if it diverges at once, the next."""
    seed: int
    pickles: bool
    threads: int
    gpus: int
    folder: str
    """For states and tracebacks; the driver removes it."""
    most_s: float
    """The time limit of everything."""
    gang: bool
    """Whether to try two workers."""
    declared: bool
    """The trainable itself declares gangs (`most_slots` above 1)."""
    paths: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    """Folders of shared data."""
    dataset: Dataset | None = None
    shortened: bool = True
    """Loops over `worker.batches` and `worker.loader` may be cut short."""
    watched: bool = True
    """The configuration may be a kind of dict that notes what is read of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFault:
    """The training raised, or its process ended. `stage` is what it was doing."""

    stage: str
    error: str
    place: CodePlace | None
    trace: str = ""
    by_library: bool = False
    """Raised in the code of a library, which may refuse what a check gives instead of plain dicts."""
    reported: tuple[str, ...] | None = None
    """The names of the numbers that it reported; None: the metric is not what is wrong."""


@dataclass(slots=True, kw_only=True)
class SoloSeen:
    """One worker: a start, two iterations, and a save after each. What is missing was not reached."""

    stage: str = "the start"
    startup_s: float = 0.0
    rows: list[Mapping[str, float]] = field(default_factory=list)
    seconds: list[float | None] = field(default_factory=list)
    """Of each iteration; None: it was cut short."""
    save_s: float = 0.0
    state_bytes: int = 0
    saves: bool = True
    offers_save: bool = False
    """It gives a state to save, also if it cannot continue from one."""
    learns: bool = False
    """It holds something that torch trains."""
    diverged: bool = False
    """The metric of the first iteration is not finite."""
    was_cut: bool = False
    """The last iteration was shortened."""
    ended: bool = False
    """Nothing was left to train before the last iteration that was asked for."""
    calls: frozenset[str] = frozenset()
    snapshot: list[Numbers] | None = None
    counters: list[Mapping[str, int]] = field(default_factory=list)
    """Whole numbers of the training by name, after each iteration."""
    memory: list[Mapping[str, int]] = field(default_factory=list)
    """Fingerprints of all that the training holds, by name: when it starts, and after each iteration."""
    waiting: list[str] = field(default_factory=list)
    """Models with gradients of the first iteration that the second one adds to."""
    left_out: list[str] = field(default_factory=list)
    """What went on learning and is in no part of the state."""
    unread: list[str] = field(default_factory=list)
    """Hyperparameters that were never read."""
    missed: list[str] = field(default_factory=list)
    """Names that were looked for among the hyperparameters in vain."""
    hyperparameters: int = 0
    ignores_data: bool = False
    """There are partitions, and the training has never asked for one."""
    draws: bool = True
    """The second iteration drew random numbers of Python, numpy or torch."""
    changed: list[ChangedGlobal] = field(default_factory=list)
    held: tuple[HeldValue, ...] = ()
    peak_bytes: int = 0
    shared_bytes: int = 0
    """Of them, what the slots of a node share."""
    device: str = "cpu"
    gpu_bytes: int | None = None
    """Allocated by torch; None: there is no GPU, or another library may have used it."""
    fault: UserFault | None = None


@dataclass(slots=True, kw_only=True)
class DetourSeen:
    """A new process that continues from the state after the first iteration."""

    stage: str = "the start"
    row: Mapping[str, float] | None = None
    overwritten: list[str] = field(default_factory=list)
    """Arrays of the state that an evaluation changed."""
    differing: list[Difference] = field(default_factory=list)
    """Between the states after the second iteration."""
    was_read: bool | None = None
    """Whether the training read anything of the state; None: that cannot be seen."""
    unread: list[str] = field(default_factory=list)
    """Parts of the state that it did not read, if that can be seen."""
    lost: list[str] | None = None
    """Parts of the state that `load` did not restore; None: not known."""
    changed: int = 0
    """How many parts of the state the first iteration had changed, if `lost` is known."""
    unsaved: list[str] = field(default_factory=list)
    """Optimizers with a memory, such as momentum, that is in no part of the state."""
    counters: Mapping[str, int] = field(default_factory=dict)
    memory: Mapping[str, int] = field(default_factory=dict)
    """As of `SoloSeen`, after `load`."""
    orphaned: list[str] = field(default_factory=list)
    """Optimizers that after `load` train no parameter of a model that is there."""
    fault: UserFault | None = None


@dataclass(slots=True, kw_only=True)
class RankSeen:
    """One of two workers, after an iteration together."""

    stage: str = "the start"
    row: Mapping[str, float] | None = None
    exchanges: bool = False
    weights: str | None = None
    given: Mapping[str, list[int]] = field(default_factory=dict)
    """Hashes of what this rank was given."""
    models: Mapping[str, int] = field(default_factory=dict)
    """Fingerprints of what its models learn, by name, also of those that are not wrapped."""
    snapshot: list[Numbers] | None = None
    buffers: frozenset[str] = frozenset()
    state: str | None = None
    """The file with its state."""
    fault: UserFault | None = None


@dataclass(slots=True, kw_only=True)
class GangSeen:
    ranks: list[RankSeen]
    differing: list[Difference] = field(default_factory=list)
    """Between the states of the two."""


@dataclass(slots=True, kw_only=True)
class ProbeSeen:
    """All that was seen. `cut_at`: what was going on when the time was over, and where."""

    solo: SoloSeen | None = None
    diverged: Mapping[str, Any] | None = None
    """A configuration before it, whose first metric was not finite."""
    detour: DetourSeen | None = None
    gang: GangSeen | None = None
    cut_at: str | None = None
    cut_place: CodePlace | None = None
    broken: str | None = None
    """The checking process itself ended."""
