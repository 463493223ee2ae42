"""Hugging Face Trainer: an iteration is one epoch, or some steps, and an evaluation after it.

Each iteration is a call of `train`; all share one optimizer and one schedule. The Trainer forms its process
groups itself, so a trial has one slot.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from elastune.adapters.adapted_trainable import (
    Adapter,
    Make,
    adapt,
    checked_count,
    is_visiting,
    options_of,
    piece,
    renew,
    require,
    visited_pieces,
)
from elastune.errors import JobError
from elastune.training.trainable import State, Trainable
from elastune.training.worker import Worker

_NO_METRICS = ("_runtime", "_per_second", "_time", "epoch", "total_flos")


def transformers_trainable(make: Make, *, steps: int | None = None) -> type[Trainable]:
    """A trainable from `make(config)`, which returns a `transformers.Trainer`.

    An iteration is an epoch, or this many `steps` of the optimizer. The Trainer's own `num_train_epochs` or
    `max_steps` are the length of the learning rate's schedule; after it a trial is finished. Metrics are
    `train_loss` and, where there is an `eval_dataset`, those of `evaluate`, such as `eval_loss`. With
    `execution: hopper`, `make` returns the Trainer, with `max_steps` for the length of the schedule, and a
    function from a partition to its dataset.
    """
    require("transformers", extra="transformers")
    return adapt(TrainerTraining, make, steps=None if steps is None else checked_count(steps, "steps"))


class TrainerTraining(Adapter):
    """One Trainer, called once per iteration."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        import transformers  # noqa: PLC0415

        self.worker = worker
        made = self.make(config)
        if is_visiting(worker):
            made = _on_partition(made, worker.data)
        self.trainer = trainer = made
        expected = "a transformers.Trainer, with its model, arguments and datasets"
        piece(trainer, isinstance(trainer, transformers.Trainer), expected=expected)
        # Each iteration reads from the start: without shuffling it would always get the same samples.
        data = trainer.train_dataset
        piece(data, hasattr(data, "__len__"), expected="a Trainer whose train_dataset has a length")
        for each in (transformers.ProgressCallback, transformers.PrinterCallback):
            trainer.remove_callback(each)
        args = trainer.args
        args.eval_strategy, args.save_strategy, args.logging_strategy = "no", "no", "no"
        epoch = math.ceil(len(trainer.get_train_dataloader()) / args.gradient_accumulation_steps)
        self.total = args.max_steps if args.max_steps > 0 else math.ceil(args.num_train_epochs * epoch)
        self.each = self.options["steps"] or epoch
        self.done = 0
        trainer.create_optimizer_and_scheduler(num_training_steps=self.total)
        trainer._created_lr_scheduler = False  # noqa: SLF001  else each `train` would restart the schedule
        self.began = options_of([trainer.optimizer])

    def step(self) -> Mapping[str, float] | None:
        steps = min(self.each, self.total - self.done)
        if steps < 1:
            return None
        trainer = self.trainer
        trainer.args.max_steps = steps
        # Each call is the first epoch of a training: with the same seed it would have the same order.
        place = 1000 * (self.worker.partition or 0)
        trainer.args.data_seed = trainer.args.seed = self.worker.seed + self.worker.iteration + place
        row = dict(trainer.train().metrics)
        self.done += steps
        if trainer.eval_dataset is not None:
            row |= trainer.evaluate()
        return {name: value for name, value in row.items() if not name.endswith(_NO_METRICS)}

    def evaluate(self) -> Mapping[str, float]:
        """On the validation partition that `setup` got."""
        row = self.trainer.evaluate(self.trainer.train_dataset)
        return {name: value for name, value in row.items() if not name.endswith(_NO_METRICS)}

    def save(self) -> State:
        return {
            "model": self.trainer.model.state_dict(),
            "optimizer": self.trainer.optimizer.state_dict(),
            "schedule": self.trainer.lr_scheduler.state_dict(),
            "steps": self.done,
            "began": self.began,
        }

    def load(self, state: State) -> None:
        renew([state["optimizer"]], [state["schedule"]], state["began"], self.began)
        self.trainer.model.load_state_dict(state["model"])
        self.trainer.optimizer.load_state_dict(state["optimizer"])
        self.trainer.lr_scheduler.load_state_dict(state["schedule"])
        self.done = state["steps"]


def _on_partition(made: Any, data: Any) -> Any:
    trainer, prepare = visited_pieces(made)
    if prepare is None:
        raise JobError(
            "make(config) gave no function; expected trainer, dataset: a transformers.Trainer, and a "
            "function from the data of a partition to its dataset"
        )
    if trainer.args.max_steps <= 0:
        raise JobError(
            "the Trainer has no max_steps; expected one where models hop, for the length of the learning "
            "rate's schedule: a visit has only one partition"
        )
    trainer.train_dataset, trainer.eval_dataset = prepare(data), None
    return trainer
