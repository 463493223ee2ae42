"""A policy for the benchmark alone: one trial, whose gang changes its size every few iterations."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from elastune.core.commands import Ending
from elastune.core.core import Core
from elastune.core.events import AnyEvent, GangStarted, Progressed, TrialsSampled
from elastune.core.policy import Policy, Vetoed
from elastune.core.state import State
from elastune.core.wishes import Advice, Wish, Wishes
from elastune.model.ids import TrialId
from elastune.runs.prepared_run import PreparedRun
from elastune.setup.run_setup import RunSetup

_TRIAL = TrialId(0)
_FOR_EVER = 1_000_000


class SeeSaw(Policy):
    """Goes through `sizes` again and again until the gang has been formed `gangs` times."""

    def __init__(self, sizes: tuple[int, ...], *, gangs: int, iterations: int) -> None:
        self._sizes = sizes
        self._gangs = gangs
        self._iterations = iterations
        self._started = 0
        self._until = 0

    def start(self, state: State) -> Advice:
        return Advice(sample=1, wishes=Wishes(nodes={0: 1}))

    def handle(self, event: AnyEvent | Vetoed, state: State) -> Advice | None:
        match event:
            case TrialsSampled():
                return self._wish()
            case GangStarted():
                self._started += 1
                self._until = state.trials[_TRIAL].iteration + self._iterations
            case Progressed() if self._until and state.trials[_TRIAL].iteration >= self._until:
                self._until = 0
                return self._wish() if self._started < self._gangs else Advice(done=Ending.COMPLETE)
        return None

    def _wish(self) -> Advice:
        size = self._sizes[self._started % len(self._sizes)]
        wish = Wish(_TRIAL, size, _FOR_EVER)
        return Advice(wishes=Wishes(trials=(wish,), nodes={0: 1}, steady=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class SeeSawSetup(RunSetup):
    sizes: tuple[int, ...]
    gangs: int
    iterations: int

    def make_core(self, seed: int) -> Core:
        return Core(self.terms, SeeSaw(self.sizes, gangs=self.gangs, iterations=self.iterations))


def with_see_saw(offer: PreparedRun, sizes: tuple[int, ...], *, gangs: int, iterations: int) -> PreparedRun:
    given = {field.name: getattr(offer.setup, field.name) for field in fields(RunSetup)}
    setup = SeeSawSetup(**given, sizes=sizes, gangs=gangs, iterations=iterations)
    return replace(offer, setup=setup)
