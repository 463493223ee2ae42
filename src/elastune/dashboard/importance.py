"""Which hyperparameters matter, by Optuna's evaluators."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from elastune.history.trial_tables import CONFIG
from elastune.views.page.figures import Json, finite, thinned

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.importance import BaseImportanceEvaluator

# With fewer trials a ranking of hyperparameters is noise.
_LEAST_TRIALS = 4
# With more, a ranking takes long and says the same.
_MOST_TRIALS = 1_000
# A hyperparameter whose values span more than this ratio was probably drawn on a logarithmic scale.
_WIDE = 50.0


class _Scored(NamedTuple):
    """A trial with a value."""

    value: float
    config: dict[str, object]


def importance_json(table: Json) -> Json:
    """From `table_json`. Shares that sum to 1, most important first; `why` says why there are none, and by
    what they are."""
    found = _scored(table)
    if len(found) < _LEAST_TRIALS:
        return {"shares": {}, "why": f"{len(found)} trials have a value; {_LEAST_TRIALS} are needed"}
    scored = thinned(found, _MOST_TRIALS)
    domains = _domains([trial.config for trial in scored])
    if not domains:
        return {"shares": {}, "why": "no hyperparameter has two values that all trials have"}
    if len({trial.value for trial in scored}) == 1:
        return {"shares": {}, "why": "all trials have the same value"}
    whole = _evaluated([trial.value for trial in scored], domains, rises=bool(table["rises"]))
    of = f"{len(scored):,}" if len(scored) == len(found) else f"{len(scored):,} of {len(found):,}"
    return {**whole, "why": f"{whole['why']} over {of} trials, best value of each"}


def _scored(table: Json) -> list[_Scored]:
    keys, rows = table["keys"], table["rows"]
    assert isinstance(keys, list)
    assert isinstance(rows, list)
    if "best_reported" not in keys:
        return []
    score = keys.index("best_reported")
    names = {at: key.removeprefix(CONFIG) for at, key in enumerate(keys) if key.startswith(CONFIG)}
    return [
        _Scored(row[score], {name: row[at] for at, name in names.items() if row[at] is not None})
        for row in rows
        if row[score] is not None
    ]


def _domains(configs: Sequence[Mapping[str, object]]) -> dict[str, list[object]]:
    """The values of each hyperparameter that all trials have and that varies."""
    common = set(configs[0]).intersection(*configs)
    found = {name: [config[name] for config in configs] for name in configs[0] if name in common}
    return {name: values for name, values in found.items() if len(set(map(repr, values))) > 1}


def _evaluated(scores: Sequence[float], domains: Mapping[str, list[object]], *, rises: bool) -> Json:
    import optuna  # noqa: PLC0415  slow to import

    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        return _by_optuna(scores, domains, rises=rises)
    finally:
        optuna.logging.set_verbosity(level)  # it is the whole process's


def _by_optuna(scores: Sequence[float], domains: Mapping[str, list[object]], *, rises: bool) -> Json:
    import optuna  # noqa: PLC0415  slow to import

    distributions = {name: _distribution(values) for name, values in domains.items()}
    study = optuna.create_study(direction="maximize" if rises else "minimize")
    for index, score in enumerate(scores):
        params = {name: _given(distributions[name], values[index]) for name, values in domains.items()}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=distributions, value=score))
    by, evaluator = _evaluator()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {"shares": finite(dict(shares)), "why": by}


def _evaluator() -> tuple[str, BaseImportanceEvaluator]:
    """fANOVA is Optuna's usual one, and needs scikit-learn."""
    from optuna import importance as of  # noqa: PLC0415

    if importlib.util.find_spec("sklearn") is None:
        return "PED-ANOVA", of.PedAnovaImportanceEvaluator()
    return "fANOVA", of.FanovaImportanceEvaluator(seed=0)


def _distribution(values: Sequence[object]) -> BaseDistribution:
    from optuna import distributions as of  # noqa: PLC0415

    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        return of.CategoricalDistribution(sorted(set(map(str, values))))
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    low, high = min(numbers), max(numbers)
    return of.FloatDistribution(low, high, log=low > 0.0 and high / low > _WIDE)


def _given(distribution: object, value: object) -> object:
    from optuna.distributions import CategoricalDistribution  # noqa: PLC0415

    return str(value) if isinstance(distribution, CategoricalDistribution) else float(str(value))
