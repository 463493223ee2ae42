"""A simulated runtime without a core: the test commands, and what happens is a log."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import AnyCommand, Ending
from elastune.core.events import AnyEvent
from elastune.core.terms import RunTerms
from elastune.curves.opening import open_trainable
from elastune.model.distributions import Constant
from elastune.model.ids import Gang, NodeId, Slot, TrialId
from elastune.model.profile import Profile, Speedup
from elastune.runtime.simulated.cloud import NO_FAULTS, Faults
from elastune.runtime.simulated.runtime import SimulatedRuntime
from elastune.space.parsing import parse_space
from elastune.space.plain_samplers import RandomSampler
from tests.core.harness import make_terms
from tests.messages import Log, log_of

T0 = TrialId(0)
NEVER_S = 1e9
ONE_SLOT = (Slot(NodeId("n0"), 0),)


def rising(config: Mapping[str, float], iteration: int) -> float:
    return float(iteration)


def falling(config: Mapping[str, float], iteration: int) -> float:
    return -float(iteration)


def seats(slots: int, *, on: int = 1) -> Gang:
    """So many slots, dealt out evenly to so many nodes."""
    each = -(-slots // on)
    return tuple(Slot(NodeId(f"n{i // each}"), i % each) for i in range(slots))


def lease(
    until: int,
    *,
    after: int = 0,
    generation: int = 1,
    until_s: float | None = None,
    gang: Gang = ONE_SLOT,
    keep_above: float | None = math.inf,
) -> do.Train:
    """By default no row is so good that it is saved for being best."""
    return do.Train(
        trial=T0,
        generation=generation,
        gang=gang,
        after_iteration=after,
        until_iteration=until,
        until_s=until_s,
        keep_above=keep_above,
    )


def profile(
    *,
    iteration_s: float = 10.0,
    startup_s: float = 0.0,
    save_s: float = 0.0,
    transfer_s: float = 0.0,
    speedup: Mapping[int, float] | None = None,
) -> Profile:
    return Profile(
        iteration=Constant(iteration_s),
        speedup=Speedup.of(speedup or {}),
        startup=Constant(startup_s),
        save=Constant(save_s),
        transfer_s=transfer_s,
    )


@dataclass
class Workshop:
    """Trial 0 is drawn already. `tell` lets time pass up to an instant, then gives orders."""

    of: Profile = field(default_factory=profile)
    train: Callable[..., object] = rising
    faults: Faults = NO_FAULTS
    checkpoint_every_s: float | None = NEVER_S
    terms: RunTerms = field(default_factory=make_terms)
    seed: int = 0

    def __post_init__(self) -> None:
        self.body = SimulatedRuntime(
            replace(self.terms, profile=self.of),
            trainable=open_trainable(self.train, metric="score"),
            sampler=RandomSampler(parse_space({"x": {"float": [0.0, 1.0]}}), seed=self.seed),
            seed=self.seed,
            checkpoint_every_s=self.checkpoint_every_s,
            faults=self.faults,
        )
        self.heard: list[AnyEvent] = []
        self.body.carry_out(do.Sample(trials=(T0,)))
        self.body.carry_out(do.EndRun(reason=Ending.COMPLETE, best=None))  # it may run out of things to do
        self.body.step(self._hear)
        self.heard.clear()

    def _hear(self, event: AnyEvent) -> Sequence[AnyCommand]:
        self.heard.append(event)
        return []

    def tell(self, *commands: AnyCommand, at_s: float = 0.0) -> None:
        while self.body.next_s is not None and self.body.next_s < at_s:
            self.body.step(self._hear)
        self.body.now_s = max(self.body.now_s, at_s)
        for command in commands:
            self.body.carry_out(command)

    def log(self) -> Log:
        """What happened in the end."""
        self.body.run(self._hear)
        return log_of((event.at_s, event) for event in self.heard)

    def ends_s(self) -> list[float]:
        """When each iteration that was reported had ended."""
        self.body.run(self._hear)
        rows = [row for event in self.heard if isinstance(event, ev.Progressed) for row in event.rows]
        return [round(row.at_s, 6) for row in rows]
