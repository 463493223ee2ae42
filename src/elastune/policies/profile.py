"""Measures instead of searching: a few configurations train on 1, 2, 4, ... slots in turn, then nodes boot.

As a policy it has the same guards, gangs and journal as a run; the measurements are read from the journal
afterwards. A step that takes longer than its time ends with what it has, once there are two iterations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from elastune.core.commands import Ending
from elastune.core.events import AnyEvent, TimerFired, TrialsSampled
from elastune.core.policy import Policy, Progress, Upcoming, Vetoed
from elastune.core.state import State
from elastune.core.trials import Trial
from elastune.core.wishes import Advice, Wish, Wishes
from elastune.model.ids import TrialId
from elastune.policies.registry import PolicySetup
from elastune.policies.rungs import is_at_barrier

_TIMER = "profile:step"
# Epochs of a model that trains on all workers; the first one does not count.
_EPOCHS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilingOptions:
    configurations: int = 2
    iterations: int = 6
    step_s: float = 60.0
    boots: int = 1  # the most nodes to boot at once, beyond those that training needs


@dataclass(frozen=True, slots=True)
class SizeStep:
    """Train gangs of `slots` slots, on as few nodes as hold one."""

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


class Profiling(Policy):
    def __init__(self, options: ProfilingOptions) -> None:
        self.options = options
        self.steps: list[SizeStep | BootStep | EpochsStep] = []
        self.goals: dict[TrialId, int] = {}
        self.nodes = 0

    def start(self, state: State) -> Advice:
        hops = (EpochsStep(1, together=False), EpochsStep(_EPOCHS, together=True))
        sizes = map(SizeStep, sizes_of(state))
        self.steps = [*(sizes if state.terms.data is None else hops), *self._boots(state)]
        return replace(self._begin(state), sample=self.options.configurations)

    def handle(self, event: AnyEvent | Vetoed, state: State) -> Advice | None:
        if not self.steps:
            return None
        if isinstance(event, TrialsSampled):
            return self._begin(state)
        if state.trials and not any(True for _ in state.living()):
            return self._finish(state)  # all have failed or ended: nothing more can be measured
        ended = isinstance(event, TimerFired) and event.timer == _TIMER
        if ended and not self._has_measured(state):
            return Advice(timers={_TIMER: state.now_s + self.options.step_s})
        if not ended and not self._is_done(state):
            return None
        self.steps.pop(0)
        return self._begin(state) if self.steps else self._finish(state)

    def progress(self, state: State) -> Progress:
        if _TIMER not in state.timers:
            return Progress()
        text = "the next measurement begins"
        return Progress(upcoming=(Upcoming(at_s=state.timers[_TIMER], text=text),))

    def _finish(self, state: State) -> Advice:
        self.steps = []
        measured = state.paces[0].all.count or any(trial.values for trial in state.trials.values())
        return Advice(done=Ending.COMPLETE if measured else Ending.FAILED)

    @staticmethod
    def _has_measured(state: State) -> bool:
        """Two iterations of a trial, or where models hop one visit, which is a part of an iteration."""
        return bool(state.paces[0].all.count) or any(len(t.values) > 1 for t in state.trials.values())

    def _begin(self, state: State) -> Advice:
        step, cluster = self.steps[0], state.terms.cluster
        living = list(state.living())
        timers = {_TIMER: state.now_s + self.options.step_s}
        if isinstance(step, BootStep):
            self.nodes += step.nodes
            self.goals = {}
            return Advice(wishes=Wishes(nodes={0: self.nodes}), timers=timers)
        if isinstance(step, EpochsStep):
            return Advice(wishes=self._epochs(step, living, state), timers=timers)
        self.nodes = max(self.nodes, -(-step.slots // cluster.slots_per_node))
        room = max(1, self.nodes * cluster.slots_per_node // step.slots)
        self.goals = {trial.number: trial.iteration + self.options.iterations for trial in living[:room]}
        wishes = tuple(Wish(number, step.slots, goal) for number, goal in self.goals.items())
        return Advice(wishes=Wishes(trials=wishes, nodes={0: self.nodes}), timers=timers)

    def _epochs(self, step: EpochsStep, living: list[Trial], state: State) -> Wishes:
        """On as many workers as can hold data: the time of a visit may depend on how much each holds."""
        cluster, data = state.terms.cluster, state.terms.data
        partitions = 1 if data is None else data.partitions
        self.nodes = min(cluster.max_nodes, -(-partitions // cluster.slots_per_node))
        some = living[:1] if step.together else living
        self.goals = {trial.number: trial.iteration + step.epochs for trial in some}
        wishes = tuple(Wish(number, 1, goal) for number, goal in self.goals.items())
        return Wishes(trials=wishes, nodes={0: self.nodes}, together=step.together)

    def _is_done(self, state: State) -> bool:
        if isinstance(self.steps[0], BootStep):
            return state.pool().ready >= self.nodes
        goals = self.goals.items()
        return bool(state.trials) and all(is_at_barrier(state.trials[trial], goal) for trial, goal in goals)

    def _boots(self, state: State) -> list[BootStep]:
        """2, 4, ... more nodes at once, up to the size of the cluster; one was booted to train on."""
        spare = state.terms.cluster.max_nodes - 1
        if state.terms.data is not None:
            spare -= min(state.terms.cluster.max_nodes, state.terms.data.partitions)
        boots: list[BootStep] = []
        count = 2
        while count <= min(self.options.boots, spare):
            boots.append(BootStep(count))
            spare -= count
            count *= 2
        return boots


def sizes_of(state: State) -> list[int]:
    """Gangs from the smallest up, doubling, to what two nodes hold."""
    cluster, gangs = state.terms.cluster, state.terms.gangs
    two_nodes = cluster.slots_per_node * min(2, cluster.max_nodes)
    most = min(gangs.max_slots or two_nodes, two_nodes)
    sizes = [gangs.min_slots]
    while sizes[-1] * 2 <= most:
        sizes.append(sizes[-1] * 2)
    return sizes


def create(setup: PolicySetup) -> Profiling:
    return Profiling(setup.read(ProfilingOptions))
