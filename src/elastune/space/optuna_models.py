"""The study that Optuna's samplers look at, and the samplers.

They are called by the methods that Optuna documents for samplers (`infer_relative_search_space`,
`sample_relative`, `sample_independent`) on a study whose storage shows exactly the trials that it is given:
to add them one by one to a storage of Optuna's copies each, which takes longer than the model itself.
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
from elastune.model.metric import Mode
from elastune.space.space import Distribution, Draw, Scalar
from elastune.space.values import fitted

_NAME = "elastune"


class _Shown(InMemoryStorage):
    """One study whose trials are those that it is shown."""

    def __init__(self, mode: Mode, trials: Sequence[FrozenTrial]) -> None:
        super().__init__()
        self._shown = trials
        direction = StudyDirection.MAXIMIZE if mode is Mode.MAX else StudyDirection.MINIMIZE
        verbosity = optuna.logging.get_verbosity()
        # Optuna tells of every new study.
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.create_new_study([direction], _NAME)
        optuna.logging.set_verbosity(verbosity)

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        return [trial for trial in self._shown if states is None or trial.state in states]

    def set_trial_system_attr(self, trial_id: int, key: str, value: object) -> None:
        """Notes of samplers for other processes, of which there are none."""


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


def suggest(sampler: BaseSampler, mode: Mode, trial: int, known: Sequence[FrozenTrial]) -> Draw:
    """What the sampler gives a new trial beside the known ones.

    Hyperparameters that all of them have are sampled together, others (which are only there under a
    condition) one by one.
    """
    study = Study(_NAME, storage=_Shown(mode, known))
    new = shown_trial(trial, {}, {})
    together = sampler.infer_relative_search_space(study, new)
    values = sampler.sample_relative(study, new, together)

    def draw(name: str, distribution: Distribution) -> Scalar:
        if name in values and together[name] == distribution:
            found: Scalar = values[name]
        else:
            found = sampler.sample_independent(study, new, name, distribution)
        return fitted(distribution, found)

    return draw


def tpe(seed: int, startup: int) -> BaseSampler:
    """Multivariate, as in BOHB; trials that run count as bad ones (the constant liar)."""
    return TPESampler(seed=seed, multivariate=True, constant_liar=True, n_startup_trials=startup)


def gp(seed: int, startup: int) -> BaseSampler:
    """What is only there under a condition is left to TPE: the process needs a value of every dimension."""
    return optuna.samplers.GPSampler(
        seed=seed,
        n_startup_trials=startup,
        independent_sampler=tpe(seed, startup),
        warn_independent_sampling=False,
    )


def check_gp() -> None:
    """Raises `JobError` unless what the Gaussian process computes with is installed."""
    try:
        importlib.import_module("torch")
    except ImportError as error:
        raise JobError(
            f"search.sampler is gp, which needs PyTorch, and importing it failed: {error}; "
            "pip install 'elastune[gp]', or choose tpe"
        ) from None
