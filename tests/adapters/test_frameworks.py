"""What Lightning, Keras and the Trainer of Hugging Face do beyond the contract."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import pytest

from elastune.adapters.adapted_trainable import require
from elastune.checkpoints.encoding import decode
from elastune.errors import JobError
from tests.adapters.contract import CASES, Case, marks_of, train

pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec.* is deprecated"),
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
]
T = TypeVar("T", bound=Callable[..., None])
BY_NAME: Mapping[str, Case] = {case.name: case for case in CASES}


def module_of(name: str) -> Any:
    """The example as a module, for what it has besides its trainable."""
    return sys.modules[BY_NAME[name].user().make.__module__]


def only_with(name: str) -> Callable[[T], T]:
    def mark(test: T) -> T:
        for each in marks_of(name):
            test = each(test)
        return test

    return mark


def test_a_library_that_is_missing_is_told() -> None:
    with pytest.raises(JobError, match=r"needs nosuchlibrary, which .*: pip install 'elastune\[nosuch\]'"):
        require("nosuchlibrary", extra="nosuch")


def test_importing_the_adapters_imports_no_framework() -> None:
    heavy = "torch", "keras", "lightning", "pytorch_lightning", "transformers", "xgboost", "sklearn"
    code = (
        "import sys, elastune.adapters.keras, elastune.adapters.lightning, elastune.adapters.sklearn\n"
        "import elastune.adapters.transformers, elastune.adapters.xgboost\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@only_with("lightning")
def test_lightning_ends_when_its_trainer_would() -> None:
    from lightning.pytorch.callbacks import EarlyStopping  # noqa: PLC0415

    from elastune.adapters.lightning import lightning_trainable  # noqa: PLC0415

    make, config = module_of("lightning").make, BY_NAME["lightning"].config
    rows, state = train(lightning_trainable(make, max_epochs=2), config, 1, 4)
    assert len(rows) == 2
    assert train(lightning_trainable(make, max_epochs=2), config, 3, 4, state)[0] == []
    assert train(lightning_trainable(make, max_epochs=3), config, 3, 4, state)[0][0]["accuracy"] > 0.5
    stopping = EarlyStopping("accuracy", patience=1, mode="min")
    user = lightning_trainable(make, callbacks=[stopping])
    first, state = train(user, config, 1, 9)
    assert 1 < len(first) < 9
    assert train(user, config, 1, 9)[0] == first  # the callback of one trial has seen nothing of the other
    assert train(user, config, len(first) + 1, 9, state)[0] == []


@only_with("lightning")
def test_lightning_takes_the_learning_rate_of_the_config() -> None:
    user, config = BY_NAME["lightning"].user(), BY_NAME["lightning"].config
    _, state = train(user, config, 1, 1)
    _, after = train(user, {**config, "lr": 0.001}, 2, 2, state)
    saved = decode(after)["lightning"]
    assert saved["optimizer_states"][0]["param_groups"][0]["lr"] == pytest.approx(0.001)
    assert saved["lr_schedulers"][0]["base_lrs"] == pytest.approx([0.001])
    assert saved["epoch"] == 2


@only_with("lightning")
def test_lightning_takes_a_data_module_and_the_package_of_the_other_name() -> None:
    import pytorch_lightning  # noqa: PLC0415
    import torch  # noqa: PLC0415
    from torch.utils.data import DataLoader, TensorDataset  # noqa: PLC0415

    from elastune.adapters.lightning import lightning_trainable  # noqa: PLC0415

    class Line(pytorch_lightning.LightningModule):  # type: ignore[misc]
        def __init__(self, lr: float) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(1, 1)

        def training_step(self, batch: Any, _: int) -> Any:
            loss = ((self.layer(batch[0]) - 3.0) ** 2).mean()
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=self.hparams.lr)

    class Data(pytorch_lightning.LightningDataModule):  # type: ignore[misc]
        def train_dataloader(self) -> Any:
            return DataLoader(TensorDataset(torch.ones(16, 1)), batch_size=4)

    user = lightning_trainable(lambda config: (Line(config["lr"]), Data()), log_every_n_steps=1)
    rows, end = train(user, {"lr": 0.1}, 1, 3)
    assert rows[-1]["loss"] < rows[0]["loss"]
    assert train(user, {"lr": 0.1}, 3, 3, train(user, {"lr": 0.1}, 1, 2)[1])[1] == end


@only_with("lightning")
def test_lightning_says_what_make_should_return() -> None:
    from elastune.adapters.lightning import lightning_trainable  # noqa: PLC0415

    with pytest.raises(JobError, match="gave a int; expected module, train"):
        train(lightning_trainable(lambda config: (3, 4)), {}, 1, 1)


@only_with("keras")
def test_keras_takes_the_learning_rate_of_the_config() -> None:
    user, config = BY_NAME["keras"].user(), BY_NAME["keras"].config
    rows, state = train(user, config, 1, 2)
    still, _ = train(user, {**config, "lr": 0.0}, 3, 3, state)
    assert still[0]["val_loss"] == pytest.approx(rows[-1]["val_loss"], rel=1e-5)


@only_with("keras")
def test_keras_says_what_a_model_needs() -> None:
    case = BY_NAME["keras"]
    train(case.user(), case.config, 1, 1)  # chooses the backend
    import keras  # noqa: PLC0415

    from elastune.adapters.keras import keras_trainable  # noqa: PLC0415

    raw = keras.Sequential([keras.layers.Dense(1)])
    with pytest.raises(JobError, match="gave a Sequential; expected a model that was compiled"):
        train(keras_trainable(lambda config: (raw, ([[1.0]], [1.0]))), {}, 1, 1)


@only_with("keras")
def test_keras_cannot_load_into_a_model_without_shapes() -> None:
    from elastune.adapters.keras import keras_trainable  # noqa: PLC0415

    def make(config: Mapping[str, Any]) -> Any:
        import keras  # noqa: PLC0415

        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        return model, (np.ones((8, 2)), np.ones((8, 1)))

    user = keras_trainable(make, backend="torch")
    _, state = train(user, {}, 1, 1)
    with pytest.raises(JobError, match=r"not built, .*expected one that begins with keras\.Input"):
        train(user, {}, 2, 2, state)


@only_with("transformers")
def test_the_trainer_takes_the_learning_rate_of_the_config() -> None:
    user, config = BY_NAME["transformers"].user(), BY_NAME["transformers"].config
    _, state = train(user, config, 1, 2)
    _, after = train(user, {**config, "lr": config["lr"] / 10}, 3, 3, state)
    _, same = train(user, config, 3, 3, state)
    lr, expected = (decode(each)["optimizer"]["param_groups"][0]["lr"] for each in (after, same))
    assert lr == pytest.approx(expected / 10)


@only_with("transformers")
def test_the_trainer_ends_with_its_schedule() -> None:
    from elastune.adapters.transformers import transformers_trainable  # noqa: PLC0415

    def make(config: Mapping[str, Any]) -> Any:
        trainer = module_of("transformers").make(config)
        trainer.args.max_steps = 50
        return trainer

    rows, state = train(transformers_trainable(make, steps=20), BY_NAME["transformers"].config, 1, 9)
    assert len(rows) == 3
    assert decode(state)["steps"] == 50

    def endless(config: Mapping[str, Any]) -> Any:
        trainer = module_of("transformers").make(config)
        trainer.train_dataset = iter([])
        return trainer

    with pytest.raises(JobError, match="gave a list_iterator; expected a Trainer whose train_dataset has"):
        train(transformers_trainable(endless), BY_NAME["transformers"].config, 1, 1)
    with pytest.raises(JobError, match=r"gave a str; expected a transformers\.Trainer"):
        train(transformers_trainable(lambda config: tempfile.gettempdir()), {}, 1, 1)
