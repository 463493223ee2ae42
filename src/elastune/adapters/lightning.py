"""PyTorch Lightning: an iteration is one epoch of its Trainer.

The Trainer stops after every epoch and continues from its own checkpoint, a dict that stays in memory. So a
pause needs nothing special, and Lightning itself restores models, optimizers, schedules, loops and callbacks.
It forms its process groups itself, so a trial has one slot. Where models hop, a visit is an epoch of the
Trainer, on the loader of one partition.
"""

from __future__ import annotations

import copy
import importlib
import logging
from collections.abc import Mapping
from typing import Any

from elastune.adapters import adapted_trainable
from elastune.adapters.adapted_trainable import (
    Adapter,
    Make,
    adapt,
    is_visiting,
    options_of,
    piece,
    pieces,
    plain,
    require,
    visited_pieces,
)
from elastune.errors import JobError
from elastune.training.trainable import State, Trainable
from elastune.training.worker import Worker

_EXPECTED = "module, train[, val]: a LightningModule, then data loaders, or one LightningDataModule"
_VISITING = "module, loader: a LightningModule, and a function from a partition's data to a data loader"
_MEMORY = "memory"
_QUIET = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
_CONFIGURED = ("hparams_name", "hyper_parameters", "datamodule_hparams_name", "datamodule_hyper_parameters")


def lightning_trainable(make: Make, **trainer: Any) -> type[Trainable]:
    """A trainable from `make(config)`, which returns `module, train` or `module, train, val`.

    `train` and `val` are data loaders; or `train` is a LightningDataModule. Metrics are what the module logs.
    `trainer` are options of the Trainer: `limit_train_batches=100` makes an epoch, and so an iteration,
    100 batches long; with `max_epochs` a trial is finished after that many. With `execution: hopper`, `make`
    returns the module, and a function from a partition to its data loader.
    """
    require("pytorch_lightning", extra="lightning")
    return adapt(LightningTraining, make, trainer=trainer)


class LightningTraining(Adapter):
    """One LightningModule and its Trainer."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        made = self.make(config)
        if is_visiting(worker):
            self.module, prepare = visited_pieces(made)
            if prepare is None:
                raise JobError(f"make(config) gave no function; expected {_VISITING}")
            self.train, self.val = prepare(worker.data), None
        else:
            self.module, self.train, self.val = pieces(made, least=2, most=3, expected=_EXPECTED)
        lightning = _library_of(self.module)
        logging.getLogger(lightning.__name__).setLevel(logging.WARNING)
        # Callbacks have state: each trial has its own.
        given = {**dict.fromkeys(_QUIET, False), "max_epochs": -1, **copy.deepcopy(self.options["trainer"])}
        self.hook, self.box = _connect(lightning)
        self.last = given["max_epochs"]
        self.finished = False
        self.trainer = lightning.Trainer(
            accelerator="cpu" if worker.device == "cpu" else "gpu",
            devices=1,
            num_sanity_val_steps=0,
            callbacks=[*given.pop("callbacks", []), self.hook],
            plugins=[*given.pop("plugins", []), self.box],
            **given,
        )

    def step(self) -> Mapping[str, Any] | None:
        before = self.box.checkpoint.get("global_step", 0)
        if not self.finished:
            # Schedules may ask how many epochs there are in all.
            self.trainer.fit_loop.max_epochs = self.last
            path = _MEMORY if self.box.checkpoint else None
            self.trainer.fit(self.module, self.train, self.val, ckpt_path=path)
            self.finished = self.trainer.should_stop
            self.trainer.save_checkpoint(_MEMORY)
        if self.trainer.interrupted:
            raise KeyboardInterrupt
        return dict(self.trainer.callback_metrics) if self.trainer.global_step > before else None

    def evaluate(self) -> Mapping[str, Any]:
        """What `validation_step` logs on the validation partition that `setup` got."""
        if self.box.checkpoint:
            self.module.load_state_dict(self.box.checkpoint["state_dict"])
        rows = self.trainer.validate(self.module, self.train, verbose=False)
        return {name: value for row in rows for name, value in row.items()}

    def save(self) -> State:
        if not self.box.checkpoint:
            raise JobError("a Lightning training can be saved after its first epoch, not before")
        kept = {name: value for name, value in self.box.checkpoint.items() if name not in _CONFIGURED}
        return {"lightning": plain(kept), "began": self.hook.began, "finished": self.finished}

    def load(self, state: State) -> None:
        self.box.checkpoint = state["lightning"]
        self.finished = state["finished"]
        self.hook.saved, self.hook.began = state["lightning"], state["began"]


def _library_of(module: Any) -> Any:
    """`lightning.pytorch` and `pytorch_lightning` are the same library twice; they do not mix."""
    for name in ("pytorch_lightning", "lightning.pytorch"):
        if any(each.__module__.startswith(f"{name}.") for each in type(module).__mro__):
            return importlib.import_module(name)
    piece(module, False, expected=_EXPECTED)
    return None


def _connect(lightning: Any) -> tuple[Any, Any]:
    """The callback that stops the Trainer after an epoch, and the plugin that holds its checkpoint."""

    class OneEpoch(lightning.Callback):  # type: ignore[misc]
        """`began`: the optimizers' options as configured; `saved`: a state that is not loaded yet."""

        def __init__(self) -> None:
            self.began: list[adapted_trainable.Options] = []
            self.saved: Any = None

        def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
            """The optimizers are new, and nothing is loaded yet."""
            present = options_of(trainer.optimizers)
            if self.saved is not None:
                states, schedules = self.saved["optimizer_states"], self.saved["lr_schedulers"]
                adapted_trainable.renew(states, schedules, self.began, present)
            self.saved, self.began = None, present

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            """Not by `should_stop`, by which another callback ends the training."""
            trainer.fit_loop.max_epochs = trainer.current_epoch + 1

    class Box(lightning.plugins.CheckpointIO):  # type: ignore[misc]
        def __init__(self) -> None:
            self.checkpoint: dict[str, Any] = {}

        def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
            self.checkpoint = checkpoint

        def load_checkpoint(self, path: Any, *_: Any, **__: Any) -> dict[str, Any]:
            return self.checkpoint

        def remove_checkpoint(self, path: Any) -> None:
            self.checkpoint = {}

    return OneEpoch(), Box()
