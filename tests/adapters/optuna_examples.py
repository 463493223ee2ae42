"""Objectives as Optuna's documentation and examples write them, on small data of their own.

Each is run natively and through the adapter with the same sampler; see `test_published_examples`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import optuna
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.svm import SVC


@dataclass(frozen=True, slots=True, kw_only=True)
class OptunaExample:
    objective: Callable[[Any], float]
    direction: str
    sampler: Callable[[], optuna.samplers.BaseSampler]
    trials: int


def quadratic(trial: Any) -> float:
    """The first example of the tutorial."""
    x = trial.suggest_float("x", -10, 10)
    return float((x - 2) ** 2)


@cache
def iris() -> tuple[Any, Any]:
    found: tuple[Any, Any] = load_iris(return_X_y=True)
    return found


def sklearn_conditional(trial: Any) -> float:
    """Two kinds of model, each with hyperparameters of its own."""
    x, y = iris()
    name = trial.suggest_categorical("classifier", ["SVC", "RandomForest"])
    if name == "SVC":
        model = SVC(C=trial.suggest_float("svc_c", 1e-5, 1e5, log=True), gamma="auto")
    else:
        depth = trial.suggest_int("rf_max_depth", 2, 32, log=True)
        model = RandomForestClassifier(max_depth=depth, n_estimators=5, random_state=0)
    return float(cross_val_score(model, x, y, cv=3).mean())


def sklearn_pruning(trial: Any) -> float:
    """A linear model that reports its error after every pass, and returns its last."""
    x, y = iris()
    train_x, valid_x, train_y, valid_y = train_test_split(x, y, test_size=0.25, random_state=0)
    alpha = trial.suggest_float("alpha", 1e-5, 1e-1, log=True)
    model = SGDClassifier(alpha=alpha, random_state=0)
    for step in range(10):
        model.partial_fit(train_x, train_y, classes=[0, 1, 2])
        error = 1.0 - model.score(valid_x, valid_y)
        trial.report(error, step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return float(error)


def define_layers(trial: Any) -> list[int]:
    count = trial.suggest_int("n_layers", 1, 3)
    return [trial.suggest_int(f"n_units_l{number}", 4, 32, log=True) for number in range(count)]


def torch_by_run(trial: Any) -> float:
    """A network whose layers are drawn one by one; it returns the best of its epochs, not the last."""
    import torch  # noqa: PLC0415  slow

    torch.manual_seed(0)
    x, y = (torch.tensor(each) for each in iris())
    widths = define_layers(trial)
    name = trial.suggest_categorical("optimizer", ["Adam", "SGD"])
    rate = trial.suggest_float("lr", 1e-3, 1e-1, log=True)
    sizes, layers = [4, *widths], []
    for one, other in itertools.pairwise(sizes):
        layers += [torch.nn.Linear(one, other), torch.nn.ReLU(), torch.nn.Dropout(0.1)]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-1], 3))
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=rate)
    best = 0.0
    for epoch in range(5):
        for part in torch.randperm(len(x)).split(50):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[part].float()), y[part]).backward()
            optimizer.step()
        accuracy = float((model.eval()(x.float()).argmax(dim=1) == y).float().mean())
        model.train()
        best = max(best, accuracy)
        trial.report(accuracy, epoch)
        if trial.should_prune():
            raise optuna.TrialPruned
    return best


@cache
def cancer() -> Any:
    import xgboost  # noqa: PLC0415

    x, y = load_breast_cancer(return_X_y=True)
    train_x, valid_x, train_y, valid_y = train_test_split(x, y, test_size=0.25, random_state=0)
    return xgboost.DMatrix(train_x, label=train_y), xgboost.DMatrix(valid_x, label=valid_y), valid_y


def boosted(trial: Any) -> float:
    """A dict of parameters that grows with the booster."""
    import xgboost  # noqa: PLC0415

    train, valid, truth = cancer()
    params = {
        "objective": "binary:logistic",
        "nthread": 1,
        "booster": trial.suggest_categorical("booster", ["gbtree", "gblinear"]),
        "lambda": trial.suggest_float("lambda", 1e-8, 1.0, log=True),
    }
    if params["booster"] == "gbtree":
        params["max_depth"] = trial.suggest_int("max_depth", 3, 9, step=2)
        params["eta"] = trial.suggest_float("eta", 1e-3, 1.0, log=True)
    trial.set_user_attr("parameters", len(params))
    model = xgboost.train(params, train, num_boost_round=5)
    return float(np.mean(np.rint(model.predict(valid)) == truth))


def grid(trial: Any) -> float:
    """The grid sampler's example."""
    return float(trial.suggest_float("x", -100, 100) ** 2 + trial.suggest_int("y", -100, 100) ** 2)


POINTS: dict[str, list[float]] = {"x": [-50.0, 0.0, 50.0], "y": [-99, 0, 99]}
EXAMPLES = {
    "quadratic": OptunaExample(
        objective=quadratic,
        direction="minimize",
        sampler=lambda: optuna.samplers.TPESampler(seed=10),
        trials=30,
    ),
    "sklearn conditional": OptunaExample(
        objective=sklearn_conditional,
        direction="maximize",
        sampler=lambda: optuna.samplers.TPESampler(seed=3),
        trials=13,
    ),
    "sklearn pruning": OptunaExample(
        objective=sklearn_pruning,
        direction="minimize",
        sampler=lambda: optuna.samplers.RandomSampler(seed=5),
        trials=8,
    ),
    "torch by run": OptunaExample(
        objective=torch_by_run,
        direction="maximize",
        sampler=lambda: optuna.samplers.TPESampler(seed=2),
        trials=14,
    ),
    "boosted": OptunaExample(
        objective=boosted,
        direction="maximize",
        sampler=lambda: optuna.samplers.TPESampler(seed=7),
        trials=14,
    ),
    "grid": OptunaExample(
        objective=grid,
        direction="minimize",
        sampler=lambda: optuna.samplers.GridSampler(POINTS, seed=1),
        trials=9,
    ),
}
