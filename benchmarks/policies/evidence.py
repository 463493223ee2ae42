"""Means, ranks and leads of contestants, each with how sure it is.

A mean is one of tables, each of which counts the same. Its 95 % interval is bootstrapped over tables: what
another choice of problems might have shown. Its standard error is over seeds: what other luck might have
shown on the same problems. All contestants are compared on the same runs: in a campaign that was stopped,
runs that one of them lacks are left out for all, and so are seeds of a cell that lack a table.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, stdev

import numpy as np
from scipy.stats import rankdata

from benchmarks.policies.curves import DEVELOPMENT, is_surrogate
from benchmarks.policies.results import Key, Result

RESAMPLES = 10_000
# A contestant with fewer of the runs than this, as a share, would shrink the comparison of the others.
_ENOUGH = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    mean: float
    low: float
    high: float
    se: float
    """Over seeds; NaN if there is one only."""

    @property
    def excludes_0(self) -> bool:
        return self.low > 0.0 or self.high < 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """By how much one regrets less than another; `better` of `tables` tables, the worst for it last."""

    by: Estimate
    better: int
    tables: int
    worst: float
    worst_table: str


@dataclass(frozen=True)
class Evidence:
    """`runs`: of every contestant, on the same keys. `left_out`: contestants with too few runs."""

    runs: Mapping[str, Mapping[Key, Result]]
    left_out: Mapping[str, int]

    @classmethod
    def of(cls, results: Iterable[Result]) -> Evidence:
        runs: dict[str, dict[Key, Result]] = defaultdict(dict)
        for result in results:
            runs[result.contestant][result.key] = result
        most = max(map(len, runs.values()), default=0)
        few = {name: len(each) for name, each in runs.items() if len(each) < _ENOUGH * most}
        kept = {name: each for name, each in runs.items() if name not in few}
        common = set[Key].intersection(*(set(each) for each in kept.values())) if kept else set()
        common = _on_all_tables(common)
        same = {
            name: {key: each[key] for key in sorted(each) if key in common} for name, each in kept.items()
        }
        return cls(same, few)

    @cached_property
    def keys(self) -> list[Key]:
        return list(next(iter(self.runs.values()), {}))

    @cached_property
    def tables(self) -> list[str]:
        return list(dict.fromkeys(key.table for key in self.keys))

    @property
    def held_out(self) -> list[str]:
        return [table for table in self.tables if _counts(table)]

    @property
    def development(self) -> list[str]:
        return [table for table in self.tables if table in DEVELOPMENT]

    @property
    def surrogates(self) -> list[str]:
        return [table for table in self.tables if is_surrogate(table)]

    def values_of(self, part: str) -> list[str]:
        """The laws, or the cells, that there are."""
        return list(dict.fromkeys(getattr(key, part) for key in self.keys))

    def cells_of(self, law: str) -> set[str]:
        return {key.cell for key in self.keys if key.law == law}

    @property
    def main_law(self) -> str:
        """The scaling law with the most cells: factors are varied one at a time."""
        return max(self.values_of("law"), key=lambda law: len(self.cells_of(law)))

    def seeds_of(self, law: str, cell: str) -> int:
        return len({key.seed for key in self.keys if (key.law, key.cell) == (law, cell)})

    def regret(self, name: str, tables: Collection[str], **only: str) -> Estimate:
        """On these tables; `only` names a law or a cell."""
        return self._estimate(lambda key: self.runs[name][key].regret, tables, only)

    def lead(self, name: str, other: str, tables: Sequence[str]) -> Lead:
        def gain(key: Key) -> float:
            return self.runs[other][key].regret - self.runs[name][key].regret

        by_table = self._by_table(gain, tables, {})
        worst_table = min(by_table, key=by_table.__getitem__)
        return Lead(
            by=self._estimate(gain, tables, {}),
            better=sum(each > 0.0 for each in by_table.values()),
            tables=len(by_table),
            worst=by_table[worst_table],
            worst_table=worst_table,
        )

    def rank(self, name: str, among: Sequence[str], tables: Collection[str]) -> float:
        """1 is the best of a run; equal regrets share their ranks."""
        place = list(among).index(name)
        ranks = [self._ranks(tuple(among), key)[place] for key in self.keys if key.table in tables]
        return fmean(ranks)

    def _ranks(self, among: tuple[str, ...], key: Key) -> Sequence[float]:
        ranked: list[float] = rankdata([self.runs[name][key].regret for name in among]).tolist()
        return ranked

    def mean_of(self, name: str, what: str, tables: Collection[str]) -> float:
        """Of another number of a result, over all runs on these tables."""
        return fmean(getattr(self.runs[name][key], what) for key in self.keys if key.table in tables)

    def worst_table(self, name: str, tables: Collection[str]) -> tuple[str, float]:
        by_table = self._by_table(lambda key: self.runs[name][key].regret, tables, {})
        table = max(by_table, key=by_table.__getitem__)
        return table, by_table[table]

    def best(self, names: Iterable[str], tables: Collection[str]) -> str:
        return min(names, key=lambda name: self.regret(name, tables).mean)

    def _by_table(
        self, value: Callable[[Key], float], tables: Collection[str], only: Mapping[str, str]
    ) -> dict[str, float]:
        """All laws and cells of a table count the same, however many seeds they have."""
        values: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
        for key in self.keys:
            if key.table in tables and all(getattr(key, part) == wanted for part, wanted in only.items()):
                values[key.table][key.law, key.cell].append(value(key))
        return {table: fmean(map(fmean, each.values())) for table, each in values.items()}

    def _estimate(
        self, value: Callable[[Key], float], tables: Collection[str], only: Mapping[str, str]
    ) -> Estimate:
        means = np.array(list(self._by_table(value, tables, only).values()))
        if not means.size:
            return Estimate(mean=math.nan, low=math.nan, high=math.nan, se=math.nan)
        low, high = bootstrap(means)
        return Estimate(mean=float(means.mean()), low=low, high=high, se=self._error(value, tables, only))

    def _error(
        self, value: Callable[[Key], float], tables: Collection[str], only: Mapping[str, str]
    ) -> float:
        """The standard error over seeds. Errors of cells are averaged, as if luck was the same in all: the
        same rows are drawn first. NaN if a cell has one seed."""
        cells: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for key in self.keys:
            if key.table in tables and all(getattr(key, part) == wanted for part, wanted in only.items()):
                cells[key.law, key.cell][key.seed].append(value(key))
        if any(len(seeds) < 2 for seeds in cells.values()):
            return math.nan
        return fmean(stdev(map(fmean, seeds.values())) / math.sqrt(len(seeds)) for seeds in cells.values())


def _on_all_tables(keys: set[Key]) -> set[Key]:
    """Without the seeds of a law and a cell that lack a table that counts: so all tables have the same cells.

    If there are none on all tables, as they are.
    """
    counting = {key.table for key in keys if _counts(key.table)}
    found: dict[tuple[str, str, int], set[str]] = defaultdict(set)
    for key in keys:
        found[key[1:]].add(key.table)
    complete = {key for key in keys if found[key[1:]] >= counting}
    return complete or keys


def _counts(table: str) -> bool:
    return table not in DEVELOPMENT and not is_surrogate(table)


def bootstrap(means: np.typing.NDArray[np.float64]) -> tuple[float, float]:
    """The 95 % interval of the mean of these, if others like them had been drawn."""
    drawn = np.random.default_rng(0).integers(len(means), size=(RESAMPLES, len(means)))
    low, high = np.percentile(means[drawn].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)
