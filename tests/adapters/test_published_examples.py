"""Examples as the documentation of Optuna and Ray Tune has them find the same best model through adapters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import optuna as native
import pytest

from elastune.adapters import optuna
from elastune.adapters.optuna.study import Study
from tests.adapters import optuna_examples, ray_examples
from tests.adapters.in_process import carry_out


@pytest.fixture(autouse=True)
def quiet() -> Any:
    before = native.logging.get_verbosity()
    native.logging.set_verbosity(native.logging.WARNING)
    yield
    native.logging.set_verbosity(before)


LONG = ("sklearn conditional", "torch by run")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in LONG else [])
        for name in optuna_examples.EXAMPLES
    ],
)
def test_an_example_of_optuna_has_the_same_values_for_the_same_seed(name: str, tmp_path: Path) -> None:
    """One after the other on one slot, as natively; without a pruner, whose decisions are ours."""
    example = optuna_examples.EXAMPLES[name]
    options: dict[str, Any] = {"direction": example.direction, "pruner": native.pruners.NopPruner()}
    theirs = native.create_study(sampler=example.sampler(), **options)
    theirs.optimize(example.objective, n_trials=example.trials)
    ours = optuna.create_study(sampler=example.sampler(), **options)
    ours.__class__ = type("VirtualStudy", (Study,), {"tune": staticmethod(carry_out(tmp_path))})
    ours.optimize(example.objective, n_trials=example.trials, n_jobs=1, folder=tmp_path)
    assert ours.best_value == theirs.best_value
    values = [[trial.value or 0.0 for trial in study.trials] for study in (theirs, ours)]
    if name == "grid":  # Optuna visits it in another order
        values = [sorted(each) for each in values]
    assert values[0] == values[1]


@pytest.mark.parametrize("name", ray_examples.EXAMPLES)
def test_an_example_of_ray_tune_trains_what_ray_tune_would_draw(name: str, tmp_path: Path) -> None:
    """Without a cluster; `test_real_runs` compares with Ray Tune itself."""
    example = ray_examples.EXAMPLES[name]
    np.random.seed(example.seed)  # noqa: NPY002  Ray Tune's own
    grid = example.tuner(carry_out(tmp_path)).fit(folder=tmp_path)
    assert grid.num_errors == 0
    assert len(grid) == example.trials
    assert example.is_good(grid.get_best_result().metrics[example.metric])
