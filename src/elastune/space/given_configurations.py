"""Samplers of configurations that are given: the rows of a table, and the start configurations of a job."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from elastune.model.configuration import Configuration, flattened
from elastune.space.sampler import DRAWN_ANEW, FORK, AnySpace, Sampler, completed
from elastune.space.space import SpaceError, raise_all
from elastune.space.table_columns import TableColumns
from elastune.space.values import quantile, same
from elastune.wording import did_you_mean, seen, several

_MASK = 2**64 - 1
_NEIGHBOURS = 5


class TableSampler:
    """The rows in an order given by the seed, each once; with `replace` then all again in another order."""

    learns = False

    def __init__(self, rows: Sequence[Configuration], *, seed: int, replace: bool = False) -> None:
        self.size = None if replace else len(rows)
        self._rows = rows
        self._seed = seed
        self.order: list[int] = np.random.default_rng(seed).permutation(len(rows)).tolist()
        """The place of the row of each trial, until all have been drawn."""
        self._orders = {0: self.order}

    def ask(self, trial: int) -> Configuration | None:
        again, place = divmod(trial, len(self._rows))
        if again and self.size is not None:
            return None
        if again not in self._orders:
            self._orders[again] = (
                np.random.default_rng((self._seed, again)).permutation(len(self._rows)).tolist()
            )
        return dict(self._rows[self._orders[again][place]])

    def complete(self, trial: int, given: Configuration) -> Configuration:
        """A row with exactly these values, never a near one."""
        given = flattened(given)
        for name in given:
            if name not in self._rows[0]:
                known = list(self._rows[0])
                hint = did_you_mean(name, known)
                raise SpaceError((name,), f"is no column of the table; expected {several(known)}{hint}")
        fitting = [row for row in self._rows if all(same(row[name], given[name]) for name in given)]
        if not fitting:
            raise SpaceError((), f"is {seen(dict(given))}, which is none of the {len(self._rows):,} rows")
        return dict(fitting[_scramble(_scramble(self._seed) + trial) % len(fitting)])

    def position(self, configuration: Configuration) -> int | None:
        """The trial that would get this row; None: no trial in particular."""
        rows = enumerate(self.order)
        return next((trial for trial, row in rows if self._rows[row] == configuration), None)

    def fork(self, trial: int, parent: Configuration) -> Configuration:
        """One of the rows nearest to the parent's; one time in four any row."""
        rng = np.random.default_rng((self._seed, trial, FORK))
        others = [at for at, row in enumerate(self._rows) if row != parent]
        if not others:
            return dict(self._rows[0])
        own = next((at for at, row in enumerate(self._rows) if row == parent), None)
        if own is None or rng.random() < DRAWN_ANEW:
            return dict(self._rows[others[rng.integers(len(others))]])
        distances = self._columns.distances(self._columns.point(own))
        near = sorted(others, key=lambda at: distances[at])[:_NEIGHBOURS]
        return dict(self._rows[near[rng.integers(len(near))]])

    def tell(self, trial: int, iteration: int, value: float) -> None:
        """Nothing is learned."""

    @cached_property
    def _columns(self) -> TableColumns:
        return TableColumns(self._rows)


def _scramble(number: int) -> int:
    """A pseudo-random 64-bit number (splitmix64). Seeding a generator of numpy takes 15 us, as long as all
    else about a trial's configuration."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK
    return number ^ (number >> 31)


@runtime_checkable
class ListingSampler(Protocol):
    """A sampler that gives each of its configurations once."""

    def position(self, configuration: Configuration) -> int | None:
        """Where the configuration is among them; None: nowhere in particular."""


class StartError(SpaceError):
    """A start configuration is wrong. `path` begins with its number."""

    root = "start_configurations"


class StartingSampler:
    """The start configurations, completed by a sampler, then those of the sampler.

    They are completed before anything is learned, so they depend on the seed alone. A grid and a table then
    start from their beginning without them: each configuration is still given once.
    """

    def __init__(self, sampler: Sampler, starts: Sequence[Configuration]) -> None:
        self._sampler = sampler
        self._starts = [self._completed(trial, start) for trial, start in enumerate(starts)]
        self._skipped: list[int] = []
        if isinstance(sampler, ListingSampler):
            places = {sampler.position(start) for start in self._starts}
            self._skipped = sorted(place for place in places if place is not None)

    @property
    def size(self) -> int | None:
        inner = self._sampler.size
        return None if inner is None else len(self._starts) + inner - len(self._skipped)

    @property
    def learns(self) -> bool:
        return self._sampler.learns

    def ask(self, trial: int) -> Configuration | None:
        if trial < len(self._starts):
            return dict(self._starts[trial])
        if self._sampler.size is None or self._sampler.learns:
            return self._sampler.ask(trial)
        place = trial - len(self._starts)
        for skipped in self._skipped:
            place += skipped <= place
        return self._sampler.ask(place)

    def complete(self, trial: int, given: Configuration) -> Configuration:
        return self._sampler.complete(trial, given)

    def fork(self, trial: int, parent: Configuration) -> Configuration | None:
        return self._sampler.fork(trial, parent)

    def tell(self, trial: int, iteration: int, value: float) -> None:
        self._sampler.tell(trial, iteration, value)

    def _completed(self, trial: int, start: Configuration) -> Configuration:
        try:
            return self._sampler.complete(trial, start)
        except SpaceError as error:
            raise StartError((str(trial), *error.path), error.text) from None


def check_starts(space: AnySpace, starts: Sequence[Configuration]) -> None:
    """Raises `StartError` for the start configurations that are not of the space."""
    mistakes: list[SpaceError] = []
    for number, start in enumerate(starts):
        try:
            completed(space, start, lambda _, distribution: quantile(distribution)(0.0))
        except SpaceError as error:
            mistakes += [StartError((str(number), *each.path), each.text) for each in error.mistakes]
    raise_all(mistakes)
