"""A small job, and a run of it in virtual time that is watched from the first event to the last."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import AnyCommand
from elastune.core.events import AnyEvent
from elastune.core.state import State
from elastune.job.job import Job
from elastune.journal.records import RunId, RunRecord, RuntimeKind
from elastune.journal.writer import MemoryJournal
from elastune.planning.quote import Quote
from elastune.runs.simulation import Simulation
from elastune.runtime.simulated.cloud import NO_FAULTS, Faults
from elastune.setup.run_setup import RunSetup, prepare
from tests.fire.experiments import Experiment, FireSetup
from tests.fire.trial import Watched
from tests.messages import Log, log_of

SAMPLES = 256


def learn(config: Mapping[str, float], iteration: int) -> float:
    """The larger `x`, the better, from the first iteration on; more iterations are better still."""
    return config["x"] + 0.001 * iteration


def job_of(learning: Callable[..., object] | None = learn, /, **changes: object) -> Job:
    """A cent per node and second. A change names its key with `__` for the dot; None leaves it out."""
    data: dict[str, object] = {
        "trainable": learning,
        "metric": "score",
        "mode": "max",
        "space": {"x": {"float": [0.0, 1.0]}},
        "search": {"algorithm": "sha", "trials": 9, "max_iterations": 13},
        "profile": {
            "iteration": 10.0,
            "speedup": {"1": 1.0, "2": 1.8, "4": 3.2},
            "startup": 2.0,
            "save": 1.0,
        },
        "cluster": {
            "slots_per_node": 2,
            "max_nodes": 6,
            "price_per_hour": 36.0,
            "minimum_charge": 60.0,
            "queue": 5.0,
            "init": 10.0,
        },
    }
    for name, value in changes.items():
        *above, key = name.split("__")
        target = data
        for part in above:
            inner = target[part]
            assert isinstance(inner, dict)
            target = inner
        if value is None:
            target.pop(key, None)
        else:
            target[key] = copy.deepcopy(value)
    return Job.from_dict(data)


class CheckedRun(Watched):
    """Checks every invariant of the fire tests after every event, and keeps all events."""

    def __init__(self, setup: RunSetup, *, seed: int = 0, faults: Faults = NO_FAULTS) -> None:
        self.told: list[tuple[AnyEvent, tuple[AnyCommand, ...]]] = []
        self.wishes_for_the_dead: list[str] = []
        self._wishes: object = None
        names = ("job", "policy", "choice", "terms", "tuning", "quote", "search", "samples")
        fire = FireSetup(**{name: getattr(setup, name) for name in names})
        super().__init__(Experiment(seed=seed, setup=fire, faults=faults))

    def hear(self, event: AnyEvent, commands: Sequence[AnyCommand]) -> None:
        super().hear(event, commands)
        self.told.append((event, tuple(commands)))
        state = self.core.state
        if state.wishes is not self._wishes:
            self._wishes = state.wishes
            over = [wish.trial for wish in state.wishes.trials if state.trials[wish.trial].phase.is_over]
            self.wishes_for_the_dead += [f"trial {trial} at {event.at_s}" for trial in over]

    @property
    def state(self) -> State:
        return self.core.state

    @property
    def quote(self) -> Quote:
        assert self.setup.quote is not None
        return self.setup.quote

    @property
    def seconds(self) -> float:
        assert self.state.ended_s is not None
        return self.state.ended_s

    @property
    def usd(self) -> float:
        return self.state.ledger.accrued_usd(self.state.now_s)

    @property
    def sha256(self) -> str:
        return self.writer.sha256

    @cached_property
    def commands(self) -> list[tuple[float, AnyCommand]]:
        return [(event.at_s, command) for event, commands in self.told for command in commands]

    def log(self) -> Log:
        """Events and commands in the order in which they came, without notes and timers."""
        quiet = (do.Note, do.SetTimer, do.CancelTimer, ev.TimerFired)
        messages = [
            (event.at_s, message)
            for event, commands in self.told
            for message in (event, *commands)
            if not isinstance(message, quiet)
        ]
        return log_of(messages)

    def notes(self, topic: str) -> list[str]:
        return [c.text for _, c in self.commands if isinstance(c, do.Note) and c.topic == topic]


def checked_run(
    job: Job,
    *,
    policy: str | None = None,
    seed: int = 0,
    faults: Faults = NO_FAULTS,
    setup: RunSetup | None = None,
) -> CheckedRun:
    """To the end; afterwards the books are compared with the bill, and the run with its shadow.

    The shadow heard every line; that a replay of the whole journal gives the same is for the fire tests.
    """
    run = CheckedRun(setup or prepare(job, policy, samples=SAMPLES), seed=seed, faults=faults)
    run.run()
    run.witness.check_over()
    run.compare("shadow", run.shadow)
    return run


def run_quickly(setup: RunSetup, *, seed: int, faults: Faults = NO_FAULTS) -> State:
    """The same without a witness: for many seeds."""
    record = RunRecord(
        run=RunId("1"),
        name="quick",
        created_utc=datetime(2026, 1, 1, tzinfo=UTC),
        body=RuntimeKind.SIMULATED,
        policy=setup.policy,
        seed=seed,
    )
    journal = MemoryJournal(keeps_lines=False)
    simulation = Simulation(setup, seed=seed, journal=journal, record=record, faults=faults)
    simulation.run()
    return simulation.core.state
