"""Trainables as Ray Tune's documentation and examples write them, on small data of their own.

They call `ray.tune` itself, as users' scripts do. Each is run natively and through the adapter; see
`test_published_examples` and `test_real_runs`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from ray import tune
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split

from elastune.adapters import ray_tune


@dataclass(frozen=True, slots=True, kw_only=True)
class RayExample:
    trainable: Any
    space: Mapping[str, Any]
    metric: str
    mode: str = "max"
    samples: int = 1
    seed: int = 1
    trials: int
    stop: Mapping[str, float] = field(default_factory=dict)
    is_good: Callable[[float], bool] = lambda value: value > 0.8

    @property
    def options(self) -> dict[str, Any]:
        """Of a `Tuner`, native or ours."""
        return {
            "param_space": dict(self.space),
            "tune_config": tune.TuneConfig(metric=self.metric, mode=self.mode, num_samples=self.samples),
            "run_config": tune.RunConfig(stop=dict(self.stop) or None, verbose=0),
        }

    def tuner(self, carry_out: Callable[..., Any]) -> Any:
        kind = type("VirtualTuner", (ray_tune.Tuner,), {"tune": staticmethod(carry_out)})
        return kind(self.trainable, **self.options)


def easy_objective(config: Mapping[str, Any]) -> None:
    """The first example: a loop that reports a made-up loss."""
    for step in range(10):
        loss = 1 / (0.1 + config["width"] * step / 100) + config["height"] * 0.1
        tune.report({"iterations": step, "mean_loss": loss})


def torch_with_checkpoints(config: Mapping[str, Any]) -> None:
    """A network that is saved in a folder after every epoch and begins from it."""
    import torch  # noqa: PLC0415  slow

    torch.manual_seed(0)
    x, y = (torch.tensor(each) for each in load_iris(return_X_y=True))
    model = torch.nn.Sequential(
        torch.nn.Linear(4, config["l1"]), torch.nn.ReLU(), torch.nn.Linear(config["l1"], 3)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    first = 0
    checkpoint = tune.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            state = torch.load(Path(folder, "checkpoint.pt"), weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"] + 1
    for epoch in range(first, 6):
        for part in torch.randperm(len(x)).split(config["batch_size"]):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[part].float()), y[part]).backward()
            optimizer.step()
        with torch.no_grad():
            accuracy = (model(x.float()).argmax(dim=1) == y).float().mean().item()
        with tempfile.TemporaryDirectory() as folder:
            torch.save(
                {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()},
                Path(folder, "checkpoint.pt"),
            )
            tune.report({"accuracy": accuracy}, checkpoint=tune.Checkpoint.from_directory(folder))


class Perceptron(tune.Trainable):  # type: ignore[misc]
    """The class form: scikit-learn's perceptron, saved as a dict of arrays."""

    def setup(self, config: Mapping[str, Any]) -> None:
        x, y = load_digits(return_X_y=True)
        self.train_data, self.test_data = (x[:1200], y[:1200]), (x[1200:], y[1200:])
        self.model = SGDClassifier(
            loss="perceptron", alpha=config["alpha"], penalty=config["penalty"], random_state=0
        )

    def step(self) -> dict[str, float]:
        self.model.partial_fit(*self.train_data, classes=range(10))
        return {"mean_accuracy": self.model.score(*self.test_data)}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"coef": self.model.coef_, "intercept": self.model.intercept_, "t": self.model.t_}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.model.partial_fit(*self.train_data, classes=range(10))
        self.model.coef_, self.model.intercept_ = checkpoint["coef"], checkpoint["intercept"]
        self.model.t_ = checkpoint["t"]


def boosted_trees(config: Mapping[str, Any]) -> None:
    """XGBoost with a callback that reports every round."""
    import xgboost  # noqa: PLC0415

    class Reporting(xgboost.callback.TrainingCallback):  # type: ignore[misc]
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            tune.report({"error": evals_log["eval"]["error"][-1]})
            return False

    x, y = load_breast_cancer(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(x, y, test_size=0.25, random_state=0)
    xgboost.train(
        {"objective": "binary:logistic", "eval_metric": "error", "nthread": 1, "seed": 0, **config},
        xgboost.DMatrix(train_x, label=train_y),
        num_boost_round=5,
        evals=[(xgboost.DMatrix(test_x, label=test_y), "eval")],
        verbose_eval=False,
        callbacks=[Reporting()],
    )


def returns_its_score(config: Mapping[str, Any]) -> dict[str, float]:
    """A black box: nested hyperparameters, lists among them, one score at the end."""
    x, y = load_iris(return_X_y=True)
    chosen = x[:, config["data"]["features"]]
    model = SGDClassifier(alpha=config["model"]["alpha"], random_state=0).fit(chosen[::2], y[::2])
    return {"score": model.score(chosen[1::2], y[1::2])}


def depends(config: Mapping[str, Any]) -> None:
    """One hyperparameter is computed from others."""
    tune.report({"score": config["beta"] - abs(config["alpha"] - 0.5), "alpha": config["alpha"]})


EXAMPLES = {
    "easy objective": RayExample(
        trainable=easy_objective,
        space={
            "width": tune.uniform(0, 20),
            "height": tune.uniform(-100, 100),
            "activation": tune.grid_search(["relu", "tanh"]),
        },
        metric="mean_loss",
        mode="min",
        samples=3,
        trials=6,
        is_good=lambda value: value < 0,
    ),
    "torch with checkpoints": RayExample(
        trainable=torch_with_checkpoints,
        space={
            "l1": tune.choice([4, 16, 32]),
            "lr": tune.loguniform(1e-3, 1e-1),
            "batch_size": tune.choice([8, 16]),
        },
        metric="accuracy",
        samples=4,
        trials=4,
        seed=4,
    ),
    "class": RayExample(
        trainable=Perceptron,
        space={"alpha": tune.loguniform(1e-5, 1e-2), "penalty": tune.grid_search(["l2", "l1"])},
        metric="mean_accuracy",
        samples=2,
        trials=4,
        stop={"training_iteration": 3},
    ),
    "boosted trees": RayExample(
        trainable=boosted_trees,
        space={
            "max_depth": tune.randint(1, 9),
            "subsample": tune.uniform(0.5, 1.0),
            "eta": tune.loguniform(1e-4, 1e-1),
        },
        metric="error",
        mode="min",
        samples=4,
        trials=4,
        is_good=lambda value: value < 0.2,
    ),
    "returns its score": RayExample(
        trainable=returns_its_score,
        space={
            "model": {"alpha": tune.loguniform(1e-5, 1e-1)},
            "data": {"features": tune.grid_search([[0, 1], [2, 3], [0, 1, 2, 3]])},
        },
        metric="score",
        samples=1,
        trials=3,
        is_good=lambda value: value > 0.7,
    ),
    "depends": RayExample(
        trainable=depends,
        space={
            "alpha": tune.uniform(0, 1),
            "beta": tune.sample_from(lambda spec: spec.config.alpha * np.random.normal(2, 0.1)),  # noqa: NPY002
        },
        metric="score",
        samples=5,
        trials=5,
        is_good=lambda value: value > 0,
    ),
}
