"""One experiment from its first event to its last, with a shadow that knows only the journal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from elastune.core.commands import AnyCommand
from elastune.core.core import Core
from elastune.core.events import AnyEvent, AnyRequest, RunExtended
from elastune.journal.codec import encode, event_of, replay
from elastune.journal.records import Entry, RunId, RunRecord, RuntimeKind
from elastune.journal.writer import MemoryJournal
from elastune.runs.simulation import Driver, Simulation, belief_of
from tests.core.visits import Watch
from tests.fire.experiments import Experiment, make_experiment
from tests.fire.invariants import Witness
from tests.fire.portrait import portrait
from tests.fire.requests import Requester

RUN = RunId("f1")
MOST_EVENTS = 20_000
PORTRAIT_EVERY = 100
"""Every command is compared; a state that has gone astray stays so."""


class Watched(Simulation):
    """Checks after every event; an exception in a check is the failure of the experiment."""

    def __init__(self, experiment: Experiment) -> None:
        record = RunRecord(
            run=RUN,
            name="fire",
            created_utc=datetime(2026, 1, 1, tzinfo=UTC),
            body=RuntimeKind.SIMULATED,
            policy="fire",
            seed=experiment.seed,
        )
        super().__init__(
            experiment.setup,
            seed=experiment.seed,
            journal=MemoryJournal(),
            record=record,
            faults=experiment.faults,
        )
        self.witness = Witness(self)
        data = self.setup.terms.data
        self.visits = None if data is None else Watch(data.partitions, len(data.validation_rows))
        self.shadow = self.setup.make_core(self.seed)
        self.requester = Requester(experiment.seed)

    def step(self) -> bool:
        if self._ask():
            self.witness.check()
        before = self.core.state.events
        more = super().step()
        if self.core.state.events != before:
            self.witness.check()
        if self.core.state.events > MOST_EVENTS:
            raise AssertionError(f"more than {MOST_EVENTS} events: the run goes round in circles")
        return more

    def grant(self, request: AnyRequest, *, killed: bool = False) -> bool:
        """Do what is asked, if the core does not refuse it. `killed`: the driver dies before it acts; not if
        that was the end of the run (the last trial was stopped), which no driver resumes."""
        if self.core.refusal(request) is not None:
            return False
        commands = self.driver(request)
        if killed and self.core.state.ended is None:
            self._come_back()
        else:
            for command in commands:
                self.body.carry_out(command)
        return True

    def reopen(self, request: RunExtended) -> bool:
        """After its end: what is asked is journalled, and a new driver goes on."""
        if self.core.refusal(request) is not None:
            return False
        self.writer = self.journal.resume(RUN)
        self.driver = self._drive(self.core)
        self.driver(request)
        if self.core.state.ended is not None:  # the policy has no use for it after all
            self.writer.close()
            return False
        self.body.ended = False
        if self.visits is not None:
            self.visits.reopen()
        for command in self.driver(self.body.crash(0.0, belief_of(self.core.state))):
            self.body.carry_out(command)
        while self.step():
            pass
        self.writer.close()
        return True

    def _ask(self) -> bool:
        """Whether something was asked and granted. Not in the middle of an instant: the check is."""
        if self.core.state.ended is not None:
            return False
        request = self.requester.ask(self.core.state, self.body.now_s)
        return request is not None and self.grant(request, killed=self.requester.kills())

    def hear(self, event: AnyEvent, commands: Sequence[AnyCommand]) -> None:
        lines = [encode(event), *map(encode, commands)]
        entry = Entry(number=1, event_line=lines[0], command_lines=tuple(lines[1:]))
        answer = [encode(command) for command in self.shadow.handle(event_of(entry))]
        assert answer == lines[1:], f"the shadow answers {answer} to {lines}"
        if not self.shadow.state.events % PORTRAIT_EVERY:
            self.compare("shadow", self.shadow)
        self.witness.hear(event, tuple(commands))
        if self.visits is not None:
            self.visits.take(event, commands)

    def compare(self, what: str, other: object) -> None:
        assert portrait(vars(other)) == portrait(vars(self.core)), f"the {what} differs from the run"

    def _drive(self, core: Core) -> Driver:
        return _Heard(super()._drive(core), self)


class _Heard(Driver):
    """A driver whose every word is heard."""

    def __init__(self, driver: Driver, trial: Watched) -> None:
        super().__init__(driver.core, driver.writer, commit_each=driver.commit_each)
        self.trial = trial

    def __call__(self, event: AnyEvent) -> Sequence[AnyCommand]:
        commands = super().__call__(event)
        self.trial.hear(event, commands)
        return commands


def put_to_trial(seed: int) -> Watched:
    """Run experiment `seed`; raises if an invariant breaks."""
    trial = Watched(make_experiment(seed))
    trial.run()
    for _ in range(trial.requester.reopenings):
        trial.witness.check_over()
        trial.reopen(trial.requester.extend(trial.core.state, trial.body.now_s, generous=True))
    trial.witness.check_over()
    trial.compare("shadow", trial.shadow)
    again = replay(trial.setup.make_core(seed), trial.journal.read(RUN))
    trial.compare("replay", again)
    return trial
