"""From the state of the core to a snapshot."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from elastune.core.hop_state import HopState
from elastune.core.nodes import Node
from elastune.core.policy import Progress
from elastune.core.state import State
from elastune.core.trials import Activity, Phase, Trial
from elastune.history.result import is_amid_round
from elastune.model.billing import bills_nodes, ingress_usd
from elastune.model.ids import NodeId
from elastune.model.metric import Mode
from elastune.views.live.progress import PoolPlace, Promise, place_on, stage_lines, upcoming_events
from elastune.views.live.snapshot import (
    BestModel,
    Gauge,
    NodeLine,
    NodesNow,
    RoundLine,
    Snapshot,
    TrialLine,
    TrialsNow,
)  # fmt: skip

# More than a screen has lines for.
_MOST_NODES = 256
_MOST_TRIALS = 48
_BEST_FEW = 8
_LAST_VALUES = 16
_DOING = {
    Activity.STARTING: "starts",
    Activity.TRAINING: "trains",
    Activity.WAITING: "waits",
    Activity.SAVING: "saves",
}


def round_lines(state: State, progress: Progress) -> tuple[RoundLine, ...]:
    """Where models hop: how far the present epochs are."""
    planned = {track.pool: track.stages[-1].goal for track in reversed(progress.tracks)}
    lines = (_line(state, each.hop_state, planned.get(pool)) for pool, each in state.pools.items())
    return tuple(line for line in lines if line is not None)


def _line(state: State, hop_state: HopState, epochs: int | None) -> RoundLine | None:
    now = hop_state.round
    if now is None or state.ended is not None:
        return None
    visits = len(now.epoch.trials) * len(now.epoch.partitions)
    done = visits - int(now.epoch.todo.sum()) - len(now.epoch.running)
    if now.evaluates is None:  # epochs overlap
        visits = len(now.open) * state.data.visits
        done = sum(len(state.hop_progress[trial].seen) for trial in now.open)
    underway = [state.trials[trial].iteration + 1 for trial in now.open]
    through = [state.trials[trial].iteration for trial in now.epoch.trials]
    return RoundLine(
        epoch=max(underway or through),
        epochs=epochs,
        trials=len(now.open),
        done=done,
        visits=visits,
        evaluates=bool(now.evaluates),
        workers=len(hop_state.roster),
    )


def partitions_held(state: State) -> Counter[NodeId] | None:
    """By node; None: the data are not partitioned."""
    if state.terms.data is None:
        return None
    held: Counter[NodeId] = Counter()
    for pool_state in state.pools.values():
        nodes = {f"{slot.node}:{slot.number}": slot.node for slot in pool_state.hop_state.roster}
        for worker, partitions in pool_state.hop_state.layout.items():
            if worker in nodes:
                held[nodes[worker]] += len(partitions)
    return held


def together(state: State) -> Iterator[int]:
    """Trials that have all workers of their pool."""
    trials = (state.trials[number] for number in state.held)
    return (trial.number for trial in trials if trial.shares and trial.visit is None)


def where(trial: Trial) -> str:
    """`on partition 4, n0:1`; empty if the trial is on no visit."""
    if trial.visit is None or not trial.gang:
        return ""
    slot = trial.gang[0]
    return f"on partition {trial.visit.partition}, {slot.node}:{slot.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What does not change during a run."""

    name: str
    run: str
    policy: str
    promise: Promise


def take(subject: Subject, state: State, progress: Progress, *, now_s: float) -> Snapshot:
    """`now_s` is the run's clock; the state has only the time of the last event."""
    places = tuple(place_on(track, state, now_s) for track in progress.tracks)
    best = None
    if state.best is not None:
        best = BestModel(trial=state.best.trial, iteration=state.best.iteration, metric=state.best.metric)
    return Snapshot(
        name=subject.name,
        run=subject.run,
        policy=subject.policy,
        metric=state.terms.metric,
        rises=state.terms.mode is Mode.MAX,
        now_s=now_s,
        doing=_doing(state),
        is_over=state.ended is not None,
        time=_time(subject.promise, places, state, now_s),
        money=None if state.terms.cluster.is_free else _money(subject.promise, places, state, now_s),
        stage_word=progress.word,
        stages=stage_lines(places, state),
        nodes=_nodes(state, now_s),
        trials=_trials(state, by_clock=progress.by_clock),
        best=best,
        upcoming=upcoming_events(state, now_s, progress, places),
        rounds=round_lines(state, progress),
        together=tuple(together(state)),
    )


def _doing(state: State) -> str:
    if state.ended is not None:
        return state.ended.value
    if state.shutdown is not None:
        return f"shuts down ({state.shutdown.value})"
    if state.suspended:
        return "is being suspended"
    if state.held:
        return "trains"
    if any(node.ready_s is None for node in state.where.values()):
        return "waits for nodes to boot"
    return "waits for nodes" if state.nodes_committed and not state.where else "between stages"


def _time(promised: Promise, places: Sequence[PoolPlace], state: State, now_s: float) -> Gauge:
    predicted_s = None if promised.predicted is None else promised.predicted.jct_seconds
    planned_now = expected_s = None
    if state.ended is not None:
        expected_s = now_s
    elif places:
        expected_s = now_s + max(place.left_s for place in places)
        promised_s = promised.seconds
        around_s = max(0.0, (predicted_s or promised_s) - promised_s)
        planned_now, expected_s = now_s - (expected_s - promised_s), expected_s + around_s
    elif predicted_s is not None and now_s <= predicted_s:
        expected_s = predicted_s
    return Gauge(
        now=now_s,
        limit=state.limits.deadline_s,
        planned_now=planned_now,
        planned_end=predicted_s,
        expected_end=expected_s,
        grain=state.terms.profile.iteration.mean,
    )


def _money(promised: Promise, places: Sequence[PoolPlace], state: State, now_s: float) -> Gauge:
    """Without the rest of minimum charges: a plan counts them when nodes are released."""
    expected_usd: float | None
    if state.ended is not None:
        spent_usd = expected_usd = state.ledger.accrued_usd(now_s)
    else:
        spent_usd = state.ledger.spent_usd(now_s)
        to_come_usd = (place.left_usd for place in places)
        expected_usd = spent_usd + sum(to_come_usd) if places else None
    predicted = promised.predicted
    return Gauge(
        now=spent_usd,
        limit=state.limits.budget_usd,
        planned_now=promised.usd_at(now_s),
        planned_end=None if predicted is None else predicted.cost,
        expected_end=expected_usd,
    )


def _nodes(state: State, now_s: float) -> NodesNow:
    busy: Counter[NodeId] = Counter()
    for number in state.held:
        busy.update(slot.node for slot in state.trials[number].gang)
    nodes = state.where.values()
    held = partitions_held(state)
    booting = sum(node.ready_s is None for node in nodes)
    return NodesNow(
        up=len(state.where) - booting,
        booting=booting,
        requested=sum(pool_state.pool.outstanding for pool_state in state.pools.values()),
        leaving=sum(node.leaving for node in nodes),
        slots_per_node=state.terms.cluster.slots_per_node,
        lines=tuple(
            _node(node, busy[node.number], state, now_s, None if held is None else held[node.number])
            for node in itertools.islice(nodes, _MOST_NODES)
        ),
    )


def _node(node: Node, busy: int, state: State, now_s: float, partitions: int | None) -> NodeLine:
    cluster = state.terms.cluster
    age_s = max(0.0, now_s - node.born_s)
    usd = None
    if bills_nodes(cluster) and not cluster.is_free:
        usd = state.ledger.node_rate(node.number) * age_s + ingress_usd(cluster, 1)
    doing = "leaves" if node.leaving else "boots" if node.ready_s is None else "up"
    return NodeLine(name=node.number, doing=doing, busy=busy, age_s=age_s, usd=usd, partitions=partitions)


def _trials(state: State, *, by_clock: bool) -> TrialsNow:
    """One pass over all trials; details only of those that are shown."""
    over = failed = training = 0
    scored: list[Trial] = []
    for trial in state.trials.values():
        over += trial.phase.is_over
        training += trial.activity is not None or is_amid_round(state, trial)
        failed += trial.phase is Phase.FAILED
        if trial.values:
            scored.append(trial)
    sign = -1.0 if state.terms.mode is Mode.MAX else 1.0
    few = heapq.nsmallest(_BEST_FEW, scored, key=lambda trial: sign * trial.values[-1])
    shown = {trial.number: trial for trial in few if trial.phase is not Phase.FAILED}
    busy = itertools.islice(state.held, _MOST_TRIALS)
    shown.update((number, state.trials[number]) for number in busy)
    best = None if state.best is None else state.best.trial
    if best is not None:
        shown[best] = state.trials[best]
    return TrialsNow(
        drawn=len(state.trials),
        training=training,
        waiting=len(state.trials) - over - training,
        over=over,
        failed=failed,
        lines=tuple(
            _trial(state, trial, is_best=trial.number == best, by_clock=by_clock)
            for trial in state.rank(list(shown.values()))
        ),
    )


def _trial(state: State, trial: Trial, *, is_best: bool, by_clock: bool) -> TrialLine:
    """Where a round ends by the clock, a lease allows more iterations than any trial reaches."""
    return TrialLine(
        number=trial.number,
        doing=_does(state, trial),
        slots=len(trial.gang),
        iteration=len(trial.values),
        until=None if trial.lease is None or by_clock else trial.lease.until_iteration,
        values=tuple(trial.values[-_LAST_VALUES:]),
        is_best=is_best,
        where=where(trial),
    )


def _does(state: State, trial: Trial) -> str:
    """Between two visits a model is idle, but its epoch goes on."""
    if trial.activity is None:
        return "between visits" if is_amid_round(state, trial) else trial.phase.value
    if trial.visit is not None and trial.visit.evaluates:
        return "is evaluated"
    return _DOING[trial.activity]
