"""Measures instead of searching: configurations train on 1, 2, 4, ... slots in turn, then nodes boot.

As a policy it has the same guards, gangs and journal as a run; the measurements are read from the journal
afterwards. First as many configurations as fit train on the smallest number of slots, then on twice as many
and so on, as long as that pays and time and money suffice; then the other configurations train on the
smallest number, on the nodes that are there. Steps share the time that is left; one that takes longer ends
with what it has, once there are two iterations. What is left out is noted, with the reason.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from statistics import fmean

from elastune.core.commands import Ending
from elastune.core.events import (
    AnyEvent,
    BarrierPassed,
    GangStarted,
    NodesReady,
    Progressed,
    TimerFired,
    TrialsSampled,
)  # fmt: skip
from elastune.core.policy import Policy, Progress, Upcoming, Vetoed
from elastune.core.state import State
from elastune.core.trials import Trial
from elastune.core.wishes import Advice, Wish, Wishes
from elastune.model.billing import most_node_usd, node_rate
from elastune.model.cluster import ClusterTerms
from elastune.model.ids import TrialId
from elastune.policies.registry import PolicySetup
from elastune.policies.rungs import is_at_barrier
from elastune.wording import format_duration, format_usd, plural

UNMEASURED = "unmeasured"
"""The topic of notes about what was left out."""
_TIMER = "profile:step"
# Epochs of a model that trains on all workers; the first one does not count.
_EPOCHS = 3
# Twice the slots that are not faster by this are not worth their price to any plan, nor is the next size.
_PAYS = 1.1
# A step begins only if there is time for so many iterations, the first of which does not count.
_LEAST_ITERATIONS = 3
# The time after which no larger size begins, if there are other configurations to measure.
_SIZES_SHARE = 0.7
_LEAST_STEP_S = 1.0
# What a step may take of its estimated time before it is cut short, if its share of the time is less.
_MARGIN = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilingOptions:
    configurations: int = 6
    iterations: int = 6
    most_s: float = 300.0
    most_usd: float | None = None  # no larger size begins that would exceed it
    boots: int = 1  # the most nodes to boot at once, beyond those that training needs


@dataclass(frozen=True, slots=True)
class SizeStep:
    """Train gangs of `slots` slots, on as few nodes as hold one."""

    slots: int


@dataclass(frozen=True, slots=True)
class OthersStep:
    """Train the configurations that did not fit into the first step, on gangs of the same size."""

    slots: int


@dataclass(frozen=True, slots=True)
class BootStep:
    """Request `nodes` more nodes at once."""

    nodes: int


@dataclass(frozen=True, slots=True)
class EpochsStep:
    """Where models hop: train `epochs` epochs, one model after the other on all workers, or hopping."""

    epochs: int
    together: bool


_Step = SizeStep | OthersStep | BootStep | EpochsStep


@dataclass(slots=True)
class _Paces:
    """The iterations of each gang, as they are reported."""

    sizes: dict[tuple[TrialId, int], int] = field(default_factory=dict)
    """By trial and generation."""
    ends: dict[tuple[TrialId, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    """When training began, then the end of every iteration."""

    def started(self, event: GangStarted, state: State) -> None:
        gang = event.trial, event.generation
        self.sizes[gang] = len(state.trials[event.trial].gang)
        self.ends[gang].append(event.at_s)

    def progressed(self, event: Progressed) -> None:
        gang = event.trial, event.generation
        if gang in self.sizes:
            self.ends[gang] += [row.at_s for row in event.rows]

    def at(self, slots: int) -> dict[TrialId, float]:
        """Seconds per iteration of each trial, without the first iteration if there are others."""
        found: dict[TrialId, float] = {}
        for (trial, generation), size in self.sizes.items():
            ends = self.ends[trial, generation]
            kept = ends[1:] if len(ends) > 2 else ends
            if size == slots and len(kept) > 1:
                found[trial] = (kept[-1] - kept[0]) / (len(kept) - 1)
        return found

    def gain(self, before: int, after: int) -> float | None:
        """How many times faster the same configurations are on more slots."""
        slow, fast = self.at(before), self.at(after)
        common = slow.keys() & fast.keys()
        seconds = fmean(fast[trial] for trial in common) if common else 0.0
        return fmean(slow[trial] for trial in common) / seconds if seconds else None


class Profiling(Policy):
    def __init__(self, options: ProfilingOptions) -> None:
        self.options = options
        self.steps: list[_Step] = []
        self.goals: dict[TrialId, int] = {}
        self.nodes = 0
        self.stage = 0
        self.synchronises = False
        """The step is over, and its barrier is not yet passed."""
        self.sizes: list[int] = []
        """Those that were begun."""
        self.began: dict[TrialId, None] = {}
        """Trials of the first step."""
        self.paces = _Paces()
        self.asked: set[int] = set()
        """How many nodes were requested at once."""
        self.asked_s: float | None = None
        """Since when the present nodes are requested; None: all were up once."""
        self.boot_s = 0.0
        self.share_s = 0.0

    def start(self, state: State) -> Advice:
        hops = (EpochsStep(1, together=False), EpochsStep(_EPOCHS, together=True))
        sizes = sizes_of(state)
        alone: tuple[_Step, ...] = (*map(SizeStep, sizes), OthersStep(sizes[0]))
        boots = [BootStep(2**power) for power in range(1, self.options.boots.bit_length())]
        self.steps = [*(alone if state.terms.data is None else hops), *boots]
        return replace(self._begin(state), sample=self.options.configurations)

    def handle(self, event: AnyEvent | Vetoed, state: State) -> Advice | None:
        self._record(event, state)
        advice: Advice | None = None
        match event:
            case _ if not self.steps:
                pass
            case _ if state.trials and not any(True for _ in state.living()):
                advice = self._finish(state)  # all have failed or ended: nothing more can be measured
            case TrialsSampled():
                advice = self._begin(state)
            case Vetoed():
                advice = self._refused(event, state)
            case BarrierPassed():
                advice = self._go_on(state)
            case TimerFired(timer=timer) if timer == _TIMER and not self.synchronises:
                advice = self._cut_short(state)
            case _ if self._is_done(state):
                advice = self._end_step(state)
        return advice

    def progress(self, state: State) -> Progress:
        if _TIMER not in state.timers:
            return Progress()
        text = "the next measurement begins"
        return Progress(upcoming=(Upcoming(at_s=state.timers[_TIMER], text=text),))

    def _record(self, event: AnyEvent | Vetoed, state: State) -> None:
        match event:
            case GangStarted() if state.trials[event.trial].generation == event.generation:
                self.paces.started(event, state)
            case Progressed():
                self.paces.progressed(event)
            case NodesReady() if self.asked_s is not None and state.pool().ready >= self.nodes:
                self.boot_s = max(self.boot_s, event.at_s - self.asked_s)
                self.asked_s = None

    def _go_on(self, state: State, notes: tuple[tuple[str, str], ...] = ()) -> Advice:
        """The next step, or the end."""
        self.synchronises = False
        self.steps.pop(0)
        advice = self._begin(state)
        return replace(advice, notes=(*notes, *advice.notes))

    def _finish(self, state: State) -> Advice:
        self.steps = []
        measured = state.paces[0].all.count or any(trial.values for trial in state.trials.values())
        return Advice(done=Ending.COMPLETE if measured else Ending.FAILED)

    def _end_step(self, state: State) -> Advice:
        """At a barrier, whose time is measured, too."""
        step = self.steps[0]
        if isinstance(step, SizeStep) and not self.paces.at(step.slots):
            return self._begin(state)  # all have failed: others, before more nodes are paid for
        self.synchronises = True
        self.stage += 1
        return Advice(barriers=((0, self.stage - 1),))

    def _cut_short(self, state: State) -> Advice:
        if not self._has_measured(state):
            return Advice(reviews={_TIMER: state.now_s + self.share_s})
        step = self.steps[0]
        notes: tuple[tuple[str, str], ...] = ()
        if isinstance(step, SizeStep) and not self.paces.at(step.slots):
            ready = state.pool().ready * state.terms.cluster.slots_per_node >= step.slots
            what = "no iteration finished" if ready else "its nodes were not up"
            notes = self._leave_out(f"{what} within {format_duration(self.share_s)}")
        elif isinstance(step, OthersStep):
            missing = len(self.goals.keys() - self.paces.at(step.slots).keys())
            if missing:
                text = f"{plural(missing, 'configuration')}: no iteration finished in time"
                notes = ((UNMEASURED, text),)
        return self._go_on(state, notes)

    def _refused(self, veto: Vetoed, state: State) -> Advice | None:
        """More nodes than the limits allow: without the larger sizes, or without more boots."""
        step, slots = self.steps[0], veto.allowed * state.terms.cluster.slots_per_node
        if isinstance(step, BootStep):
            self.nodes -= step.nodes
            return self._go_on(state)
        if not isinstance(step, SizeStep) or step.slots <= slots or len(self.sizes) < 2:
            return None
        self.sizes.pop()
        self.nodes = veto.allowed
        return self._go_on(state, self._leave_out(veto.why))

    @staticmethod
    def _has_measured(state: State) -> bool:
        """Two iterations of a trial, or where models hop one visit, which is a part of an iteration."""
        return bool(state.paces[0].all.count) or any(len(t.values) > 1 for t in state.trials.values())

    def _leave_out(self, why: str) -> tuple[tuple[str, str], ...]:
        """A note about the present size and all larger ones, which are left out; the present step stays."""
        sizes = [step.slots for step in self.steps if isinstance(step, SizeStep)]
        self.steps[1:] = [step for step in self.steps[1:] if not isinstance(step, SizeStep)]
        text = f"{', '.join(map(str, sizes))} slot{'s' if sizes != [1] else ''}"
        return ((UNMEASURED, f"{text}: {why}"),)

    def _begin(self, state: State) -> Advice:
        """The first step that is worth its time and money."""
        notes: tuple[tuple[str, str], ...] = ()
        while self.steps:
            step = self.steps[0]
            why = self._why_not(step, state)
            if why is None:
                break
            if isinstance(step, SizeStep):
                notes = (*notes, *self._leave_out(why))
            self.steps.pop(0)
        if not self.steps:
            return replace(self._finish(state), notes=notes)
        self.share_s = self._share_s(state)
        reviews = {_TIMER: state.now_s + self.share_s}
        return Advice(wishes=self._wishes(self.steps[0], state), reviews=reviews, notes=notes)

    def _share_s(self, state: State) -> float:
        """The time after which the step is cut short."""
        left_s, step = self._left_s(state), self.steps[0]
        share_s = left_s / len(self.steps)
        if isinstance(step, OthersStep):  # only boots follow
            share_s = max(share_s, left_s - _MARGIN * self.boot_s * (len(self.steps) - 1))
        return max(_LEAST_STEP_S, share_s, self._need_s(state) * _MARGIN)

    def _wishes(self, step: _Step, state: State) -> Wishes:
        living = list(state.living())
        if isinstance(step, BootStep):
            self.goals = {}
            self._want(self.nodes + step.nodes, state)
            return Wishes(nodes={0: self.nodes})
        if isinstance(step, EpochsStep):
            return self._epochs(step, living, state)
        per_node = state.terms.cluster.slots_per_node
        if isinstance(step, OthersStep):
            chosen = self._others(state)
            self._want(min(self.nodes, -(-len(chosen) * step.slots // per_node)), state)
        else:
            self._want(max(self.nodes, -(-step.slots // per_node)), state)
            chosen = living[: max(1, self.nodes * per_node // step.slots)]
            if step.slots not in self.sizes:
                self.sizes.append(step.slots)
            if len(self.sizes) == 1:
                self.began = dict.fromkeys(trial.number for trial in chosen)
        self.goals = {trial.number: trial.iteration + self.options.iterations for trial in chosen}
        wishes = tuple(Wish(number, step.slots, goal) for number, goal in self.goals.items())
        return Wishes(trials=wishes, nodes={0: self.nodes})

    def _want(self, nodes: int, state: State) -> None:
        if nodes > self.nodes:
            self.asked.add(nodes - self.nodes)
            self.asked_s = state.now_s
        self.nodes = nodes

    def _others(self, state: State) -> list[Trial]:
        return [trial for trial in state.living() if trial.number not in self.began]

    def _epochs(self, step: EpochsStep, living: list[Trial], state: State) -> Wishes:
        """On as many workers as can hold data: the time of a visit may depend on how much each holds."""
        cluster, data = state.terms.cluster, state.terms.data
        partitions = 1 if data is None else data.partitions
        self._want(min(cluster.max_nodes, -(-partitions // cluster.slots_per_node)), state)
        some = living[:1] if step.together else living
        self.goals = {trial.number: trial.iteration + step.epochs for trial in some}
        wishes = tuple(Wish(number, 1, goal) for number, goal in self.goals.items())
        return Wishes(trials=wishes, nodes={0: self.nodes}, together=step.together)

    def _is_done(self, state: State) -> bool:
        if self.synchronises:
            return False
        if isinstance(self.steps[0], BootStep):
            return state.pool().ready >= self.nodes
        goals = self.goals.items()
        return bool(state.trials) and all(is_at_barrier(state.trials[trial], goal) for trial, goal in goals)

    def _why_not(self, step: _Step, state: State) -> str | None:
        """Why the step is not worth its time and money; None: it is."""
        if isinstance(step, OthersStep):
            return None if self._others(state) else "there are no others"
        if isinstance(step, BootStep):
            cluster = state.terms.cluster
            fits = self.nodes + step.nodes <= cluster.max_nodes
            return None if fits and step.nodes not in self.asked else "known, or more than there may be"
        if not isinstance(step, SizeStep) or step.slots in self.sizes or not self.sizes:
            return None
        return self._does_not_pay() or self._is_too_long(state) or self._is_too_dear(step, state)

    def _does_not_pay(self) -> str | None:
        if len(self.sizes) < 2:
            return None
        before, after = self.sizes[-2:]
        gain = self.paces.gain(before, after)
        if gain is None or gain >= _PAYS:
            return None
        return f"{after} slots are only {gain:.2f} times as fast as {before}"

    def _is_too_long(self, state: State) -> str | None:
        left_s = self._left_s(state)
        if self._others(state):
            left_s -= (1.0 - _SIZES_SHARE) * self.options.most_s
        need_s = self._need_s(state)
        if need_s <= left_s:
            return None
        return f"they need about {format_duration(need_s)}, and {format_duration(max(0.0, left_s))} is left"

    def _is_too_dear(self, step: SizeStep, state: State) -> str | None:
        cluster, need_s = state.terms.cluster, self._need_s(state)
        more = max(0, _nodes_for(step.slots, cluster) - self.nodes)
        need_usd = self.nodes * node_rate(cluster) * need_s + more * most_node_usd(cluster, need_s)
        most_usd, lefts = self.options.most_usd, []
        if state.money_left_usd is not None:
            lefts.append(state.money_left_usd)
        if most_usd is not None:
            lefts.append(most_usd - state.ledger.spent_usd(state.now_s))
        if not lefts or need_usd <= min(lefts):
            return None
        return f"they need about {format_usd(need_usd)}, and {format_usd(max(0.0, min(lefts)))} is left"

    def _need_s(self, state: State) -> float:
        """For the next size: a few iterations, no faster than on the last one, with start-up, save and boot
        as they were. 0 for other steps."""
        step = self.steps[0]
        if not isinstance(step, SizeStep) or not self.sizes:
            return 0.0
        speed, boots = state.observed_speed, _nodes_for(step.slots, state.terms.cluster) > self.nodes
        once = (tally.seconds / tally.count for tally in (speed.startup, speed.save) if tally.count)
        pace_s = max(self.paces.at(self.sizes[-1]).values(), default=0.0)
        return self.boot_s * boots + sum(once) + _LEAST_ITERATIONS * pace_s

    def _left_s(self, state: State) -> float:
        left_s = self.options.most_s - state.now_s
        return left_s if state.time_left_s is None else min(left_s, state.time_left_s)


def _nodes_for(slots: int, cluster: ClusterTerms) -> int:
    return -(-slots // cluster.slots_per_node)


def sizes_of(state: State) -> list[int]:
    """Gangs from the smallest up, doubling, to what the limits of gangs and nodes allow."""
    cluster, gangs = state.terms.cluster, state.terms.gangs
    all_slots = cluster.slots_per_node * cluster.max_nodes
    return doubling(gangs.min_slots, min(gangs.max_slots or all_slots, all_slots))


def doubling(least: int, most: int) -> list[int]:
    sizes = [least]
    while sizes[-1] * 2 <= most:
        sizes.append(sizes[-1] * 2)
    return sizes


def create(setup: PolicySetup) -> Profiling:
    return Profiling(setup.read(ProfilingOptions))
