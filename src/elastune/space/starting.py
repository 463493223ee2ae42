"""Start configurations: what the first trials get before the sampler has its say."""

from __future__ import annotations

from collections.abc import Sequence

from elastune.space.given import completed
from elastune.space.grid_sampler import GridSampler
from elastune.space.quantile import quantile
from elastune.space.sampler import AnySpace, Configuration, Sampler
from elastune.space.space import SpaceError
from elastune.space.table_sampler import TableSampler


class StartError(SpaceError):
    """A start configuration is wrong. `path` begins with its number."""

    root = "start_configurations"


class StartingSampler:
    """The start configurations, completed by a sampler, then what the sampler gives.

    They are completed before anything is learned, so that they depend on the seed alone. A grid and a table
    go on after them from their beginning, without the configurations that were among the first: each is
    still given once.
    """

    def __init__(self, sampler: Sampler, starts: Sequence[Configuration]) -> None:
        self._sampler = sampler
        self._starts = [self._completed(trial, start) for trial, start in enumerate(starts)]
        self._skipped: list[int] = []
        if isinstance(sampler, GridSampler | TableSampler):
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
        if self._sampler.size is None:
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
    """Raises `StartError` for the first start configuration that is not of the space."""
    for number, start in enumerate(starts):
        try:
            completed(space, start, lambda _, distribution: quantile(distribution)(0.0))
        except SpaceError as error:
            raise StartError((str(number), *error.path), error.text) from None
