"""A study of Optuna whose `optimize` is carried out by `elastune.tune`.

It is a real study: afterwards the trials are in its storage, so `best_params`, `trials_dataframe` and plots
of Optuna work. Samplers of Optuna that need nothing but the trials are used as they are; which trials go on
is decided by Elastune. What is not carried over raises `JobError` with the line to change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import optuna
from optuna import pruners, samplers
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from elastune.adapters.adapted_trainable import this_machine
from elastune.adapters.optuna.objective_space import ObjectiveSpace
from elastune.adapters.optuna.objectives import METRIC, name_of, trainable
from elastune.adapters.optuna.outcomes import frozen_trials
from elastune.api.simulating import RUNS_FOLDER
from elastune.api.tuning import tune
from elastune.errors import ExecutionError, JobError
from elastune.history.result import RunResult
from elastune.space.function_space import SuggestingTrial
from elastune.space.study_sampler import OwnSampler
from elastune.space.values import quantile
from elastune.wording import seen

_log = logging.getLogger("elastune")
# For an objective that reports an unknown number of times.
UNKNOWN_ITERATIONS = 1_000
_STATELESS = (samplers.RandomSampler, samplers.TPESampler, samplers.GPSampler)


class Study(optuna.study.Study):
    """As `optuna.study.Study`. `run` is the result of the last `optimize`."""

    run: RunResult | None = None
    tune: ClassVar[Callable[..., RunResult]] = staticmethod(tune)
    """Carries out the job."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._queue: list[dict[str, Any]] = []
        self._has_sampler = self._has_pruner = True

    def optimize(  # type: ignore[override]  # noqa: PLR0913  as in Optuna, and by name
        self,
        func: Callable[..., object],
        n_trials: int | None = None,
        timeout: float | None = None,
        n_jobs: int | None = None,
        *,
        catch: object = (),
        callbacks: Iterable[object] | None = None,
        gc_after_trial: bool = False,
        show_progress_bar: bool = False,
        every: bool = False,
        max_iterations: int | None = None,
        **keys: Any,
    ) -> None:
        """As `optuna.study.Study.optimize`.

        `n_jobs` is the number of slots on this machine, by default one per core. `max_iterations` is how
        often the objective reports, if a loop over a range does not say so. `every` runs its suggestions for
        each configuration: where they depend on numbers, not only on choices. `keys` are keys of a job
        (`deadline="10m"`, `budget=5`, `cluster=...`, `search="asha"`) or arguments of `elastune.tune`.
        """
        if callbacks:
            raise JobError("callbacks of optimize are not carried over; remove callbacks=[...]")
        space = ObjectiveSpace(func, every=every)
        space(SuggestingTrial(lambda _, distribution: quantile(distribution)(0.5)))
        starts, sampler = self._starts(space)
        if n_trials is None and isinstance(self.sampler, samplers.GridSampler):
            n_trials = len(starts)
        search = self._whole_search(space, keys.pop("search", None), max_iterations)
        whole: dict[str, Any] = {
            "space": space,
            "metric": METRIC,
            "mode": "max" if self.direction is StudyDirection.MAXIMIZE else "min",
            "search": {"trials": n_trials, "sampler": sampler, **search},
            "start_configurations": starts[:n_trials],
            **({} if timeout is None else {"deadline": float(timeout)}),
            **({} if "cluster" in keys or "address" in keys else this_machine(n_jobs)),
            "progress": show_progress_bar or None,
            **keys,
        }
        if n_trials is None:
            del whole["search"]["trials"]
        self._queue.clear()
        self.run = self.tune(trainable(func), **whole)
        self._keep(self.run, space, whole)

    def enqueue_trial(
        self, params: dict[str, Any], user_attrs: dict[str, Any] | None = None, skip_if_exists: bool = False
    ) -> None:
        """A configuration to begin with; what it leaves out is drawn."""
        if not (skip_if_exists and params in [*self._queue, *(each.params for each in self.trials)]):
            self._queue.append(dict(params))

    def ask(self, *_: Any, **__: Any) -> Any:
        raise JobError(
            "study.ask is not carried over; give an objective to study.optimize, or use optuna itself"
        )

    def _starts(self, space: ObjectiveSpace) -> tuple[list[dict[str, Any]], str]:
        """The configurations to begin with, and the job's sampler for the others."""
        before = tuple(each for each in self.get_trials(deepcopy=False) if each.state.is_finished())
        chosen = self.sampler
        if not self._has_sampler and not before:
            return list(self._queue), "tpe"
        if isinstance(chosen, samplers.GridSampler):
            names = chosen._param_names  # noqa: SLF001  Optuna has no public name for the grid
            points = [dict(zip(names, point, strict=True)) for point in chosen._all_grids]  # noqa: SLF001
            return [*self._queue, *points], "random"
        if isinstance(chosen, samplers.QMCSampler):
            return list(self._queue), "qmc"
        inner = getattr(chosen, "_base_sampler", chosen)  # of a PartialFixedSampler
        if not isinstance(inner, _STATELESS):
            raise JobError(
                f"sampler is {type(chosen).__name__}, which keeps notes in the storage; change it to "
                "TPESampler, GPSampler, RandomSampler, QMCSampler or GridSampler"
            )
        space.sampler = OwnSampler(sampler=chosen, before=before)
        return list(self._queue), "tpe"

    def _whole_search(self, space: ObjectiveSpace, given: Any, most: int | None) -> dict[str, Any]:
        iterations = self._iterations(space, most)
        if given is None:
            return self._search(iterations)
        named = {"algorithm": given} if isinstance(given, str) else dict(given)
        return {"max_iterations": iterations, **named}

    def _iterations(self, space: ObjectiveSpace, given: int | None) -> int:
        if given is not None:
            return given
        if not space.reports.any:
            return 1
        if space.reports.count is not None:
            return space.reports.count + 1  # the value that it returns is one more
        _log.warning(
            "how often the objective reports is not known; the quote is for %s. "
            "optimize(..., max_iterations=n) gives a quote for n",
            f"{UNKNOWN_ITERATIONS:,}",
        )
        return UNKNOWN_ITERATIONS

    def _search(self, iterations: int) -> dict[str, Any]:
        """Trials are compared in their reports, as a pruner would, where it is known how many there are."""
        full = {"algorithm": "random", "max_iterations": iterations}
        if isinstance(self.pruner, pruners.NopPruner) or iterations == 1:
            return full
        name = type(self.pruner).__name__
        if iterations == UNKNOWN_ITERATIONS:
            if self._has_pruner:
                _log.warning("%s is ignored: how often the objective reports is not known", name)
            return full
        first = getattr(self.pruner, "_min_resource", 1)
        eta = getattr(self.pruner, "_reduction_factor", 3)
        first = first if isinstance(first, int) and first <= iterations else 1
        return {"algorithm": "asha", "min_iterations": first, "max_iterations": iterations, "eta": eta}

    def _keep(self, result: RunResult, space: ObjectiveSpace, whole: Mapping[str, Any]) -> None:
        found, errors = frozen_trials(result, folder=whole.get("folder", RUNS_FOLDER), space=space)
        self.add_trials(found)
        if errors and not any(trial.state is TrialState.COMPLETE for trial in found):
            raise ExecutionError(f"all {len(found)} trials of run {result.run} failed: {errors[0]}")


def create_study(
    *,
    storage: Any = None,
    sampler: Any = None,
    pruner: Any = None,
    study_name: str | None = None,
    direction: Any = None,
    load_if_exists: bool = False,
    directions: Any = None,
) -> Study:
    """As `optuna.create_study`, for one direction."""
    several = list(directions) if directions is not None else []
    if len(several) > 1:
        raise JobError(
            f"directions are {seen(several)}; expected one: several objectives are not carried over; change "
            "the call to create_study(direction=...)"
        )
    made = optuna.create_study(
        storage=storage,
        sampler=sampler,
        pruner=pruner,
        study_name=study_name,
        direction=several[0] if several else direction,
        load_if_exists=load_if_exists,
    )
    return _study(made, has_sampler=sampler is not None, has_pruner=pruner is not None)


def load_study(*, study_name: str | None, storage: Any, sampler: Any = None, pruner: Any = None) -> Study:
    """As `optuna.load_study`."""
    found = optuna.load_study(study_name=study_name, storage=storage, sampler=sampler, pruner=pruner)
    return _study(found, has_sampler=sampler is not None, has_pruner=pruner is not None)


def _study(made: Any, *, has_sampler: bool, has_pruner: bool) -> Study:
    study = Study(
        study_name=made.study_name,
        storage=made._storage,  # noqa: SLF001  of the study itself
        sampler=made.sampler,
        pruner=made.pruner,
    )
    study._has_sampler, study._has_pruner = has_sampler, has_pruner  # noqa: SLF001
    return study


def tune_objective(
    objective: Callable[..., object], *, n_trials: int | None = None, direction: str = "minimize", **keys: Any
) -> Study:
    """One call in place of a study: `tune_objective(objective, n_trials=50, deadline="10m")`."""
    study = create_study(direction=direction)
    study.optimize(objective, n_trials=n_trials, **keys)
    return study


def space(objective: Callable[..., object], *, every: bool = False) -> ObjectiveSpace:
    """The space of `elastune.tune` for an objective."""
    if not callable(objective):
        raise JobError(f"the objective is {seen(objective)}; expected a function objective(trial)")
    return ObjectiveSpace(objective, every=every)


__all__ = ["FrozenTrial", "Study", "create_study", "load_study", "name_of", "space", "tune_objective"]
