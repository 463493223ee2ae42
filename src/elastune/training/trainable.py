"""What a user writes: a class with two to four methods. `recipe` and `running` run it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

from elastune.training.worker import Worker

State: TypeAlias = Any
"""Nested dicts, lists and tuples of tensors, arrays and plain values; see `elastune.checkpoints.encode`."""


class Trainable(ABC):
    """One trial, as the user wrote it. Inheriting is optional: a class with these methods is enough.

    A class without `save` and `load` cannot be saved: when it continues, it trains again from the beginning.
    All methods but `save` run on every worker of a gang, in the same order. Whenever a trial starts, moves or
    grows there is a new instance on each worker: `setup`, then `load` if there is a state, then steps.
    """

    most_slots: ClassVar[int | None] = None
    """The largest gang that makes sense: 1 for what cannot be distributed, such as scikit-learn."""

    @abstractmethod
    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        """Build the model for these hyperparameters.

        `random`, numpy and torch are seeded before, equally on every worker.
        """

    @abstractmethod
    def step(self) -> Mapping[str, object] | float | None:
        """Train one iteration and return its metrics; None: nothing was left to train.

        The same work at any gang size, split by `worker.batches`. The metrics of rank 0 count.
        """

    def save(self) -> State:
        """All that `load` needs to continue from here. Called on rank 0, between two steps.

        Copies are not needed: the state becomes bytes before the next step begins.
        """
        raise NotImplementedError(f"{type(self).__name__} has no save()")

    def load(self, state: State) -> None:
        """Continue from `state`. Take hyperparameters from the config: they may have changed since."""
        raise NotImplementedError(f"{type(self).__name__} has no load(state)")
