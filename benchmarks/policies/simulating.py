"""Jobs as mappings in, outcomes out: many seeds of many jobs, in one process or several."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from benchmarks.reporting import Track
from elastune.core.state import State
from elastune.core.trials import Phase, Trial
from elastune.errors import InfeasibleError
from elastune.job.job import Job
from elastune.journal.writer import MemoryJournal
from elastune.model.metric import Mode
from elastune.policies.forecast.policy import ForecastPolicy
from elastune.runs.quotes.policy_quote import UnrecordedDriver
from elastune.runs.simulation import Simulation, unnamed
from elastune.setup.run_setup import RunSetup, SetupPurpose, prepare

JobDict = Mapping[str, object]
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is measured."""

    seeds: int
    processes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one run. `best` is None where no trial ever had a value."""

    best: float | None
    last: float | None
    """The best final value of those that trained in the last round, where there are rounds."""
    best_iterations: int
    trials: int
    iterations: int
    seconds: float
    usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Generic[K]):
    key: K
    job: JobDict
    first_seed: int = 0


def simulate_all(tasks: Sequence[Task[K]], effort: Effort, track: Track) -> dict[K, tuple[Outcome, ...]]:
    """Every job on its seeds. Nothing comes of a job whose policy finds no room in its limits."""

    def seeds(task: Task[K]) -> range:
        return range(task.first_seed, task.first_seed + effort.seeds)

    if effort.processes == 1:
        return {task.key: simulate(task.job, seeds(task)) for task in track(tasks)}
    with ProcessPoolExecutor(effort.processes) as pool:
        futures = [pool.submit(simulate, task.job, seeds(task)) for task in tasks]
        return {task.key: future.result() for task, future in track(list(zip(tasks, futures, strict=True)))}


def simulate(job: JobDict, seeds: Sequence[int]) -> tuple[Outcome, ...]:
    try:
        setup = prepare(Job.from_dict(job))
    except InfeasibleError:
        return tuple(NOTHING for _ in seeds)
    return tuple(run_once(setup, seed) for seed in seeds)


def is_feasible(job: JobDict) -> bool:
    """Whether a declared search can be planned within its limits; it needs no trainable."""
    try:
        prepare(Job.from_dict(job), purpose=SetupPurpose.QUOTE)
    except InfeasibleError:
        return False
    return True


NO_CONSTANTS: Mapping[str, float] = {}
NOTHING = Outcome(best=None, last=None, best_iterations=0, trials=0, iterations=0, seconds=0.0, usd=0.0)
"""Of a job whose policy finds no room in its limits."""


def unrecorded(setup: RunSetup, seed: int) -> Simulation:
    """Not started yet; it keeps no journal."""
    simulation = Simulation(setup, seed=seed, journal=MemoryJournal(keeps_lines=False), record=unnamed(setup))
    simulation.driver = UnrecordedDriver(simulation.core, simulation.writer)
    return simulation


def run_once(setup: RunSetup, seed: int, constants: Mapping[str, float] = NO_CONSTANTS) -> Outcome:
    """`constants` of `forecast` that are changed."""
    simulation = unrecorded(setup, seed)
    state, policy = simulation.core.state, simulation.core.policy
    if constants and isinstance(policy, ForecastPolicy):
        policy.shape = replace(policy.shape, **constants)
    look_s = _middle_of_last_round_s(setup)
    finalists: list[Trial] = []
    simulation.start()
    while simulation.step():
        if simulation.body.now_s >= look_s:
            finalists, look_s = _not_eliminated(state), math.inf
    simulation.writer.close()
    return Outcome(
        best=None if state.best is None else state.best.metric,
        last=_best_final(finalists, state),
        best_iterations=0 if state.best is None else state.best.iteration,
        trials=len(state.trials),
        iterations=state.iterations,
        seconds=state.ended_s or 0.0,
        usd=state.ledger.accrued_usd(state.now_s),
    )


def _not_eliminated(state: State) -> list[Trial]:
    """Also those that have trained to the end of their curve, which are often the best."""
    return [trial for trial in state.trials.values() if trial.phase is not Phase.STOPPED]


def _middle_of_last_round_s(setup: RunSetup) -> float:
    """Of a policy that thinks in rounds, one after the other; of the others, never."""
    outline = setup.outline()
    if outline is None or any(each.track for each in outline.rounds):
        return math.inf
    seconds = [each.seconds for each in outline.rounds]
    return sum(seconds[:-1]) + seconds[-1] / 2


def _best_final(trials: Sequence[Trial], state: State) -> float | None:
    finals = [trial.values[-1] for trial in trials if trial.values and trial.error is None]
    if not finals:
        return None
    return max(finals) if state.terms.mode is Mode.MAX else min(finals)
