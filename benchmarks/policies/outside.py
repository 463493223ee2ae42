"""Optuna and Ray Tune on the same tables and the same clock, through their own objects.

As many workers of one slot as the budget pays for until the deadline train one trial each, iteration by
iteration; a value is reported at the time at which its iteration ends. The libraries decide all else:

- Optuna: a `Study` with `TPESampler` and `HyperbandPruner`, by `ask`, `report`, `should_prune` and `tell`.
- Ray Tune: an `AsyncHyperBandScheduler` (ASHA) and an `OptunaSearch`, called in the order in which Tune's
  controller calls them (`suggest`, `on_trial_add`, `on_trial_result` of the scheduler, then of the searcher
  or `on_trial_complete`). No Ray is started: neither object needs one.

Both propose by TPE, with its settings for several workers (`multivariate`, `constant_liar`), in the space of
the ranks of the table's columns; a proposal becomes the nearest row that no trial has, by the same code as in
`elastune.space`, and the model is shown that row. While TPE has too few trials to propose anything, rows come
in the order of the seed, as for all contestants: a point drawn at random in the space of ranks is nearest to
a rare row, and on NAS-Bench-NLP the rare rows are the good ones (the best of four regrets 25 % by a quarter
of a training, that of four random rows 53 %).

Neither library resizes a trial nor knows the deadline: they train until then. A model that diverges ends its
trial as failed.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from benchmarks.policies.contestants import ETA, OutsideContestant
from benchmarks.policies.curves import ITERATION_S
from benchmarks.policies.settings import USD_PER_SLOT_HOUR, Setting
from benchmarks.policies.simulating import Outcome
from elastune.curves.npz import read_npz
from elastune.curves.source import CurveFile
from elastune.curves.table import CurveTable, TableCurve
from elastune.model.configuration import Configuration
from elastune.space.table_columns import TableColumns


class Peer(Protocol):
    """A library that proposes rows and decides which trials go on."""

    def propose(self, trial: int) -> int:
        """The row of a new trial."""
        ...

    def report(self, trial: int, iteration: int, value: float, *, is_last: bool) -> bool:
        """A value has come; whether the trial goes on. After its last iteration it does not."""
        ...

    def fail(self, trial: int) -> None:
        """The training diverged."""
        ...


class RowSampler(BaseSampler):
    """A sampler of Optuna whose proposals are moved to the nearest row that no trial has."""

    def __init__(self, inner: BaseSampler, rows: Sequence[Configuration], *, seed: int) -> None:
        self.inner = inner
        self.columns = TableColumns(rows)
        self.order = np.random.default_rng(seed).permutation(len(rows)).tolist()
        self.left: dict[int, None] = dict.fromkeys(self.order)
        self.place = 0
        """The row of the last proposal."""

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        return {name: domain.distribution for name, domain in self.columns.space.domains.items()}

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self.distributions

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        together = self.inner.infer_relative_search_space(study, trial)
        point = self.inner.sample_relative(study, trial, together)
        if not self.left:
            self.left = dict.fromkeys(self.order)
        self.place = next(iter(self.left))
        if point.keys() == search_space.keys():
            self.place = min(self.left, key=self.columns.distances(point).__getitem__)
        del self.left[self.place]
        return dict(self.columns.point(self.place))

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        raise AssertionError(f"{param_name} is not sampled together with the others")


def _row_sampler(rows: Sequence[Configuration], seed: int) -> RowSampler:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        tpe = TPESampler(seed=seed, multivariate=True, constant_liar=True)
    return RowSampler(tpe, rows, seed=seed)


class OptunaPeer:
    def __init__(self, rows: Sequence[Configuration], setting: Setting, seed: int) -> None:
        self._rows = _row_sampler(rows, seed)
        self._study = optuna.create_study(
            study_name=f"seed {seed}",  # a trial's bracket depends on it
            direction="minimize" if setting.curves.mode == "min" else "maximize",
            sampler=self._rows,
            pruner=optuna.pruners.HyperbandPruner(
                min_resource=1, max_resource=setting.curves.longest, reduction_factor=ETA
            ),
        )
        self._trials: dict[int, optuna.Trial] = {}

    def propose(self, trial: int) -> int:
        self._trials[trial] = self._study.ask(fixed_distributions=self._rows.distributions)
        return self._rows.place

    def report(self, trial: int, iteration: int, value: float, *, is_last: bool) -> bool:
        asked = self._trials[trial]
        asked.report(value, iteration)
        if is_last:
            self._study.tell(asked, value)
        elif asked.should_prune():
            self._study.tell(asked, state=TrialState.PRUNED)
        else:
            return True
        return False

    def fail(self, trial: int) -> None:
        self._study.tell(self._trials[trial], state=TrialState.FAIL)


@dataclass(frozen=True, slots=True)
class _TuneTrial:
    """All that the scheduler reads of a trial."""

    trial_id: str


class RayTunePeer:
    def __init__(self, rows: Sequence[Configuration], setting: Setting, seed: int) -> None:
        # Importing Ray takes seconds.
        from ray.tune.schedulers import AsyncHyperBandScheduler  # noqa: PLC0415
        from ray.tune.search.optuna import OptunaSearch  # noqa: PLC0415

        self._metric = setting.curves.metric
        aim = {"metric": self._metric, "mode": setting.curves.mode}
        self._rows = _row_sampler(rows, seed)
        self._scheduler = AsyncHyperBandScheduler(
            max_t=setting.curves.longest, grace_period=1, reduction_factor=ETA, **aim
        )
        self._searcher = OptunaSearch(space=self._rows.distributions, sampler=self._rows, **aim)
        self._trials: dict[int, _TuneTrial] = {}

    def propose(self, trial: int) -> int:
        new = self._trials[trial] = _TuneTrial(f"trial {trial}")
        self._searcher.suggest(new.trial_id)
        self._scheduler.on_trial_add(None, new)
        return self._rows.place

    def report(self, trial: int, iteration: int, value: float, *, is_last: bool) -> bool:
        known, result = self._trials[trial], {"training_iteration": iteration, self._metric: value}
        decision = self._scheduler.on_trial_result(None, known, result)
        if decision == self._scheduler.STOP:
            self._end(known, result)
            return False
        self._searcher.on_trial_result(known.trial_id, result)
        if is_last:
            self._end(known, result)
        return not is_last

    def fail(self, trial: int) -> None:
        known = self._trials[trial]
        self._scheduler.on_trial_error(None, known)
        self._searcher.on_trial_complete(known.trial_id, error=True)

    def _end(self, known: _TuneTrial, result: dict[str, Any]) -> None:
        self._scheduler.on_trial_complete(None, known, result)
        self._searcher.on_trial_complete(known.trial_id, result=result)


PEERS: dict[str, Callable[[Sequence[Configuration], Setting, int], Peer]] = {
    "optuna": OptunaPeer,
    "ray": RayTunePeer,
}


def play(contestant: OutsideContestant, setting: Setting, seed: int) -> Outcome:
    """One run by the deadline."""
    curves = setting.curves
    table = CurveTable.of(read_npz(CurveFile(path=str(curves.path)), curves.metric), source=contestant.name)
    np.random.seed(seed)  # noqa: NPY002  Ray's scheduler chooses its bracket, of one, by it
    random.seed(seed)
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        return race(PEERS[contestant.library](table.table, setting, seed), table, setting, seed)
    finally:
        optuna.logging.set_verbosity(verbosity)


@dataclass(slots=True)
class _Worker:
    trial: int
    curve: TableCurve
    iteration: int = 0

    def next_s(self) -> float:
        measured = self.curve.measured
        return ITERATION_S if measured is None else measured[self.iteration]


def race(peer: Peer, table: CurveTable, setting: Setting, seed: int) -> Outcome:
    """The event loop: workers whose iterations end one after the other, until the deadline."""
    numbers, order = itertools.count(), itertools.count()
    ends: list[tuple[float, int, _Worker]] = []
    loss, best, best_iterations, iterations = math.inf, None, 0, 0

    def train(worker: _Worker, now_s: float) -> None:
        end_s = now_s + worker.next_s()
        if end_s <= setting.deadline_s * (1 + 1e-9):
            heapq.heappush(ends, (end_s, next(order), worker))

    def begin(now_s: float) -> None:
        trial = next(numbers)
        row = table.table[peer.propose(trial)]
        worker = _Worker(trial, table.curve(row, (seed, trial)))
        train(worker, now_s + setting.terms.startup_s)

    for _ in range(setting.terms.slots):
        begin(setting.terms.boot_s)
    while ends:
        now_s, _, worker = heapq.heappop(ends)
        value = worker.curve.values[worker.iteration]
        worker.iteration += 1
        iterations += 1
        if not math.isfinite(value):
            peer.fail(worker.trial)
            begin(now_s)
            continue
        if setting.curves.loss(value) < loss:
            loss, best, best_iterations = setting.curves.loss(value), value, worker.iteration
        is_last = worker.iteration == worker.curve.length
        if peer.report(worker.trial, worker.iteration, value, is_last=is_last):
            train(worker, now_s)
        else:
            begin(now_s)
    hours = setting.deadline_s / 3600.0
    return Outcome(
        best=best,
        last=None,
        best_iterations=best_iterations,
        trials=next(numbers),
        iterations=iterations,
        seconds=setting.deadline_s,
        usd=setting.terms.slots * hours * USD_PER_SLOT_HOUR,
    )
