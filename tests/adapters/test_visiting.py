"""Models of other frameworks that hop: every visit has a new object, whose state came as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from elastune.adapters.cerebro import from_functions
from elastune.checkpoints.encoding import decode, encode
from elastune.errors import JobError
from elastune.training.recipe import open_recipe
from elastune.training.visits import Conditions, Shown, make_visit

ROWS = (40, 64, 24)
SLOPE = np.array([1.0, -2.0, 0.5], np.float32)


def partition(number: int) -> dict[str, Any]:
    x = np.random.default_rng(number).normal(size=(ROWS[number], 3)).astype(np.float32)
    x.flags.writeable = False
    y = (x @ SLOPE > 0).astype(np.int64)
    y.flags.writeable = False
    return {"x": x, "y": y}


class Tour:
    """Visits of one model, in order."""

    def __init__(self, user: Any, config: Mapping[str, Any]) -> None:
        self._recipe = open_recipe(user, name="mine")
        self._config = config
        self.state: Any = None

    def go(self, number: int, *, epoch: int = 1, evaluates: bool = False) -> dict[str, float]:
        shown = Shown(
            data=partition(number), partition=number, rows=ROWS[number], iteration=epoch, evaluates=evaluates
        )
        state = None if self.state is None else decode(self.state)
        outcome = make_visit(
            self._recipe, self._config, state, shown, Conditions(seed=5), lambda t: encode(t.save())
        )
        assert outcome is not None
        self.state = outcome.kept
        return dict(outcome.metrics)

    def epochs(self, count: int) -> None:
        for epoch in range(1, count + 1):
            for number in (0, 2, 1):
                self.go(number, epoch=epoch)


def estimator(config: Mapping[str, Any]) -> Any:
    linear_model = pytest.importorskip("sklearn.linear_model")
    return linear_model.SGDClassifier(alpha=config["alpha"], random_state=0, shuffle=False)


def fit(data: Any, model: Any, optimizer: Any, config: Mapping[str, Any]) -> dict[str, float]:
    model.partial_fit(data["x"], data["y"], classes=[0, 1])
    return {"accuracy": model.score(data["x"], data["y"])}


def score(data: Any, model: Any, config: Mapping[str, Any]) -> dict[str, float]:
    return {"accuracy": model.score(data["x"], data["y"])}


def test_an_estimator_learns_as_if_it_had_stayed() -> None:
    tour = Tour(from_functions(estimator, fit, evaluate_fn=score), {"alpha": 0.001})
    tour.epochs(2)
    plain = estimator({"alpha": 0.001})
    for _ in range(2):
        for number in (0, 2, 1):
            fit(partition(number), plain, None, {})
    kept = decode(tour.state)["parts"][0]["estimator"]
    np.testing.assert_array_equal(kept["coef_"], plain.coef_)
    assert tour.go(1, epoch=2, evaluates=True)["accuracy"] == plain.score(*partition(1).values())


def test_a_network_of_scikit_learn_keeps_the_memory_of_its_optimizer() -> None:
    networks = pytest.importorskip("sklearn.neural_network")

    def network(config: Mapping[str, Any]) -> Any:
        return networks.MLPClassifier((8,), random_state=0, shuffle=False, batch_size=8)

    tour, plain = Tour(from_functions(network, fit), {}), network({})
    tour.epochs(2)
    for _ in range(2):
        for number in (0, 2, 1):
            fit(partition(number), plain, None, {})
    kept = decode(tour.state)["parts"][0]["estimator"]
    np.testing.assert_array_equal(kept["coefs_"][0], plain.coefs_[0])


def test_a_model_that_cannot_be_frozen_needs_a_function_to_evaluate_it() -> None:
    tour = Tour(from_functions(estimator, fit), {"alpha": 0.001})
    tour.go(0)
    with pytest.raises(JobError, match=r"SGDClassifier, which train_fn would train .*an evaluate_fn"):
        tour.go(1, evaluates=True)


class Weights:
    """Keras-like: nothing but weights."""

    def __init__(self) -> None:
        self.values = [np.zeros(3)]

    def get_weights(self) -> list[Any]:
        return self.values

    def set_weights(self, values: list[Any]) -> None:
        self.values = values


def test_whatever_has_weights_hops() -> None:
    def train(data: Any, model: Any, optimizer: Any, config: Mapping[str, Any]) -> dict[str, float]:
        model.values[0] += data["x"].sum(axis=0)
        return {"sum": float(model.values[0].sum())}

    tour = Tour(from_functions(lambda _: Weights(), train), {})
    tour.epochs(1)
    whole = sum(partition(number)["x"].sum(axis=0).astype(float) for number in range(3))
    np.testing.assert_allclose(decode(tour.state)["parts"][0]["weights"][0], whole, rtol=1e-6)


def test_what_has_no_state_is_refused_with_what_would_do() -> None:
    tour = Tour(from_functions(lambda _: object(), fit), {})
    with pytest.raises(JobError, match=r"returned object; expected model.* partial_fit \(scikit-learn\)"):
        tour.go(0)


def keras_model(config: Mapping[str, Any]) -> Any:
    import keras  # noqa: PLC0415

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, activation="sigmoid")])
    model.compile(keras.optimizers.Adam(config["lr"]), "binary_crossentropy", metrics=["accuracy"])
    return model


@pytest.fixture
def keras(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    return pytest.importorskip("keras")


@pytest.mark.filterwarnings("ignore")
def test_a_keras_model_hops(keras: Any) -> None:
    from elastune.adapters.keras import keras_trainable  # noqa: PLC0415

    tour = Tour(keras_trainable(keras_model, batch_size=8), {"lr": 0.05})
    first = tour.go(0)
    tour.epochs(3)
    row = tour.go(1, epoch=3, evaluates=True)
    assert row["val_loss"] < first["loss"]
    assert row["val_accuracy"] > 0.8
    assert int(decode(tour.state)["optimizer"][0]) == (5 + 3 * (5 + 3 + 8)), "steps of the optimizer go on"


@pytest.mark.filterwarnings("ignore")
def test_a_keras_model_hops_by_cerebros_functions(keras: Any) -> None:
    def train(data: Any, model: Any, optimizer: Any, config: Mapping[str, Any]) -> dict[str, float]:
        history = model.fit(data["x"].copy(), data["y"].copy(), batch_size=8, verbose=0)
        return {"loss": history.history["loss"][0]}

    tour = Tour(from_functions(keras_model, train), {"lr": 0.05})
    first = tour.go(0)
    tour.epochs(3)
    assert tour.go(0, epoch=4)["loss"] < first["loss"]


@pytest.mark.filterwarnings("ignore")
def test_columns_of_other_names_need_a_function(keras: Any) -> None:
    from elastune.adapters.adapted_trainable import pair_of  # noqa: PLC0415

    with pytest.raises(JobError, match="a partition has the columns a, b; expected x and y"):
        pair_of({"a": 1, "b": 2})


@pytest.mark.filterwarnings("ignore")
def test_a_lightning_module_hops() -> None:
    lightning, torch = pytest.importorskip("pytorch_lightning"), pytest.importorskip("torch")
    from elastune.adapters.lightning import lightning_trainable  # noqa: PLC0415

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self, lr: float) -> None:
            super().__init__()
            self.lr, self.layer = lr, torch.nn.Linear(3, 2)

        def training_step(self, batch: Any, _: int) -> Any:
            loss = torch.nn.functional.cross_entropy(self.layer(batch[0]), batch[1])
            self.log("loss", loss, on_epoch=True)
            return loss

        def validation_step(self, batch: Any, _: int) -> None:
            right = (self.layer(batch[0]).argmax(1) == batch[1]).float().mean()
            self.log("accuracy", right)

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=self.lr)

    def loader(data: Any) -> Any:
        rows = torch.utils.data.TensorDataset(torch.tensor(data["x"]), torch.tensor(data["y"]))
        return torch.utils.data.DataLoader(rows, batch_size=8)

    tour = Tour(lightning_trainable(lambda config: (Module(config["lr"]), loader)), {"lr": 0.05})
    first = tour.go(0)
    tour.epochs(3)
    assert tour.go(0, epoch=4)["loss"] < first["loss"]
    assert tour.go(1, epoch=4, evaluates=True)["accuracy"] > 0.8
    assert decode(tour.state)["lightning"]["global_step"] == 5 + 3 * (5 + 3 + 8) + 5


@pytest.mark.filterwarnings("ignore")
def test_a_trainer_of_transformers_hops(tmp_path: Any) -> None:
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    pytest.importorskip("accelerate")
    from elastune.adapters.transformers import transformers_trainable  # noqa: PLC0415

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 2)

        def forward(self, x: Any, labels: Any) -> dict[str, Any]:
            scores = self.layer(x)
            return {"loss": torch.nn.functional.cross_entropy(scores, labels), "logits": scores}

    def dataset(data: Any) -> Any:
        pairs = zip(torch.tensor(data["x"]), torch.tensor(data["y"]), strict=True)
        return [{"x": x, "labels": y} for x, y in pairs]

    def make(config: Mapping[str, Any], max_steps: int = 1000) -> Any:
        arguments = transformers.TrainingArguments(
            str(tmp_path), learning_rate=config["lr"], max_steps=max_steps, report_to=[], use_cpu=True
        )
        return transformers.Trainer(Model(), arguments), dataset

    tour = Tour(transformers_trainable(make), {"lr": 0.05})
    first = tour.go(0)
    tour.epochs(2)
    assert tour.go(0, epoch=3)["train_loss"] < first["train_loss"]
    assert tour.go(1, epoch=3, evaluates=True)["eval_loss"] < first["train_loss"]
    with pytest.raises(JobError, match="has no max_steps"):
        Tour(transformers_trainable(lambda config: make(config, -1)), {"lr": 0.05}).go(0)
