"""What the user gives is checked, started, saved and started again."""

from __future__ import annotations

import functools
import random
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import torch

import elastune
from elastune.checkpoints.encoding import decode, encode
from elastune.errors import InvariantError, JobError
from elastune.training.groups import Solo
from elastune.training.recipe import open_recipe
from elastune.training.running import Training
from elastune.training.trainable import Trainable
from elastune.training.unsaved import is_no_model
from elastune.training.worker import Worker, make_worker

Config = Mapping[str, Any]


class Counter:
    """Written without the base class."""

    most_slots = 1

    def setup(self, config: dict[str, Any], worker: Worker) -> None:
        self.limit, self.count, self.closed = config.pop("limit"), 0, False
        self.drawn = (random.random(), float(np.random.rand()), float(torch.rand(())))  # noqa: NPY002
        self.worker = worker

    def step(self) -> object:
        if self.count == self.limit:
            return None
        self.count += 1
        return {"count": self.count, "iteration": self.worker.iteration, "noise": random.random()}

    def save(self) -> dict[str, Any]:
        return {"count": self.count, "drawn": self.drawn}

    def load(self, state: dict[str, Any]) -> None:
        self.count = state["count"]

    def close(self) -> None:
        self.closed = True


def counting(config: Config, worker: Worker, state: Any) -> Iterator[object]:
    count = state["count"] if state else 0

    def save() -> dict[str, int]:
        return {"count": count}

    while count < config["limit"]:
        count += 1
        yield {"count": count, "iteration": worker.iteration}, save


def start(
    user: Any, config: Config | None = None, state: Any = None, **options: Any
) -> tuple[Worker, Training]:
    worker = make_worker(Solo(), seed=3)
    recipe = open_recipe(user, name="digits.py:Digits", **options)
    return worker, recipe.start(config or {"limit": 3}, worker, state)


def steps(worker: Worker, training: Training, first: int, last: int) -> list[Any]:
    rows = []
    for worker.iteration in range(first, last + 1):
        rows.append(training.step())
    return rows


@pytest.mark.parametrize("user", [Counter, counting])
def test_both_kinds_step_save_and_go_on_until_nothing_is_left(user: Any) -> None:
    config = {"limit": 3}
    worker, training = start(user, config, metric="count")
    rows = steps(worker, training, 1, 2)
    assert [(row["count"], row["iteration"]) for row in rows] == [(1.0, 1.0), (2.0, 2.0)]
    state = training.save()
    assert state["count"] == 2
    training.close()
    worker, training = start(user, config, state, metric="count")
    assert training.save()["count"] == 2
    row, after = steps(worker, training, 3, 4)
    assert (row["count"], row["iteration"], after) == (3.0, 3.0, None)
    assert training.save()["count"] == 3
    worker, training = start(user, config, training.save())
    assert steps(worker, training, 4, 4) == [None]
    assert config == {"limit": 3}


def test_the_slots_that_make_sense_are_told() -> None:
    assert open_recipe(Counter, name="x").most_slots == 1
    assert open_recipe(counting, name="x").most_slots is None

    def alone(config: Config, worker: Worker, state: Any) -> Iterator[float]:
        yield 1.0

    alone.most_slots = 0  # type: ignore[attr-defined]
    with pytest.raises(JobError, match="x: most_slots is 0; expected a whole number from 1"):
        open_recipe(alone, name="x")


def test_the_libraries_are_seeded_by_trial_and_by_iteration() -> None:
    (worker, training), (again, other) = start(Counter), start(Counter)
    assert training.save()["drawn"] == other.save()["drawn"]
    rows = steps(worker, training, 1, 3)
    assert len({row["noise"] for row in rows}) == 3
    assert steps(again, other, 2, 2)[0]["noise"] == rows[1]["noise"]


def test_an_object_that_has_something_to_close_is_closed() -> None:
    closed: list[str] = []

    class Closing(Counter):
        def close(self) -> None:
            closed.append("class")

    def closing(config: Config, worker: Worker, state: Any) -> Iterator[object]:
        try:
            yield {"count": 1}
        finally:
            closed.append("function")

    for user in (Closing, closing):
        worker, training = start(user)
        steps(worker, training, 1, 1)
        training.close()
    assert closed == ["class", "function"]


# Metrics.


def giving(value: object) -> Callable[..., Iterator[object]]:
    def train(config: Config, worker: Worker, state: Any) -> Iterator[object]:
        yield value

    return train


@pytest.mark.parametrize(
    "value", [np.float32(0.5), np.array(0.5), torch.tensor(0.5), torch.tensor(0.5, requires_grad=True), 0.5]
)
def test_scalars_of_every_library_are_numbers(value: object) -> None:
    for given in (
        value,
        {"accuracy": value, "confusion": np.eye(2), "note": "good", "embedding": torch.ones(3)},
    ):
        (row,) = steps(*start(giving(given), metric="accuracy"), 1, 1)
        assert row == {"accuracy": 0.5}
        assert type(row["accuracy"]) is float


@pytest.mark.parametrize("value", ["high", {"loss": 1.0}, {"accuracy": "high"}, torch.ones(2), None])
def test_what_is_no_metric_is_refused(value: object) -> None:
    with pytest.raises(
        JobError, match=r"digits.py:Digits gave .* expected a number, or a mapping with the number"
    ):
        steps(*start(giving(value), metric="accuracy"), 1, 1)


def test_a_bare_number_needs_the_name_of_the_metric() -> None:
    with pytest.raises(JobError, match=r"gave 0\.5; expected a mapping of names to numbers, such as"):
        steps(*start(giving(0.5)), 1, 1)


# Saving.


class Steps:
    """Neither saves nor loads."""

    def setup(self, config: dict[str, Any], worker: Worker) -> None:
        self.config = config

    def step(self) -> float:
        return 0.5


class Inherited(Trainable):
    def setup(self, config: Config, worker: Worker) -> None: ...
    def step(self) -> float:
        return 0.5


def unread(config: Config, worker: Worker, state: Any) -> Iterator[object]:
    yield {"accuracy": 0.5}


def without_state(config: Config, worker: Worker) -> Iterator[float]:
    yield 0.5


def without_worker(config: Config) -> Iterator[float]:
    yield 0.5


def returned(config: Config) -> float:
    return 0.5


def returned_by_worker(config: Config, worker: Worker) -> dict[str, float]:
    return {"accuracy": 0.5 + worker.rank}


UNSAVED = (Steps, Inherited, unread, without_state, without_worker, returned, returned_by_worker)


@pytest.mark.parametrize("user", UNSAVED)
def test_the_checkpoint_of_what_cannot_be_saved_says_what_it_is(user: Any) -> None:
    recipe = open_recipe(user, name="cv.py:forest", metric="accuracy")
    assert not recipe.saves
    worker, training = start(user, {"depth": 3}, metric="accuracy")
    steps(worker, training, 1, 1)
    state = decode(encode(training.save()))
    assert is_no_model(state)
    assert state["config"] == {"depth": 3}
    assert state["metrics"] == {"accuracy": 0.5}
    assert state["iteration"] == 1
    assert "has no save; train it again with this config" in state["why"]


def test_what_can_continue_is_told_from_what_cannot() -> None:
    class Declared(Counter):
        saves = False

    assert open_recipe(Counter, name="x").saves
    assert open_recipe(counting, name="x").saves
    assert not open_recipe(Declared, name="x").saves


def test_functions_without_a_worker_and_single_calls_get_one_slot() -> None:
    alone = [
        open_recipe(user, name="x").most_slots for user in (without_worker, returned, returned_by_worker)
    ]
    assert alone == [1, 1, 1]
    assert open_recipe(without_state, name="x").most_slots is None


def test_a_function_that_returns_is_trained_by_one_call() -> None:
    assert steps(*start(returned, metric="accuracy"), 1, 2) == [{"accuracy": 0.5}, None]


def test_a_fidelity_tells_a_function_how_much_to_train() -> None:
    calls: list[tuple[int, float]] = []

    def forest(config: Config) -> float:
        calls.append((config["trees"], random.random()))
        return float(config["trees"] + config["limit"])

    worker, training = start(forest, metric="accuracy", fidelity="trees")
    for worker.iteration in (3, 9):
        assert training.step() == {"accuracy": 3.0 + worker.iteration}
    assert [trees for trees, _ in calls] == [3, 9]
    assert calls[0][1] == calls[1][1], "every call begins with the same random numbers"


def test_an_optional_argument_of_another_name_keeps_its_default() -> None:
    def forest(config: Config, verbose: bool = False) -> float:
        return float(verbose)

    def yielding(config: Config, worker: Worker, trees: int = 5) -> Iterator[float]:
        yield float(trees)

    assert steps(*start(forest, metric="a"), 1, 1) == [{"a": 0.0}]
    assert steps(*start(yielding, metric="a"), 1, 1) == [{"a": 5.0}]


def test_a_call_that_returns_nothing_is_told() -> None:
    with pytest.raises(JobError, match=r"digits.py:Digits returned nothing; expected its metrics"):
        steps(*start(lambda config: None, metric="a"), 1, 1)


@pytest.mark.parametrize("yielded", [({"a": 1.0}, {"state": 1}), ({"a": 1.0}, print, 3), ()])
def test_a_tuple_is_metrics_and_a_function(yielded: object) -> None:
    with pytest.raises(JobError, match="expected `yield metrics, save`, where save is a function"):
        steps(*start(giving(yielded)), 1, 1)


def test_a_state_of_nothing_is_a_forgotten_return() -> None:
    worker, training = start(giving(({"a": 1.0}, lambda: None)))
    steps(worker, training, 1, 1)
    with pytest.raises(JobError, match="save gave nothing; expected the state"):
        training.save()


# The order of iterations.


@pytest.mark.parametrize("user", [Counter, counting])
def test_an_iteration_is_not_trained_twice_and_none_after_the_end(user: Any) -> None:
    worker, training = start(user)
    with pytest.raises(InvariantError, match=r"iteration 0 of digits\.py:Digits begins after iteration 0"):
        training.step()
    steps(worker, training, 1, 4)
    with pytest.raises(InvariantError):
        steps(worker, training, 5, 5)


def test_a_gang_that_makes_no_sense_is_refused() -> None:
    class Pair(Solo):
        size = 2

    with pytest.raises(InvariantError, match="got a gang of 2, but its most_slots is 1"):
        open_recipe(Counter, name="x").start({}, make_worker(Pair(), seed=1), None)


# What is refused.


class Unfinished(Trainable):
    def setup(self, config: Config, worker: Worker) -> None: ...


class SaveStyle(Steps):
    def save_checkpoint(self) -> object: ...


class RayStyle(Counter):
    save_checkpoint = Counter.save
    save = None  # type: ignore[assignment]


class Demanding(Counter):
    def __init__(self, config: Config) -> None: ...


class OtherStep(Counter):
    def step(self, epoch: int) -> object:  # type: ignore[override]
        return epoch


def returning(config: Config, worker: Worker, state: Any) -> float:
    return 1.0


def simulated(config: Config, iteration: int) -> float:
    return 1.0


def with_defaults(lr: float = 0.1, width: int = 8) -> float:
    return lr * width


def stepwise(lr: float = 0.1, epochs: int = 3) -> Iterator[float]:
    yield lr * epochs


def by_name(*, lr: float) -> float:
    return lr


def beside(config: Config, lr: float = 0.1) -> float:
    return lr


def with_a_default(config: Config | None = None, verbose: bool = False) -> float:
    return 1.0


def demanding(config: Config, worker: Worker, state: Any, data: Any) -> Iterator[float]:
    yield 1.0


async def waiting(config: Config, worker: Worker, state: Any) -> AsyncIterator[float]:
    yield 1.0


@pytest.mark.parametrize(
    ("user", "message"),
    [
        (Unfinished, "x: the class has no method step; expected a class with setup(config, worker)"),
        (SaveStyle, "x: the class has no method save and no load; expected a class with setup"),
        (SaveStyle, "did you mean 'save_checkpoint'?"),
        (
            RayStyle,
            "x: the class has no method save; expected a class with setup(config, worker), step(), save()",
        ),
        (RayStyle, "did you mean 'save_checkpoint'?"),
        (Demanding, "x: the class cannot be made without arguments (missing a required argument: 'config')"),
        (OtherStep, "x: cannot be called as step(): missing a required argument: 'epoch'; expected a class"),
        (Counter(), "x: this is an object of Counter; expected a class"),
        (Counter(), "; give the class Counter itself"),
        (3, "x: this is an object of int; expected a class with"),
        (returning, "x: this function has no yield, and cannot be called as f(config, worker): missing a"),
        (simulated, "x: the second argument of this function is iteration, and it has no yield; expected"),
        (simulated, "functions f(config, iteration) can only be simulated"),
        (demanding, "x: cannot be called as f(config, worker, state): missing a required argument: 'data'"),
        (waiting, "x: this is an async function; expected"),
    ],
)
def test_what_cannot_be_trained_is_told_before_it_is_tried(user: object, message: str) -> None:
    with pytest.raises(JobError) as caught:
        open_recipe(user, name="x")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("user", "takes", "write"),
    [
        (with_defaults, "takes lr, width as arguments (", "def with_defaults(config) with config['lr']"),
        (with_defaults, "takes lr", "def tuned(config): return with_defaults(**config)"),
        (stepwise, "takes lr as an argument (", "def stepwise(config, worker, state) with config['lr']"),
        (stepwise, "takes lr", "def tuned(config): yield from stepwise(**config)"),
        (by_name, "takes lr as an argument (", "def by_name(config) with config['lr']"),
        (beside, "takes lr as an argument (", "def beside(config) with config['lr']"),
        (lambda lr, width: lr * width, "takes lr, width as arguments (", "config['lr']"),
    ],
)
def test_hyperparameters_as_arguments_are_refused_at_the_line_of_the_function(
    user: Callable[..., object], takes: str, write: str
) -> None:
    """They failed with a TypeError, or never got the value that was drawn."""
    with pytest.raises(JobError) as caught:
        open_recipe(user, name="x", hyperparameters=("lr", "width"))
    message = str(caught.value)
    assert takes in message
    assert write in message
    assert "the first argument is the configuration" in message
    assert f"({__file__}:{user.__code__.co_firstlineno})" in message


class OneValue(Counter):
    def setup(self, lr: float = 0.1) -> None: ...  # type: ignore[override]


class TwoValues(Counter):
    def setup(self, lr: float = 0.1, width: int = 8) -> None: ...  # type: ignore[override]


class RequiredValues(Counter):
    def setup(self, lr: float, width: int) -> None: ...  # type: ignore[override]


class ValuesByName(Counter):
    def setup(self, *, lr: float) -> None: ...  # type: ignore[override]


@pytest.mark.parametrize("user", [OneValue, TwoValues, RequiredValues, ValuesByName])
def test_a_setup_that_takes_hyperparameters_is_refused_at_its_line(user: type[Counter]) -> None:
    """With two of them it got the configuration as the first, and failed far from the cause."""
    with pytest.raises(JobError) as caught:
        open_recipe(user, name="x", hyperparameters=("lr", "width"))
    message = str(caught.value)
    assert message.startswith("x: its setup takes lr")
    assert message.endswith(
        f"({__file__}:{user.setup.__code__.co_firstlineno}), but the first argument is the configuration: "
        "def setup(self, config, worker) with config['lr']"
    )


def test_a_configuration_with_a_default_and_bound_values_are_fine() -> None:
    open_recipe(with_a_default, name="x", hyperparameters=("lr",))
    open_recipe(functools.partial(beside, lr=0.2), name="x", hyperparameters=("lr",))


def test_a_fidelity_is_refused_for_what_trains_step_by_step() -> None:
    for user, kind in ((Counter, "class"), (counting, "generator function")):
        with pytest.raises(JobError, match=f"this is a {kind}, .* remove `fidelity` from the job"):
            open_recipe(user, name="x", fidelity="epochs")


def test_static_methods_and_objects_that_can_be_called_are_fine() -> None:
    class Static(Counter):
        @staticmethod
        def load(state: Any) -> None: ...

    class Called:
        def __call__(self, config: Config, worker: Worker, state: Any) -> Generator[float]:
            yield 1.0

    open_recipe(Static, name="x")
    worker, training = start(Called(), metric="a")
    assert steps(worker, training, 1, 1) == [{"a": 1.0}]


def test_the_base_class_is_at_hand() -> None:
    assert elastune.Trainable is Trainable
    assert elastune.Worker is Worker
