"""One moment of a run as plain data, what changed between two of them, and a moment in one line.

Views need nothing but the snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from elastune.core.policy import Upcoming
from elastune.wording import format_duration, format_usd, plural

# Smaller differences mean nothing: a plan is a mean, and an iteration is counted when it ends.
_NEARLY = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """Time or money against its limit and the plan. None: there is no such limit or plan."""

    now: float
    limit: float | None = None
    planned_now: float | None = None  # what the plan has used at the point where the run is now
    planned_end: float | None = None
    expected_end: float | None = None  # what was used so far, plus the plan for the rest
    grain: float = 0.0  # smaller differences are ignored

    @property
    def full(self) -> float:
        """Where a bar ends."""
        ends = [self.planned_end, self.expected_end] if self.limit is None else [self.limit]
        return max([self.now, *(end for end in ends if end is not None)])

    @property
    def ahead(self) -> float | None:
        """How much more the run has used than the plan at this point; 0.0: as planned."""
        if self.planned_now is None:
            return None
        more = self.now - self.planned_now
        least = max(self.grain, _NEARLY * (self.planned_end or 0.0))
        return more if abs(more) > least else 0.0

    @property
    def is_in_danger(self) -> bool:
        """The limit is expected to be exceeded."""
        return self.limit is not None and (self.expected_end or self.now) > self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """`usd` is None where slots are billed, not nodes."""

    name: str
    doing: str  # `boots`, `up` or `leaves`
    busy: int  # slots held by gangs
    age_s: float
    usd: float | None
    partitions: int | None = None  # of the data, held by its workers; None: the data are not partitioned


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesNow:
    up: int  # including those about to leave
    booting: int
    requested: int
    leaving: int
    slots_per_node: int
    lines: tuple[NodeLine, ...]

    @property
    def busy(self) -> int:
        return sum(line.busy for line in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLine:
    number: int
    doing: str  # `trains`, `saves`, ...; without a gang, its phase
    slots: int
    iteration: int
    until: int | None  # where its lease ends; None: it has none, or ends by the clock
    values: tuple[float, ...]  # the last ones, oldest first
    is_best: bool
    where: str = ""  # of a model on a visit: which partition, on which worker

    @property
    def value(self) -> float | None:
        return self.values[-1] if self.values else None

    @property
    def change(self) -> float | None:
        """Of the metric in the last iteration."""
        return self.values[-1] - self.values[-2] if len(self.values) > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialsNow:
    """Counts of drawn trials; `lines` are the most interesting ones, best first."""

    drawn: int
    training: int
    waiting: int
    over: int
    failed: int
    lines: tuple[TrialLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLine:
    """Where models hop: the epoch of a pool. `epoch` is the furthest of its trials, `epochs` the planned
    number; `trials` have not finished the round."""

    epoch: int
    epochs: int | None
    trials: int
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
    """A stage or round: planned and, as far as it has come, actual."""

    name: str
    trials: int
    iterations: int | None  # None: it ends by the clock
    nodes: int
    planned_begin_s: float
    planned_end_s: float
    began_s: float | None = None
    ended_s: float | None = None
    is_present: bool = False
    share: float = 0.0  # of its work or time that is done


@dataclass(frozen=True, slots=True, kw_only=True)
class BestModel:
    """The best trial with a checkpoint."""

    trial: int
    iteration: int
    metric: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """`is_note`: a note of the core or the policy, with a reason; otherwise a change between snapshots."""

    at_s: float
    topic: str
    text: str
    is_note: bool = False

    def __str__(self) -> str:
        return f"{self.topic}: {self.text}" if self.is_note else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    name: str
    run: str
    policy: str
    metric: str
    rises: bool  # larger values of the metric are better
    now_s: float
    doing: str  # `trains`, `shuts down`, `complete`, ...
    is_over: bool
    time: Gauge
    money: Gauge | None  # None: nothing costs anything
    stage_word: str  # `stage` or `round`
    stages: tuple[StageLine, ...]
    nodes: NodesNow
    trials: TrialsNow
    best: BestModel | None
    upcoming: tuple[Upcoming, ...]
    rounds: tuple[RoundLine, ...] = ()  # where models hop, one for each pool in a round
    together: tuple[int, ...] = ()  # trials that are trained by all workers of their pool at once
    happened: tuple[LogEntry, ...] = ()  # the last ones, oldest first


BEST = "best"
"""The topic of a new best model; there may be many."""


def changes(before: Snapshot | None, after: Snapshot) -> Iterator[LogEntry]:
    """Oldest first, as far as the order is known. `before` None: this is the first snapshot."""
    yield from _stages(() if before is None else before.stages, after)
    for text in _nodes(None if before is None else before.nodes, after.nodes):
        yield LogEntry(at_s=after.now_s, text=text, topic="nodes")
    fresh = set(after.together) - set(() if before is None else before.together)
    if fresh and not (before is not None and before.together):
        text = f"trial {min(fresh)} trains on all workers at once: too few are left to hop"
        yield LogEntry(at_s=after.now_s, text=text, topic="hopping")
    failed = after.trials.failed - (0 if before is None else before.trials.failed)
    if failed > 0:
        more = "" if failed == after.trials.failed else f", {after.trials.failed} in all"
        yield LogEntry(at_s=after.now_s, text=f"{plural(failed, 'trial')} failed{more}", topic="failed")
    best = after.best
    if best is not None and (before is None or best != before.best):
        text = f"best {after.metric} {best.metric:.6g}: trial {best.trial} after iteration {best.iteration}"
        yield LogEntry(at_s=after.now_s, text=text, topic=BEST)
    if after.is_over and not (before is not None and before.is_over):
        yield LogEntry(at_s=after.now_s, text=f"the run has ended: {after.doing}", topic="end")


def _stages(before: tuple[StageLine, ...], after: Snapshot) -> Iterator[LogEntry]:
    """The end of a stage is reported with the begin of the next one, if there is one."""
    known = {stage.name: stage for stage in before}
    word = after.stage_word
    took: LogEntry | None = None
    for stage in after.stages:
        old = known.get(stage.name)
        began_s = stage.began_s if old is None or old.began_s is None else None
        ended_s = stage.ended_s if old is None or old.ended_s is None else None
        if began_s is not None and ended_s is None and not after.is_over:
            work = "" if stage.iterations is None else f" for {plural(stage.iterations, 'iteration')}"
            text = f"{word} {stage.name} begins: {plural(stage.trials, 'trial')}{work}"
            yield LogEntry(at_s=began_s, text=text if took is None else f"{text}; {took}", topic=word)
        elif took is not None:
            yield took
        took = None
        if ended_s is not None and stage.began_s is not None:
            real_s, planned_s = ended_s - stage.began_s, stage.planned_end_s - stage.planned_begin_s
            text = f"{word} {stage.name} took {format_duration(real_s)}, {format_duration(planned_s)} planned"
            took = LogEntry(at_s=ended_s, text=text, topic=word)
    if took is not None:
        yield took


def _nodes(before: NodesNow | None, after: NodesNow) -> Iterator[str]:
    was = set() if before is None else {line.name for line in before.lines}
    was_up = set() if before is None else {line.name for line in before.lines if line.doing != "boots"}
    now = {line.name for line in after.lines}
    up = {line.name for line in after.lines if line.doing != "boots"}
    if count := len(now - was - up):
        yield f"{plural(count, 'node')} {'boots' if count == 1 else 'boot'}"
    if count := len(up - was_up):
        yield f"{plural(count, 'node')} {'is' if count == 1 else 'are'} up, {after.up} in all"
    if was - now:
        yield f"{plural(len(was - now), 'node')} gone, {after.up if now else 'none'} left"


def format_clock(seconds: float) -> str:
    """A time or an age, without milliseconds."""
    return f"{seconds:.1f} s" if 0.0 <= seconds < 1.0 else format_duration(seconds)


def summary_line(snapshot: Snapshot) -> str:
    """Time and money against their limits, nodes, trials, and the best so far."""
    nodes, trials, best = snapshot.nodes, snapshot.trials, snapshot.best
    money = snapshot.money
    parts = [format_clock(snapshot.now_s)]
    if snapshot.time.limit is not None:
        parts[0] += f" of {format_duration(snapshot.time.limit)}"
    if snapshot.time.ahead:
        word = "behind" if snapshot.time.ahead > 0 else "ahead of"
        parts[0] += f" ({format_duration(abs(snapshot.time.ahead))} {word} plan)"
    if money is not None:
        limit = "" if money.limit is None else f" of {format_usd(money.limit)}"
        parts.append(f"{format_usd(money.now)}{limit}")
    parts.append(plural(nodes.up, "node") + (f" (+{nodes.booting} booting)" if nodes.booting else ""))
    parts.append(f"{trials.training} of {plural(trials.drawn, 'trial')} training, {trials.over} done")
    if snapshot.rounds:
        parts.append("; ".join(map(str, snapshot.rounds)))
    if best is not None:
        parts.append(f"best {snapshot.metric} {best.metric:.6g} (trial {best.trial})")
    return ", ".join(parts)
