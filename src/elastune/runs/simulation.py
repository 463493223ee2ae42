"""What stands between a body and the core: every event and what it caused goes into the journal first.

A whole run in virtual time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import numpy as np

from elastune.core.commands import AnyCommand
from elastune.core.core import Core
from elastune.core.events import AnyEvent, RunStarted
from elastune.core.state import State
from elastune.curves.source import CurveSource
from elastune.errors import InvariantError
from elastune.history.result import Estimate, RunResult, best_of, count_phases
from elastune.journal.codec import encode, replay
from elastune.journal.records import RunId, RunRecord, RuntimeKind
from elastune.journal.writer import AnyJournal, Writer
from elastune.model.ids import NodeId
from elastune.providers.protocol import Machine
from elastune.providers.watcher import Belief
from elastune.runtime.simulated.cloud import NO_FAULTS, Faults
from elastune.runtime.simulated.runtime import SimulatedRuntime
from elastune.setup.run_setup import RunSetup

_EVENTS_PER_BEAT = 256
_SECONDS_PER_BEAT = 0.25


class Driver:
    """A brain with a memory. `commit_each`: durable before a command is carried out, as real effects need."""

    def __init__(self, core: Core, writer: Writer, *, commit_each: bool = False) -> None:
        self.core = core
        self.writer = writer
        self.commit_each = commit_each

    def __call__(self, event: AnyEvent) -> Sequence[AnyCommand]:
        commands = self.core.handle(event)
        self.writer.append(self.writer.next_number, [encode(event), *map(encode, commands)])
        if self.commit_each and commands:
            self.writer.commit()
        return commands


class Beat:
    """Now and then: four times per second by a clock, which only the edge has; without one, by events."""

    def __init__(self, clock: Callable[[], float] | None) -> None:
        self._clock = clock
        self._next_s = -math.inf

    def is_due(self, events: int) -> bool:
        if self._clock is None:
            return not events % _EVENTS_PER_BEAT
        now_s = self._clock()
        if now_s < self._next_s:
            return False
        self._next_s = now_s + _SECONDS_PER_BEAT
        return True


def belief_of(state: State) -> Belief:
    """What a run that comes back knows about its nodes."""
    machines = tuple(
        Machine(node=node.number, token=str(node.request), since_s=node.born_s, ready_s=node.ready_s)
        for node in state.where.values()
    )
    known = {machine.node for machine in machines}
    gone: frozenset[NodeId] = frozenset(node for node in state.ledger.nodes if node not in known)
    requests = frozenset(range(1, state.requests + 1))
    return Belief(machines=machines, requests=requests, refused=dict(state.refused), gone=gone)


_DRIVER_LUCK = 104
Progress = Callable[[float], None]
"""Told the virtual time now and then."""


class _DriverDied(Exception):  # noqa: N818  not an error: an injected fault
    """Unwinds the body's step; what it was about to do is lost."""


class Simulation:
    """One seed of one setup. `journal` is where its events go."""

    def __init__(
        self,
        setup: RunSetup,
        *,
        seed: int,
        journal: AnyJournal,
        record: RunRecord,
        faults: Faults = NO_FAULTS,
        trainable: CurveSource | None = None,
    ) -> None:
        """`trainable` instead of the job's own: for a rehearsal, in which nobody learns."""
        self.setup = setup
        self.seed = seed
        self.journal = journal
        self.record = record
        self.faults = faults
        self.body = SimulatedRuntime(
            setup.terms,
            trainable=trainable or setup.tuning.trainable,
            sampler=setup.tuning.make_sampler(seed, learns=trainable is None),
            seed=seed,
            checkpoint_every_s=setup.job.checkpoint_every,
            faults=faults,
        )
        self.writer: Writer = journal.start(record)
        self.driver = self._drive(setup.make_core(seed))
        self._rng = np.random.default_rng((seed, _DRIVER_LUCK))
        self._dies_s = self._next_death()

    @property
    def core(self) -> Core:
        return self.driver.core

    def run(self, progress: Progress | None = None, *, clock: Callable[[], float] | None = None) -> None:
        """To the end. The journal is closed and durable then, also if something goes wrong.

        By `clock`, which counts real seconds, others see now and then in the journal how far the run is.
        """
        beat = Beat(clock)
        try:
            self.start()
            self.writer.commit()
            while self.step():
                if beat.is_due(self.core.state.events):
                    if clock is not None:
                        self.writer.commit()
                    if progress is not None:
                        progress(self.body.now_s)
        finally:
            self.writer.close()

    def start(self) -> None:
        job = self.setup.job.to_dict()
        event = RunStarted(at_s=0.0, policy=self.setup.policy, seed=self.seed, job=job)
        for command in self.driver(event):
            self.body.carry_out(command)

    def step(self) -> bool:
        """Let the next thing happen; False when nothing is left."""
        try:
            return self.body.step(self._think if self._dies_s < math.inf else self.driver)
        except _DriverDied:
            self._come_back()
            return True

    def result(self, predicted: Estimate) -> RunResult:
        state = self.core.state
        if state.ended is None or state.ended_s is None:
            raise InvariantError("the run has not ended")
        return RunResult(
            policy=self.setup.policy,
            seed=self.seed,
            metric=state.terms.metric,
            predicted=predicted,
            actual=Estimate(jct_seconds=state.ended_s, cost=state.ledger.accrued_usd(state.now_s)),
            best=best_of(state),
            ending=state.ended,
            trials=len(state.trials),
            phases=count_phases(state),
            iterations=state.iterations,
            events=state.events,
            journal_sha256=self.writer.sha256,
            ledger=state.ledger,
            run=self.record.run,
        )

    def _drive(self, core: Core) -> Driver:
        return Driver(core, self.writer, commit_each=self.faults.driver_per_hour > 0.0)

    def _think(self, event: AnyEvent) -> Sequence[AnyCommand]:
        commands = self.driver(event)
        if event.at_s < self._dies_s or self.core.state.ended is not None:
            return commands
        for command in commands[: int(self._rng.integers(len(commands) + 1))]:
            self.body.carry_out(command)
        raise _DriverDied

    def _come_back(self) -> None:
        """A new driver, which knows nothing but the journal."""
        self.writer.commit()
        core = replay(self.setup.make_core(self.seed), self.journal.read(self.record.run))
        self.writer.close()  # as late as this: who looks meanwhile must not find a run without a writer
        self.writer = self.journal.resume(self.record.run)
        self.driver = self._drive(core)
        down_s = float(self._rng.exponential(self.faults.driver_down_s))
        event = self.body.crash(down_s, belief_of(core.state))
        self._dies_s = self._next_death()
        for command in self.driver(event):
            self.body.carry_out(command)

    def _next_death(self) -> float:
        rate = self.faults.driver_per_hour
        return self.body.now_s + float(self._rng.exponential(3600.0 / rate)) if rate else math.inf


def unnamed(setup: RunSetup) -> RunRecord:
    """For a run that nobody will look up."""
    return RunRecord(
        run=RunId("0"),
        name=setup.job.name,
        created_utc=datetime.fromtimestamp(0, UTC),
        body=RuntimeKind.SIMULATED,
        policy=setup.policy,
        seed=setup.job.seed,
    )
