"""Hyperband as published (Li et al. 2018): synchronous, one bracket after the other, on steady nodes.

A baseline: it knows neither deadline nor budget, and trials that wait at a barrier waste slots. (A job that
declares Hyperband and has a limit is planned and run by `rubberband`.) Trials are drawn when there is room
for them, so that a sampler can learn from what was seen: with `tpe`, the default of `bohb`, this is BOHB
(Falkner et al. 2018). Where models hop, all brackets of Hyperband train in the same rounds, over the same
data; those of BOHB still follow each other, so that the later ones learn from the earlier.
"""

from __future__ import annotations

from elastune.core import events
from elastune.core.commands import Ending
from elastune.core.policy import Policy, Vetoed
from elastune.core.state import State
from elastune.core.wishes import Advice, Wish, Wishes
from elastune.model.ids import TrialId
from elastune.model.quantities import Flag
from elastune.model.stages import Spec, hyperband, in_rounds
from elastune.policies.costs import nodes_at_hand, nodes_for_trials, room_for_trials, steady_nodes
from elastune.policies.extending import WARM_START, refuse_complete
from elastune.policies.registry import PolicySetup
from elastune.policies.rungs import HalvingOptions, group_trials, is_at_barrier, keep_best


class Hyperband(Policy):
    def __init__(self, specs: tuple[Spec, ...], *, repeat: bool, learns: bool = False) -> None:
        self.specs = specs
        self.repeat = repeat
        self.learns = learns
        self.bracket = 0
        self.stage = 0
        self.stages = 0  # barriers so far, in all brackets
        self.to_draw = specs[0].stages[0].trials
        self.alive: list[TrialId] = []
        self.groups: dict[TrialId, int] = {}
        self.sampling = 0
        self.meeting = False
        self.exhausted = False

    def start(self, state: State) -> Advice:
        if state.terms.data is not None and not self.learns:
            self.specs = in_rounds(self.specs)
            self.to_draw = self.specs[0].stages[0].trials
        return self._go_on(state)

    def handle(self, event: events.AnyEvent | Vetoed, state: State) -> Advice | None:
        match event:
            case events.TrialsSampled():
                self.sampling = 0
                if event.exhausted:
                    self.to_draw, self.exhausted = 0, True
                self.alive += [trial for trial, _ in event.trials]
                if not self.stage:
                    self.groups = group_trials(self.specs[self.bracket], self.alive)
                return self._go_on(state)
            case events.Progressed() | events.TrialPaused() if self._is_met(event.trial, state):
                return self._go_on(state)
            case events.NodeLost() | events.Resumed() | events.NodesRefused() | Vetoed():
                return self._go_on(state)
            case events.RunExtended() | events.TrialStopAsked() | events.ConfigAdded():
                return self._go_on(state)
            case events.BarrierPassed():
                return self._promote(state)
            case _:
                return None

    def refuses(self, request: events.RunExtended | events.ConfigAdded, state: State) -> str | None:
        if isinstance(request, events.ConfigAdded):
            draws = self.to_draw or self.repeat or self.bracket < len(self.specs) - 1
            return None if draws else f"the last bracket has all its trials; {WARM_START}"
        if request.more_trials:
            return f"the brackets of hyperband fix the number of trials; {WARM_START}"
        return refuse_complete(state)

    @property
    def _goal(self) -> int:
        """Total iterations at the end of the stage."""
        return sum(stage.iterations for stage in self.specs[self.bracket].stages[: self.stage + 1])

    def _is_met(self, number: TrialId, state: State) -> bool:
        return is_at_barrier(state.trials[number], self._goal)

    def _go_on(self, state: State, stop: tuple[TrialId, ...] = ()) -> Advice:
        slots = state.terms.gangs.min_slots
        most = steady_nodes(state, iterations=self.specs[0].stages[-1].iterations)
        going = [number for number in self.alive if not self._is_met(number, state)]
        nodes = nodes_at_hand(state, most)
        waiting = len(going) + self.to_draw
        room = int(room_for_trials(state, nodes, slots, waiting=waiting, iterations=self._goal))
        sample = 0
        if not (self.sampling or self.meeting):
            sample = self.sampling = max(0, min(room - len(going), self.to_draw))
            self.to_draw -= sample
        barriers: tuple[tuple[int, int], ...] = ()
        if not (going or self.sampling or self.to_draw or self.meeting):
            self.meeting, barriers = True, ((0, self.stages),)
            self.stages += 1
        busy = min(room, len(going) + self.sampling) or 1
        nodes = min(most, nodes_for_trials(state, busy, slots, most))
        final = self.stage == len(self.specs[self.bracket].stages) - 1
        living = [number for number in self.alive if not state.trials[number].phase.is_over]
        wishes = tuple(Wish(number, slots, self._goal, final=final) for number in living)
        return Advice(
            wishes=Wishes(trials=wishes, nodes={0: nodes}), sample=sample, barriers=barriers, stop=stop
        )

    def _promote(self, state: State) -> Advice:
        """Keep the best trials; after the last stage, begin the next bracket."""
        self.meeting = False
        trials = [state.trials[number] for number in self.alive]
        going = state.rank([trial for trial in trials if not trial.phase.is_over and trial.values])
        stages = self.specs[self.bracket].stages
        self.stage += 1
        if self.stage < len(stages) and going:
            kept = keep_best(self.specs[self.bracket], self.stage, going, self.groups)
            self.alive = [trial.number for trial in kept]
            return self._go_on(state, tuple(trial.number for trial in going if trial not in kept))
        self.bracket, self.stage, self.alive = self.bracket + 1, 0, []
        if self.repeat and self.bracket == len(self.specs):
            self.bracket = 0
        if self.bracket == len(self.specs) or self.exhausted:
            self.bracket = len(self.specs) - 1
            return Advice(done=Ending.COMPLETE if state.best else Ending.FAILED)
        self.to_draw = self.specs[self.bracket].stages[0].trials
        return self._go_on(state)


def _brackets(options: HalvingOptions) -> tuple[Spec, ...]:
    most, eta, least = options.max_iterations, options.eta, options.min_iterations
    return hyperband(max_iterations=most, eta=eta, min_iterations=least)


def create(setup: PolicySetup) -> Hyperband:
    return Hyperband(_brackets(setup.read(HalvingOptions)), repeat=False)


class BohbOptions(HalvingOptions):
    repeat: Flag = False  # after the last bracket begin again with the first


def create_bohb(setup: PolicySetup) -> Hyperband:
    options = setup.read(BohbOptions)
    return Hyperband(_brackets(options), repeat=options.repeat, learns=True)
