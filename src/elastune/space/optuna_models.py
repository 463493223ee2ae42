"""Optuna's samplers, called by their documented methods on a study that shows exactly the given trials.

The methods are `infer_relative_search_space`, `sample_relative` and `sample_independent`. A storage of
Optuna's own would copy each trial that is added, which takes longer than the model itself.
"""

from __future__ import annotations

import importlib
from collections.abc import Container, Mapping, Sequence

import optuna
from optuna.samplers import BaseSampler, TPESampler
from optuna.storages import InMemoryStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from elastune.errors import JobError
from elastune.model.configuration import Scalar
from elastune.model.metric import Mode
from elastune.space.space import Distribution, Draw
from elastune.space.values import fitted

_NAME = "elastune"


class _FixedStorage(InMemoryStorage):
    """One study with the given trials."""

    def __init__(self, mode: Mode, trials: Sequence[FrozenTrial]) -> None:
        super().__init__()
        self._trials_given = trials
        direction = StudyDirection.MAXIMIZE if mode is Mode.MAX else StudyDirection.MINIMIZE
        verbosity = optuna.logging.get_verbosity()
        # Optuna logs every new study.
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.create_new_study([direction], _NAME)
        optuna.logging.set_verbosity(verbosity)

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        return [trial for trial in self._trials_given if states is None or trial.state in states]

    def set_trial_system_attr(self, trial_id: int, key: str, value: object) -> None:
        """Samplers leave notes for other processes here; there are none."""


def shown_trial(
    trial: int,
    values: Mapping[str, Scalar],
    distributions: Mapping[str, Distribution],
    value: float | None = None,
) -> FrozenTrial:
    """A trial as Optuna sees it; without a value it is running."""
    return FrozenTrial(
        number=trial,
        trial_id=trial,
        state=TrialState.RUNNING if value is None else TrialState.COMPLETE,
        value=value,
        datetime_start=None,
        datetime_complete=None,
        params=dict(values),
        distributions=dict(distributions),
        user_attrs={},
        system_attrs={},
        intermediate_values={},
    )


def told_trial(
    trial: int,
    values: Mapping[str, Scalar],
    distributions: Mapping[str, Distribution],
    told: Mapping[int, float],
    last: int,
) -> FrozenTrial:
    """With its value after each iteration; before the last iteration of all, it counts as pruned."""
    end = max(told, default=0)
    shown = shown_trial(trial, values, distributions, told[end] if told else None)
    shown.intermediate_values = dict(told)
    if told and end < last:
        shown.state = TrialState.PRUNED
    return shown


def suggest(sampler: BaseSampler, mode: Mode, trial: int, known: Sequence[FrozenTrial]) -> Draw:
    """Values for a new trial. Hyperparameters that all known trials have are sampled together, conditional
    ones one by one."""
    study = Study(_NAME, storage=_FixedStorage(mode, known))
    new = shown_trial(trial, {}, {})
    together = sampler.infer_relative_search_space(study, new)
    values = sampler.sample_relative(study, new, together)

    def draw(name: str, distribution: Distribution) -> Scalar:
        if name in values and together[name] == distribution:
            return fitted(distribution, values[name])
        return fitted(distribution, sampler.sample_independent(study, new, name, distribution))

    return draw


def tpe(seed: int, startup: int) -> BaseSampler:
    """Multivariate, as in BOHB; running trials count as bad ones (constant liar)."""
    return TPESampler(seed=seed, multivariate=True, constant_liar=True, n_startup_trials=startup)


def gp(seed: int, startup: int) -> BaseSampler:
    """Conditional hyperparameters are left to TPE: the process needs a value of every dimension."""
    return optuna.samplers.GPSampler(
        seed=seed,
        n_startup_trials=startup,
        independent_sampler=tpe(seed, startup),
        warn_independent_sampling=False,
    )


def check_gp() -> None:
    """Raises `JobError` if PyTorch, on which the Gaussian process is built, is not installed."""
    try:
        importlib.import_module("torch")
    except ImportError as error:
        raise JobError(
            f"search.sampler is gp, which needs PyTorch, and importing it failed: {error}; "
            "pip install 'elastune[gp]', or choose tpe"
        ) from None
