"""A core under test: the test is the runtime that reports and the policy that wishes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import AnyCommand
from elastune.core.core import Core
from elastune.core.events import AnyEvent
from elastune.core.policy import Policy, Vetoed
from elastune.core.state import State
from elastune.core.terms import RunTerms
from elastune.core.trials import Trial
from elastune.core.wishes import Advice, Wish, Wishes
from elastune.model.cluster import Billing, ClusterTerms
from elastune.model.distributions import Constant
from elastune.model.ids import NodeId, TrialId
from elastune.model.limits import Limits
from elastune.model.metric import Mode
from elastune.model.profile import Profile, Speedup

CUE = "cue"


class Puppet(Policy):
    """Gives the advice that was set, once, and records the events."""

    def __init__(self) -> None:
        self.advice: Advice | None = None
        self.heard: list[AnyEvent | Vetoed] = []

    def start(self, state: State) -> Advice:
        return self._take() or Advice()

    def handle(self, event: AnyEvent | Vetoed, state: State) -> Advice | None:
        self.heard.append(event)
        return self._take()

    def _take(self) -> Advice | None:
        advice, self.advice = self.advice, None
        return advice

    @property
    def vetoes(self) -> list[Vetoed]:
        return [each for each in self.heard if isinstance(each, Vetoed)]


def make_terms(
    *,
    slots: int = 4,
    max_nodes: int = 4,
    save_s: float = 0.0,
    billing: Billing = Billing.INSTANCE,
    minimum_charge_s: float = 0.0,
    init_s: float = 0.0,
    deadline_s: float | None = None,
    budget_usd: float | None = None,
    **others: object,
) -> RunTerms:
    """Nodes at $36 an hour, a cent per second."""
    terms = RunTerms(
        metric="score",
        mode=Mode.MAX,
        cluster=ClusterTerms(
            slots_per_node=slots,
            max_nodes=max_nodes,
            price_per_hour=36.0,
            billing=billing,
            minimum_charge_s=minimum_charge_s,
            init=Constant(init_s),
        ),
        profile=Profile(iteration=Constant(10.0), speedup=Speedup.of({}), save=Constant(save_s)),
        limits=Limits(deadline_s=deadline_s, budget_usd=budget_usd),
    )
    return replace(terms, **others)  # type: ignore[arg-type]


class Harness:
    """`happens` takes the time from the stage's clock, which `at` sets."""

    def __init__(
        self, terms: RunTerms | None = None, first: Advice | None = None, begins: AnyEvent | None = None
    ) -> None:
        self.policy = Puppet()
        self.core = Core(terms or make_terms(), self.policy)
        self.now_s = 0.0
        self.policy.advice = first
        self.opening = self.tell(begins or ev.RunStarted(at_s=0.0, policy="puppet", seed=0, job={}))

    @property
    def state(self) -> State:
        return self.core.state

    def trial(self, number: int) -> Trial:
        return self.state.trials[TrialId(number)]

    def at(self, at_s: float) -> Harness:
        self.now_s = at_s
        return self

    def tell(self, event: AnyEvent) -> Sequence[AnyCommand]:
        return self.core.handle(event)

    def advise(self, advice: Advice) -> Sequence[AnyCommand]:
        """New wishes of the policy, given when a timer fires that the core did not set."""
        self.policy.advice = advice
        return self.ring(CUE)

    def wish(self, *wishes: Wish, nodes: int, steady: bool = True) -> Sequence[AnyCommand]:
        return self.advise(Advice(wishes=Wishes(trials=wishes, nodes={0: nodes}, steady=steady)))

    # What a runtime reports.

    def ring(self, timer: str) -> Sequence[AnyCommand]:
        return self.tell(ev.TimerFired(at_s=self.now_s, timer=timer))

    def sampled(self, *numbers: int, exhausted: bool = False) -> Sequence[AnyCommand]:
        trials = tuple(ev.Sampled(TrialId(number), {}) for number in numbers)
        return self.tell(ev.TrialsSampled(at_s=self.now_s, trials=trials, exhausted=exhausted))

    def granted(self, request: int, *nodes: str, billed_s: float = 0.0) -> Sequence[AnyCommand]:
        names = tuple(map(NodeId, nodes))
        return self.tell(ev.NodesGranted(at_s=self.now_s, request=request, nodes=names, billed_s=billed_s))

    def refused(self, request: int, count: int) -> Sequence[AnyCommand]:
        return self.tell(ev.NodesRefused(at_s=self.now_s, request=request, count=count, reason="no room"))

    def ready(self, *nodes: str) -> Sequence[AnyCommand]:
        return self.tell(ev.NodesReady(at_s=self.now_s, nodes=tuple(map(NodeId, nodes))))

    def noticed(self, node: str, until_s: float) -> Sequence[AnyCommand]:
        return self.tell(ev.NodeNoticed(at_s=self.now_s, node=NodeId(node), until_s=until_s))

    def lost(self, node: str) -> Sequence[AnyCommand]:
        return self.tell(ev.NodeLost(at_s=self.now_s, node=NodeId(node)))

    def started(self, trial: int, generation: int = 1) -> Sequence[AnyCommand]:
        return self.tell(ev.GangStarted(at_s=self.now_s, trial=TrialId(trial), generation=generation))

    def progressed(
        self, trial: int, *values: float, generation: int = 1, saved: tuple[int, ...] = ()
    ) -> Sequence[AnyCommand]:
        rows = self._rows(trial, values)
        return self.tell(
            ev.Progressed(
                at_s=self.now_s, trial=TrialId(trial), generation=generation, rows=rows, saved=saved
            )
        )

    def lease_ended(
        self,
        trial: int,
        *values: float,
        generation: int = 1,
        reason: ev.LeaseEnd = ev.LeaseEnd.REACHED,
        saved: tuple[int, ...] = (),
    ) -> Sequence[AnyCommand]:
        return self.tell(
            ev.LeaseEnded(
                at_s=self.now_s,
                trial=TrialId(trial),
                generation=generation,
                rows=self._rows(trial, values),
                saved=saved,
                reason=reason,
            )
        )

    def crashed(self, trial: int, error: str = "boom", generation: int = 1) -> Sequence[AnyCommand]:
        return self.tell(
            ev.TrialCrashed(at_s=self.now_s, trial=TrialId(trial), generation=generation, error=error)
        )

    def paused(self, trial: int, generation: int = 1) -> Sequence[AnyCommand]:
        return self.tell(ev.TrialPaused(at_s=self.now_s, trial=TrialId(trial), generation=generation))

    def _rows(self, trial: int, values: tuple[float, ...]) -> tuple[ev.Row, ...]:
        done = self.trial(trial).iteration
        return tuple(ev.Row(done + i, self.now_s, {"score": value}) for i, value in enumerate(values, 1))


def open_stage(
    terms: RunTerms | None = None, *, trials: int = 1, nodes: tuple[str, ...] = ("n0",)
) -> Harness:
    """So many trials are drawn, these nodes are up, and there are no wishes yet."""
    harness = Harness(terms, Advice(wishes=Wishes(nodes={0: len(nodes)}), sample=trials))
    harness.sampled(*range(trials))
    harness.granted(1, *nodes)
    harness.ready(*nodes)
    return harness


def gang(node: str, *numbers: int) -> tuple[tuple[str, int], ...]:
    """Compares equal to the slots of a gang."""
    return tuple((node, number) for number in numbers)


def gangs_of(harness: Harness) -> dict[int, tuple[tuple[str, int], ...]]:
    return {
        int(number): tuple((str(slot.node), slot.number) for slot in harness.state.trials[number].gang)
        for number in harness.state.held
    }


def only(commands: Sequence[AnyCommand], kind: type) -> list[AnyCommand]:
    return [command for command in commands if isinstance(command, kind)]


def released(commands: Sequence[AnyCommand]) -> list[str]:
    return [str(n) for command in commands if isinstance(command, do.ReleaseNodes) for n in command.nodes]


def notes(commands: Sequence[AnyCommand]) -> list[tuple[str, str]]:
    return [(command.topic, command.text) for command in commands if isinstance(command, do.Note)]


def kinds(commands: Sequence[AnyCommand]) -> list[str]:
    return [type(command).__name__ for command in commands]
