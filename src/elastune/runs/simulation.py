"""A whole run in virtual time, and the `Driver` that journals every event before its commands act."""

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
from elastune.history.result import Estimate, RunResult, result_of
from elastune.history.status import most_iterations
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
    """A core with a journal. `commit_each`: each event is durable before its commands are carried out."""

    def __init__(self, core: Core, writer: Writer, *, commit_each: bool = False) -> None:
        self.core = core
        self.writer = writer
        self.commit_each = commit_each

    def __call__(self, event: AnyEvent) -> Sequence[AnyCommand]:
        commands, writer = self.core.handle(event), self.writer
        lines = [encode(event), *map(encode, commands)] if commands else [encode(event)]
        writer.append(writer.next_number, lines)
        if self.commit_each and commands:
            self.writer.commit()
        return commands


class Beat:
    """Due four times per second by `clock`; without one, every 256 events."""

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
    """What a resumed run knows about its nodes."""
    machines = tuple(
        Machine(node=node.number, token=str(node.request), since_s=node.born_s, ready_s=node.ready_s)
        for node in state.where.values()
    )
    known = {machine.node for machine in machines}
    gone: frozenset[NodeId] = frozenset(node for node in state.ledger.nodes if node not in known)
    requests = frozenset(range(1, state.requests + 1))
    return Belief(machines=machines, requests=requests, refused=dict(state.refused), gone=gone)


_DRIVER_STREAM = 104  # of random numbers
Progress = Callable[[float], None]
"""Called with the virtual time from time to time."""


class _DriverDied(Exception):  # noqa: N818  not an error: an injected fault
    """Unwinds the runtime's step; its remaining commands are lost."""


class Simulation:
    """One seed of one setup, journalled in `journal`."""

    def __init__(
        self,
        setup: RunSetup,
        *,
        seed: int,
        journal: AnyJournal,
        record: RunRecord,
        faults: Faults = NO_FAULTS,
        trainable: CurveSource | None = None,
        drawn_with: int | None = None,
    ) -> None:
        """`trainable` replaces the job's own, for a policy simulation, whose sampler does not learn.
        `drawn_with`: the seed of the configurations; without it, `seed`."""
        self.setup = setup
        self.seed = seed
        self.journal = journal
        self.record = record
        self.faults = faults
        self.body = SimulatedRuntime(
            setup.terms,
            trainable=trainable or setup.tuning.trainable,
            sampler=setup.tuning.make_sampler(
                seed if drawn_with is None else drawn_with, learns=trainable is None
            ),
            seed=seed,
            checkpoint_every_s=setup.job.checkpoint_every,
            faults=faults,
        )
        self.writer: Writer = journal.start(record)
        self.driver = self._drive(setup.make_core(seed))
        self._rng = np.random.default_rng((seed, _DRIVER_STREAM))
        self._dies_s = self._next_death()

    @property
    def core(self) -> Core:
        return self.driver.core

    def run(self, progress: Progress | None = None, *, clock: Callable[[], float] | None = None) -> None:
        """To the end. The journal is closed and durable afterwards, even after an error.

        With `clock`, in real seconds, the journal is committed regularly, so that readers see the progress.
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
        """Process the next event; False when none is left."""
        try:
            return self.body.step(self._think if self._dies_s < math.inf else self.driver)
        except _DriverDied:
            self._come_back()
            return True

    def result(self, predicted: Estimate) -> RunResult:
        return result_of(
            self.core.state,
            policy=self.setup.policy,
            planner=None if self.setup.quote is None else self.setup.quote.planner,
            seed=self.seed,
            run=self.record.run,
            predicted=predicted,
            journal_sha256=self.writer.sha256,
            most_iterations=most_iterations(self.setup),
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
        """A new driver, which knows only the journal."""
        self.writer.commit()
        core = replay(self.setup.make_core(self.seed), self.journal.read(self.record.run))
        self.writer.close()  # after the replay, so that readers do not find a run without a writer
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
    """For a run that is not kept."""
    return RunRecord(
        run=RunId("0"),
        name=setup.job.name,
        created_utc=datetime.fromtimestamp(0, UTC),
        body=RuntimeKind.SIMULATED,
        policy=setup.policy,
        seed=setup.job.seed,
    )
