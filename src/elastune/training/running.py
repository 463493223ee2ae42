"""A trial in training on one rank, written as a class or a function; `warm_up` and `join` for its gang.

Decides when the user's code runs and what may be asked of it then, and turns what a step returns into
numbers by name. What becomes of metrics and states is left to the caller. Processes forked after `warm_up`
start without the import time of torch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Protocol, SupportsFloat

from elastune.errors import InvariantError, JobError
from elastune.training.groups import Group, Rendezvous, Solo
from elastune.training.trainable import State
from elastune.training.worker import Worker
from elastune.wording import seen


class MetricMissingError(JobError):
    """`reported` are the names of the numbers that were reported instead."""

    def __init__(self, text: str, reported: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.reported = reported


def read_metrics(given: object, *, metric: str | None, name: str) -> dict[str, float]:
    """The numbers in a mapping, or a bare number as `metric`; `name` is the trainable's, for errors.

    Values that are not numbers are dropped, except for the metric itself, which must be there.
    """
    if not isinstance(given, Mapping):
        number = as_number(given)
        if number is None or metric is None:
            raise MetricMissingError(f"{name} gave {seen(given)}; expected {_expected(metric)}")
        return {metric: number}
    numbers = ((str(key), as_number(value)) for key, value in given.items())
    row = {key: value for key, value in numbers if value is not None}
    if metric is not None and metric not in row:
        raise MetricMissingError(f"{name} gave {seen(dict(given))}; expected {_expected(metric)}", tuple(row))
    return row


def as_number(value: object) -> float | None:
    """Also from scalars and arrays without dimensions of numpy and torch; None: it is no number."""
    if not isinstance(value, SupportsFloat) or getattr(value, "ndim", None) not in (None, 0):
        return None
    detach = getattr(value, "detach", None)  # torch warns when a loss that has a gradient becomes a float
    try:
        return float(value if detach is None else detach())
    except (TypeError, ValueError):  # an array of texts, say
        return None


def _expected(metric: str | None) -> str:
    if metric is None:
        return "a mapping of names to numbers, such as {'accuracy': 0.9}"
    return f"a number, or a mapping with the number {metric!r}"


Row = Mapping[str, float]

NO_MODEL = "a record without a model"


class Training(Protocol):
    def step(self) -> Row | None:
        """Train the iteration that the worker was set to; None: nothing was left to train."""

    def evaluate(self) -> Row:
        """The metrics of the model on the worker's present data."""

    def save(self) -> State:
        """The state after the last step that trained. Called on rank 0 only."""

    def close(self) -> None:
        """Afterwards the user's code is not called any more."""


class IterationResult:
    """What both kinds share: the order of iterations, and reading metrics."""

    def __init__(
        self, worker: Worker, *, name: str, metric: str | None, config: Mapping[str, Any] | None = None
    ) -> None:
        self.worker = worker
        self.name = name
        self.config = config or {}
        self.done = 0
        """The last iteration that was trained here, and its metrics."""
        self.row: Row = {}
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
        self.row = read_metrics(metrics, metric=metric, name=self.name)
        self.done = self.worker.iteration
        return self.row

    def checked(self, state: State) -> State:
        if state is None:
            raise JobError(f"{self.name}: save gave nothing; expected the state that is needed to continue")
        return state

    def no_model(self) -> dict[str, Any]:
        """The checkpoint of a trainable that cannot be saved."""
        return {
            "elastune": NO_MODEL,
            "why": f"{self.name} has no save; train it again with this config to get its model",
            "config": dict(self.config),
            "iteration": self.done,
            "metrics": dict(self.row),
        }


class ClassTraining:
    def __init__(self, instance: Any, results: IterationResult, *, saves: bool = True) -> None:
        self._instance = instance
        self._results = results
        self._saves = saves

    def step(self) -> Row | None:
        self._results.begin()
        self._results.worker.enter_iteration()
        metrics = self._instance.step()
        if metrics is None:
            self._results.finish()
            return None
        return self._results.read(metrics)

    def evaluate(self) -> Row:
        self._results.worker.enter_iteration()
        return self._results.read(self._instance.evaluate())

    def save(self) -> State:
        if not self._saves:
            return self._results.no_model()
        return self._results.checked(self._instance.save())

    def close(self) -> None:
        """Also closes the user's object, if it has a `close`."""
        close = getattr(self._instance, "close", None)
        if callable(close):
            close()


class FunctionTraining:
    """Between two steps the generator waits at its `yield`, where its state can be saved."""

    def __init__(
        self, start: Callable[[], Generator[object, None, object]], state: State, results: IterationResult
    ) -> None:
        self._running = start()
        self._results = results
        self._save: Callable[[], State] | None = None if state is None else lambda: state
        self._yielded: object = None

    def step(self) -> Row | None:
        self._results.begin()
        if self._yielded is not None:  # the first one builds the model, from the same numbers on every rank
            self._results.worker.enter_iteration()
        try:
            self._yielded = next(self._running)
        except StopIteration:
            self._results.finish()
            return None
        metrics, self._save = self._taken_apart(self._yielded)
        return self._results.read(metrics)

    def evaluate(self) -> Row:
        name = self._results.name
        raise JobError(f"{name} is a function; expected a class with evaluate() for validation data")

    def save(self) -> State:
        if self._save is None:  # it yields metrics alone
            return self._results.no_model()
        return self._results.checked(self._save())

    def close(self) -> None:
        try:
            self._running.close()
        except RuntimeError as error:
            if "GeneratorExit" not in str(error):
                raise
            raise JobError(
                f"{self._results.name}: goes on after its end: its `yield` is inside a try that catches "
                "GeneratorExit; expected except Exception: there, or the yield outside of the try"
            ) from error

    def _taken_apart(self, yielded: object) -> tuple[object, Callable[[], State] | None]:
        if not isinstance(yielded, tuple):
            return yielded, None
        if len(yielded) != 2 or not (yielded[1] is None or callable(yielded[1])):
            expected = "expected `yield metrics, save`, where save is a function"
            raise JobError(f"{self._results.name} yielded {seen(yielded)}; {expected}")
        return yielded


def warm_up() -> None:
    """Import torch and all that its first training would import, without starting a thread.

    A forked process has only the thread that forked it: a thread pool, or autograd's engine, started before
    the fork would hang or be refused after it. So there is no backward pass and nothing large here.
    """
    import torch  # noqa: PLC0415  slow
    import torch.utils.data  # noqa: PLC0415

    import elastune.training.torch_group  # noqa: F401, PLC0415  process groups and DDP

    model = torch.nn.Linear(1, 1)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for optimizer in (torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.Adam(model.parameters())):
        optimizer.step()  # the first one imports torch's compiler, half as long as torch itself
        optimizer.zero_grad()
    with torch.no_grad():
        torch.nn.functional.cross_entropy(model(torch.zeros(1, 1)), torch.zeros(1, dtype=torch.int64))


def join(  # noqa: PLR0913  a meeting has an address, a place in it, and options
    host: str,
    port: int,
    *,
    rank: int,
    size: int,
    timeout_s: float,
    rendezvous: Rendezvous | None = None,
    interface: str | None = None,
    backend: str = "gloo",
) -> Group:
    """Form a group with the others that join there; returns when all have joined.

    Rank 0 gives the rendezvous. `interface` is the network interface to use; None: the one that leads to
    `host`. `backend` is "gloo", or "cpu:gloo,cuda:nccl" where models are on GPUs.
    """
    if not 0 <= rank < size or (rank == 0) != (rendezvous is not None):
        raise InvariantError(f"rank {rank} of {size} joins with rendezvous {rendezvous}: only rank 0 has one")
    if size == 1:
        if rendezvous is not None:
            rendezvous.close()
        return Solo()
    from elastune.training.torch_group import Meeting, form  # noqa: PLC0415  imports torch

    meeting = Meeting(
        host=host, port=port, rank=rank, size=size, timeout_s=timeout_s, interface=interface, backend=backend
    )
    return form(meeting, rendezvous)
