"""One moment of a run, as plain data: whatever draws it needs nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from elastune.core import Upcoming
from elastune.runs.live.gauge import Gauge


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """A node of now. `usd` is None where nodes are free and their slots are paid."""

    name: str
    doing: str
    """`boots`, `up` or `leaves`."""
    busy: int
    """Slots that a gang has."""
    age_s: float
    usd: float | None
    partitions: int | None = None
    """Of the data, that its workers hold; None: the data are not partitioned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesNow:
    up: int
    """Also those that are about to leave."""
    booting: int
    requested: int
    leaving: int
    slots_per_node: int
    lines: tuple[NodeLine, ...]

    @property
    def busy(self) -> int:
        """Slots in use."""
        return sum(line.busy for line in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLine:
    number: int
    doing: str
    """`trains`, `saves`, ...; of one without a gang, its phase."""
    slots: int
    iteration: int
    until: int | None
    """Where its lease ends; None: it has none, or ends by the clock."""
    values: tuple[float, ...]
    """The last ones, oldest first."""
    is_best: bool
    where: str = ""
    """Of a model on a visit: which partition, on which worker."""

    @property
    def value(self) -> float | None:
        return self.values[-1] if self.values else None

    @property
    def change(self) -> float | None:
        """By which the metric moved in the last iteration."""
        return self.values[-1] - self.values[-2] if len(self.values) > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialsNow:
    """Of the trials that have been drawn; `lines` are the ones worth a look, best first."""

    drawn: int
    training: int
    waiting: int
    over: int
    failed: int
    lines: tuple[TrialLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLine:
    """Where models hop: the epoch that a pool is in."""

    epoch: int
    """Of those that take part, the furthest."""
    epochs: int | None
    """In all, if that is planned."""
    trials: int
    """That are not through."""
    done: int
    visits: int
    evaluates: bool
    workers: int

    def __str__(self) -> str:
        of = "" if self.epochs is None else f" of {self.epochs:,}"
        what = "evaluations" if self.evaluates else "visits"
        return f"epoch {self.epoch:,}{of}: {self.done:,} of {self.visits:,} {what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLine:
    """A stage or round of the plan and, as far as it has come, of the run."""

    name: str
    trials: int
    iterations: int | None
    """None: its end is a matter of time."""
    nodes: int
    planned_begin_s: float
    planned_end_s: float
    began_s: float | None = None
    ended_s: float | None = None
    is_present: bool = False
    share: float = 0.0
    """Of its work, or of its time, that is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BestModel:
    """Its checkpoint exists."""

    trial: int
    iteration: int
    metric: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something that happened: `is_note` if the core or the policy says so, and why; else it was seen."""

    at_s: float
    topic: str
    text: str
    is_note: bool = False

    def __str__(self) -> str:
        return f"{self.topic}: {self.text}" if self.is_note else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    name: str
    run: str
    policy: str
    metric: str
    rises: bool
    """More of the metric is better."""
    now_s: float
    doing: str
    """What the run does, in a word or two: `trains`, `winds up`, `complete`."""
    is_over: bool
    time: Gauge
    money: Gauge
    stage_word: str
    """`stage` or `round`."""
    stages: tuple[StageLine, ...]
    nodes: NodesNow
    trials: TrialsNow
    best: BestModel | None
    coming: tuple[Upcoming, ...]
    rounds: tuple[RoundLine, ...] = ()
    """Where models hop, one for each pool that is amid one."""
    together: tuple[int, ...] = ()
    """Trials of which each is trained by all workers of its pool at once."""
    happened: tuple[Happening, ...] = ()
    """The last ones, oldest first."""
