"""One setting: every scheduler on many drawn epochs, its gap to the bound and the time it takes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.hopper.settings import Setting
from elastune.hopping.epoch import Epoch
from elastune.hopping.exact_scheduler import SolverEffort, solve
from elastune.hopping.lower_bound import lower_bound_s
from elastune.hopping.schedulers import make_scheduler
from elastune.hopping.simulation import check_schedule, simulate


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How many epochs are drawn, random seeds per epoch, and on how many CP-SAT works for how long."""

    epochs: int = 60
    large_epochs: int = 10
    seeds: int = 5
    solved: int = 2
    limit_s: float = 10.0

    def count(self, setting: Setting) -> int:
        """How many epochs of this setting; where nothing is drawn they are all the same."""
        if not setting.mixed:
            return 1
        return self.epochs if setting.configs < 100 else self.large_epochs


@dataclass(frozen=True, slots=True)
class Run:
    """A makespan as a multiple of the bound of its epoch, and what it took to find."""

    ratio: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Runs by epoch; of `randomized` several per epoch, of CP-SAT only on the first epochs."""

    setting: Setting
    listed: tuple[Run, ...]
    randomized: tuple[tuple[Run, ...], ...]
    solved: tuple[Run, ...]

    @property
    def all_randomized(self) -> tuple[Run, ...]:
        return tuple(run for runs in self.randomized for run in runs)

    @property
    def beaten(self) -> int:
        """Epochs in which the best of the random schedules is shorter than ours by more than rounding."""
        pairs = zip(self.listed, self.randomized, strict=True)
        return sum(min(run.ratio for run in runs) < ours.ratio * (1 - 1e-9) for ours, runs in pairs)


def measure(setting: Setting, scope: Scope) -> Measured:
    epochs = [setting.epoch(seed) for seed in range(scope.count(setting))]
    bounds = [lower_bound_s(epoch) for epoch in epochs]
    pairs = list(zip(epochs, bounds, strict=True))
    return Measured(
        setting=setting,
        listed=tuple(_online(epoch, bound_s, "list") for epoch, bound_s in pairs),
        randomized=tuple(
            tuple(_online(epoch, bound_s, "randomized", seed) for seed in range(scope.seeds))
            for epoch, bound_s in pairs
        ),
        solved=_solved(pairs[: scope.solved], scope),
    )


def _online(epoch: Epoch, bound_s: float, name: str, seed: int = 0) -> Run:
    began = time.process_time()
    schedule = simulate(epoch, make_scheduler(name, seed=seed), bound_s=bound_s)
    seconds = time.process_time() - began
    check_schedule(epoch, schedule)
    return Run(schedule.makespan_s / bound_s, seconds)


def _solved(pairs: Sequence[tuple[Epoch, float]], scope: Scope) -> tuple[Run, ...]:
    """CP-SAT by itself. An epoch for which it finds nothing in time is left out."""
    runs = []
    for epoch, bound_s in pairs:
        began = time.perf_counter()
        solved = solve(epoch, SolverEffort(limit_s=scope.limit_s, threads=2, warm=False))
        if solved.schedule is not None:
            runs.append(Run(solved.schedule.makespan_s / bound_s, time.perf_counter() - began))
    return tuple(runs)
