"""Time or money against what is allowed and what was planned.

One moment of a run, as plain data: whatever draws it needs nothing else.

What changed between two scenes, in words: the lines of a log.

A scene in one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from elastune.core.policy import Upcoming
from elastune.wording import format_duration, format_usd, plural

# Nobody wants to hear of less: a plan is a mean, and an iteration is counted when it ends.
_NEARLY = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """None: there is no such limit, or no plan that says so."""

    now: float
    limit: float | None = None
    planned_now: float | None = None
    """What the plan has used when it is as far as the run is now."""
    planned_end: float | None = None
    expected_end: float | None = None
    """By what was used so far, and by the plan for the rest."""
    grain: float = 0.0
    """Differences below this say nothing."""

    @property
    def full(self) -> float:
        """Where a bar ends."""
        ends = (self.limit, self.planned_end, self.expected_end)
        known = [end for end in ends if end is not None]
        return max(self.now, self.limit if self.limit is not None else max(known, default=self.now))

    @property
    def ahead(self) -> float | None:
        """By how much the run used more than the plan, to be as far; 0.0: as planned."""
        if self.planned_now is None:
            return None
        more = self.now - self.planned_now
        least = max(self.grain, _NEARLY * (self.planned_end or 0.0))
        return more if abs(more) > least else 0.0

    @property
    def is_in_danger(self) -> bool:
        """The limit will be exceeded, as things are."""
        return self.limit is not None and (self.expected_end or self.now) > self.limit


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
class LogEntry:
    """Something that happened: `is_note` if the core or the policy says so, and why; else it was seen."""

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
    upcoming: tuple[Upcoming, ...]
    rounds: tuple[RoundLine, ...] = ()
    """Where models hop, one for each pool that is amid one."""
    together: tuple[int, ...] = ()
    """Trials of which each is trained by all workers of its pool at once."""
    happened: tuple[LogEntry, ...] = ()
    """The last ones, oldest first."""


BEST = "best"
"""The topic of a new best model, of which there may be many."""


def changes(before: Snapshot | None, after: Snapshot) -> Iterator[LogEntry]:
    """Oldest first, as far as the order can be known. `before` None: the run was not looked at yet."""
    yield from _stages(() if before is None else before.stages, after)
    for text in _nodes(None if before is None else before.nodes, after.nodes):
        yield LogEntry(at_s=after.now_s, text=text, topic="nodes")
    fresh = set(after.together) - set(() if before is None else before.together)
    if fresh and not (before is not None and before.together):
        text = f"trial {min(fresh)} trains on all workers at once: too few are left to hop"
        yield LogEntry(at_s=after.now_s, text=text, topic="hopping")
    failed = after.trials.failed - (0 if before is None else before.trials.failed)
    if failed > 0:
        told = plural(failed, "trial")
        more = "" if failed == after.trials.failed else f", {after.trials.failed} in all"
        yield LogEntry(at_s=after.now_s, text=f"{told} failed{more}", topic="failed")
    best = after.best
    if best is not None and (before is None or best != before.best):
        text = f"best {after.metric} {best.metric:.6g}: trial {best.trial} after iteration {best.iteration}"
        yield LogEntry(at_s=after.now_s, text=text, topic=BEST)
    if after.is_over and not (before is not None and before.is_over):
        yield LogEntry(at_s=after.now_s, text=f"the run has ended: {after.doing}", topic="end")


def _stages(before: tuple[StageLine, ...], after: Snapshot) -> Iterator[LogEntry]:
    """A stage that begins where another one ends is told with it."""
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
    if now - was - up:
        yield f"{plural(len(now - was - up), 'node')} {_verb(len(now - was - up), 'boot')}"
    if up - was_up:
        count = len(up - was_up)
        yield f"{plural(count, 'node')} {'is' if count == 1 else 'are'} up, {after.up} in all"
    if was - now:
        left = f"{after.up} left" if now else "none is left"
        yield f"{plural(len(was - now), 'node')} went, {left}"


def _verb(count: int, verb: str) -> str:
    return f"{verb}s" if count == 1 else verb


def format_clock(seconds: float) -> str:
    """Of a clock or an age; who waits for a run does not count milliseconds."""
    return f"{seconds:.1f} s" if 0.0 <= seconds < 1.0 else format_duration(seconds)


def summary_line(snapshot: Snapshot) -> str:
    """Time and money against their limits, nodes, trials, and the best so far."""
    nodes, trials, best = snapshot.nodes, snapshot.trials, snapshot.best
    time_told = format_clock(snapshot.now_s)
    if snapshot.time.limit is not None:
        time_told += f" of {format_duration(snapshot.time.limit)}"
    if snapshot.time.ahead:
        word = "behind" if snapshot.time.ahead > 0 else "ahead of"
        time_told += f" ({format_duration(abs(snapshot.time.ahead))} {word} plan)"
    money_told = format_usd(snapshot.money.now)
    if snapshot.money.limit is not None:
        money_told += f" of {format_usd(snapshot.money.limit)}"
    nodes_told = plural(nodes.up, "node") + (f" (+{nodes.booting} booting)" if nodes.booting else "")
    trials_told = f"{trials.training} of {plural(trials.drawn, 'trial')} training, {trials.over} done"
    if snapshot.rounds:
        trials_told += f", {'; '.join(map(str, snapshot.rounds))}"
    best_told = "" if best is None else f", best {snapshot.metric} {best.metric:.6g} (trial {best.trial})"
    return f"{time_told}, {money_told}, {nodes_told}, {trials_told}{best_told}"
