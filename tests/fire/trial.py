"""One experiment from its first event to its last, with a shadow that knows only the journal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from elastune.core.commands import AnyCommand
from elastune.core.core import Core
from elastune.core.events import AnyEvent
from elastune.journal.codec import encode, event_of, replay
from elastune.journal.records import Entry, RunId, RunRecord, RuntimeKind
from elastune.journal.writer import MemoryJournal
from elastune.runs.simulation import Driver, Simulation
from tests.core.visits import Watch
from tests.fire.experiments import Experiment, make_experiment
from tests.fire.invariants import Witness
from tests.fire.portrait import portrait

RUN = RunId("f1")
MOST_EVENTS = 20_000
PORTRAIT_EVERY = 25
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

    def step(self) -> bool:
        before = self.core.state.events
        more = super().step()
        if self.core.state.events != before:
            self.witness.check()
        if self.core.state.events > MOST_EVENTS:
            raise AssertionError(f"more than {MOST_EVENTS} events: the run goes round in circles")
        return more

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
    trial.witness.check_over()
    trial.compare("shadow", trial.shadow)
    again = replay(trial.setup.make_core(seed), trial.journal.read(RUN))
    trial.compare("replay", again)
    return trial
