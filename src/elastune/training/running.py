"""A trial that is being trained on one rank, whichever way the user wrote it.

Decides when the user's code runs and what may be asked of it then. What becomes of metrics and states is left
to whoever drives the training.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Protocol

from elastune.errors import InvariantError, JobError
from elastune.training.metrics import read_metrics
from elastune.training.trainable import State
from elastune.training.worker import Worker
from elastune.wording import seen

Row = Mapping[str, float]


class Training(Protocol):
    def step(self) -> Row | None:
        """Train the iteration that the worker was set to; None: there was nothing left to train."""
        ...

    def evaluate(self) -> Row:
        """The metrics of the model as it is, on the data that the worker shows."""
        ...

    def save(self) -> State:
        """The state after the last step that trained. Asked of rank 0 only."""
        ...

    def close(self) -> None:
        """The user's code is not called any more."""
        ...


class Turn:
    """What both kinds have in common: the order of iterations, and the reading of metrics."""

    def __init__(self, worker: Worker, *, name: str, metric: str | None) -> None:
        self.worker = worker
        self.name = name
        self._metric = metric
        self._last = (worker.iteration, worker.visit)
        self._finished: int | None = None

    def begin(self) -> None:
        number = self.worker.iteration
        now = (number, self.worker.visit)
        if self._finished is not None and self.worker.rank:
            raise JobError(
                f"{self.name}: rank {self.worker.rank} was finished before iteration {self._finished}, "
                "but rank 0 was not; expected all ranks to finish at the same iteration"
            )
        if self._finished is not None or now <= self._last:
            raise InvariantError(f"iteration {number} of {self.name} begins after iteration {self._last[0]}")
        self._last = now

    def finish(self) -> None:
        self._finished = self.worker.iteration

    def read(self, metrics: object) -> Row:
        # The metrics of rank 0 count; the others may leave some out. So may a visit to one partition.
        may_lack = self.worker.rank > 0 or self.worker.partition is not None
        metric = None if may_lack and isinstance(metrics, Mapping) else self._metric
        return read_metrics(metrics, metric=metric, name=self.name)

    def checked(self, state: State) -> State:
        if state is None:
            raise JobError(f"{self.name}: save gave nothing; expected the state that is needed to go on")
        return state


class ClassTraining:
    def __init__(self, instance: Any, turn: Turn) -> None:
        self._instance = instance
        self._turn = turn

    def step(self) -> Row | None:
        self._turn.begin()
        self._turn.worker.enter_iteration()
        metrics = self._instance.step()
        if metrics is None:
            self._turn.finish()
            return None
        return self._turn.read(metrics)

    def evaluate(self) -> Row:
        self._turn.worker.enter_iteration()
        return self._turn.read(self._instance.evaluate())

    def save(self) -> State:
        return self._turn.checked(self._instance.save())

    def close(self) -> None:
        """Also of the user's object, if it has something to close."""
        close = getattr(self._instance, "close", None)
        if callable(close):
            close()


class FunctionTraining:
    """Between two steps the generator waits at its `yield`, where its state can be saved."""

    def __init__(
        self, start: Callable[[], Generator[object, None, object]], state: State, turn: Turn
    ) -> None:
        self._running = start()
        self._turn = turn
        self._save: Callable[[], State] | None = None if state is None else lambda: state
        self._yielded: object = None

    def step(self) -> Row | None:
        self._turn.begin()
        if self._yielded is not None:  # the first one builds the model, from the same numbers on every rank
            self._turn.worker.enter_iteration()
        try:
            self._yielded = next(self._running)
        except StopIteration:
            self._turn.finish()
            return None
        metrics, self._save = self._taken_apart(self._yielded)
        return self._turn.read(metrics)

    def evaluate(self) -> Row:
        raise JobError(
            f"{self._turn.name} is a function; expected a class with evaluate() for validation data"
        )

    def save(self) -> State:
        if self._save is None:
            given = "nothing yet" if self._yielded is None else seen(self._yielded)
            raise JobError(
                f"{self._turn.name} cannot be saved: it yielded {given}; expected `yield metrics, save`, "
                "where save() returns the state with which the function can be called again"
            )
        return self._turn.checked(self._save())

    def close(self) -> None:
        self._running.close()

    def _taken_apart(self, yielded: object) -> tuple[object, Callable[[], State] | None]:
        if not isinstance(yielded, tuple):
            return yielded, None
        if len(yielded) != 2 or not (yielded[1] is None or callable(yielded[1])):
            raise JobError(
                f"{self._turn.name} yielded {seen(yielded)}; expected `yield metrics, save`, "
                "where save is a function"
            )
        return yielded
