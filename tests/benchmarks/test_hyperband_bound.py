"""The bound for Hyperband against the shortest of all schedules, on brackets so small that all are tried."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from benchmarks.hopper.rounds import barrier_bound
from elastune.model.stages import Spec, Stage

Left = tuple[int, int]
"""Of a trial: its epochs, and the partitions of the present one that it has not visited, as bits."""
Bracket = tuple[int, tuple[Left, ...]]
"""The stage and its trials that are not through, which are interchangeable."""

CASES = {
    "one bracket": (2, ([(3, 1), (1, 1)],)),
    "beside one trial": (3, ([(4, 1), (1, 1)], [(1, 1)])),
    "five and one": (3, ([(5, 1), (1, 1)], [(1, 1)])),
    "two decisions": (3, ([(3, 1), (1, 1)], [(2, 1), (1, 1)])),
    "longer at the end": (2, ([(4, 1), (1, 2)],)),
}


def specs_of(brackets: tuple[list[tuple[int, int]], ...]) -> tuple[Spec, ...]:
    return tuple(
        Spec(name="bracket", stages=tuple(Stage(trials=n, iterations=e) for n, e in stages))
        for stages in brackets
    )


def shortest(specs: tuple[Spec, ...], workers: int) -> int:
    """Visits take one second, and worker w has partition w. Who is best in a stage is known when all of it
    have ended, so no trial goes on before: the one that ends last may be the best."""
    every = (1 << workers) - 1
    states = {tuple(begun((-1, ()), spec, every) for spec in specs)}
    for seconds in itertools.count():
        if any(not any(trials for _, trials in state) for state in states):
            return seconds
        states = {following for state in states for following in second(state, specs, workers)}
    raise AssertionError


def begun(bracket: Bracket, spec: Spec, every: int) -> Bracket:
    """With the next stage, if this one is over."""
    number, trials = bracket
    if trials or number + 1 == len(spec.stages):
        return bracket
    stage = spec.stages[number + 1]
    return number + 1, ((stage.iterations, every),) * stage.trials


def visited(trial: Left, partition: int, every: int) -> Left | None:
    epochs, left = trial[0], trial[1] & ~(1 << partition)
    if left:
        return epochs, left
    return (epochs - 1, every) if epochs > 1 else None


def choices(trials: list[Left], workers: int) -> Iterator[dict[int, int]]:
    """All ways in which trials can be on workers: the worker of each trial that is on one."""
    for chosen in itertools.product([None, *range(len(trials))], repeat=workers):
        at = {trial: worker for worker, trial in enumerate(chosen) if trial is not None}
        is_single = len(at) == sum(trial is not None for trial in chosen)
        if is_single and all(trials[trial][1] >> worker & 1 for trial, worker in at.items()):
            yield at


def second(
    state: tuple[Bracket, ...], specs: tuple[Spec, ...], workers: int
) -> Iterator[tuple[Bracket, ...]]:
    every = (1 << workers) - 1
    trials = [trial for _, those in state for trial in those]
    for at in choices(trials, workers):
        moved = (visited(each, at[i], every) if i in at else each for i, each in enumerate(trials))
        left = [[next(moved) for _ in those] for _, those in state]
        yield tuple(
            begun((number, tuple(sorted(each for each in those if each is not None))), spec, every)
            for (number, _), those, spec in zip(state, left, specs, strict=True)
        )


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if case[0] > 2 else ()) for name, case in CASES.items()],
)
def test_no_schedule_is_shorter_than_the_bound_and_the_best_reaches_it(name: str) -> None:
    workers, brackets = CASES[name]
    specs = specs_of(brackets)
    bound = barrier_bound(specs, workers, epoch=workers)
    work = sum(stage.trials * stage.iterations for spec in specs for stage in spec.stages)
    longest = max(sum(stage.iterations for stage in spec.stages) for spec in specs) * workers
    best = shortest(specs, workers)
    assert best == -(-bound // 1)
    assert best > max(work, longest)
