"""Measures instead of searching: a few configurations train on 1, 2, 4, ... slots in turn, then nodes boot.

It is a policy like any other, so that a measurement has the same guards, gangs and journal as a run. What it
measured is read from the journal afterwards. Every step has its share of the time; a step that takes longer
ends with what it has, once there are two iterations at all.
"""

from __future__ import annotations

from dataclasses import dataclass

from elastune.core.commands import Ending
from elastune.core.events import AnyEvent, TimerFired, TrialsSampled
from elastune.core.policy import Policy, Progress, Upcoming, Vetoed
from elastune.core.state import State
from elastune.core.trials import Trial
from elastune.core.wishes import Advice, Wish, Wishes
from elastune.model.ids import TrialId
from elastune.policies.registry import PolicySetup

_TIMER = "profile:step"
# Of a model that trains on all workers; the first one does not count.
_EPOCHS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilingOptions:
    """`boots`: the most nodes to be booted at once, beyond those that training needs."""

    configurations: int = 2
    iterations: int = 6
    step_s: float = 60.0
    boots: int = 1


@dataclass(frozen=True, slots=True)
class SizeStep:
    """Train gangs of so many slots, on as few nodes as hold one."""

    slots: int


@dataclass(frozen=True, slots=True)
class BootStep:
    """Ask for so many more nodes at once."""

    nodes: int


@dataclass(frozen=True, slots=True)
class EpochsStep:
    """Where models hop: train so many epochs, one model after the other on all workers, or hopping."""

    epochs: int
    together: bool


class Profiling(Policy):
    def __init__(self, options: ProfilingOptions) -> None:
        self.configurations = options.configurations
        self.iterations = options.iterations
        self.step_s = options.step_s
        self.boots = options.boots
        self.steps: list[SizeStep | BootStep | EpochsStep] = []
        self.goals: dict[TrialId, int] = {}
        self.nodes = 0

    def start(self, state: State) -> Advice:
        if state.terms.data is not None:
            self.steps = [
                EpochsStep(1, together=False),
                EpochsStep(_EPOCHS, together=True),
                *self._boots(state),
            ]
        else:
            self.steps = [*map(SizeStep, sizes_of(state)), *self._boots(state)]
        advice = self._begin(state)
        return Advice(wishes=advice.wishes, timers=advice.timers, sample=self.configurations)

    def handle(self, event: AnyEvent | Vetoed, state: State) -> Advice | None:
        if not self.steps:
            return None
        if isinstance(event, TrialsSampled):
            return self._begin(state)
        if state.trials and not any(True for _ in state.living()):
            return self._finish(state)  # all have failed, or are through: nothing more can be measured
        ended = isinstance(event, TimerFired) and event.timer == _TIMER
        if ended and not self._is_telling(state):
            return Advice(timers={_TIMER: state.now_s + self.step_s})  # nothing is known yet: wait for it
        if not ended and not self._is_done(state):
            return None
        self.steps.pop(0)
        return self._begin(state) if self.steps else self._finish(state)

    def progress(self, state: State) -> Progress:
        if _TIMER not in state.timers:
            return Progress()
        return Progress(upcoming=(Upcoming(at_s=state.timers[_TIMER], text="the next thing is measured"),))

    def _finish(self, state: State) -> Advice:
        self.steps = []
        told = state.paces[0].all.count or any(trial.values for trial in state.trials.values())
        return Advice(done=Ending.COMPLETE if told else Ending.FAILED)

    @staticmethod
    def _is_telling(state: State) -> bool:
        """Whether something is known already: an iteration may be long, but a visit is a part of one."""
        return bool(state.paces[0].all.count) or any(len(t.values) > 1 for t in state.trials.values())

    def _begin(self, state: State) -> Advice:
        """The wishes of the next step."""
        step, cluster = self.steps[0], state.terms.cluster
        living = list(state.living())
        timers = {_TIMER: state.now_s + self.step_s}
        if isinstance(step, BootStep):
            self.nodes += step.nodes
            self.goals = {}
            return Advice(wishes=Wishes(nodes={0: self.nodes}), timers=timers)
        if isinstance(step, EpochsStep):
            return Advice(wishes=self._epochs(step, living, state), timers=timers)
        self.nodes = max(self.nodes, -(-step.slots // cluster.slots_per_node))
        room = max(1, self.nodes * cluster.slots_per_node // step.slots)
        self.goals = {trial.number: trial.iteration + self.iterations for trial in living[:room]}
        wishes = tuple(Wish(number, step.slots, goal) for number, goal in self.goals.items())
        return Advice(wishes=Wishes(trials=wishes, nodes={0: self.nodes}), timers=timers)

    def _epochs(self, step: EpochsStep, living: list[Trial], state: State) -> Wishes:
        """On as many workers as can hold data: how long a visit takes may depend on how much each holds."""
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
        return bool(state.trials) and all(
            self._has_done(state.trials[number], goal) for number, goal in self.goals.items()
        )

    @staticmethod
    def _has_done(trial: Trial, goal: int) -> bool:
        return trial.phase.is_over or (trial.activity is None and trial.has_done(goal))

    def _boots(self, state: State) -> list[BootStep]:
        """2, 4, ... more nodes at once, as far as the cluster goes; one was booted to train on."""
        spare = state.terms.cluster.max_nodes - 1
        if state.terms.data is not None:
            spare -= min(state.terms.cluster.max_nodes, state.terms.data.partitions)
        boots: list[BootStep] = []
        count = 2
        while count <= min(self.boots, spare):
            boots.append(BootStep(count))
            spare -= count
            count *= 2
        return boots


def sizes_of(state: State) -> list[int]:
    """Gangs from the smallest up, doubling, to what two nodes hold."""
    cluster, gangs = state.terms.cluster, state.terms.gangs
    most = min(
        gangs.max_slots or cluster.slots_per_node * 2, cluster.slots_per_node * min(2, cluster.max_nodes)
    )
    sizes = [gangs.min_slots]
    while sizes[-1] * 2 <= most:
        sizes.append(sizes[-1] * 2)
    return sizes


def create(setup: PolicySetup) -> Profiling:
    return Profiling(setup.read(ProfilingOptions))
