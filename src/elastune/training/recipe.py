"""From what the user wrote, a class or a generator function, to trainings. Mistakes raise before training."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

from elastune.errors import InvariantError, JobError
from elastune.training.running import ClassTraining, FunctionTraining, IterationResult, Training
from elastune.training.trainable import State
from elastune.training.worker import Worker
from elastune.wording import did_you_mean, seen, several

METHODS: Mapping[str, tuple[str, ...]] = {
    "setup": ("config", "worker"),
    "step": (),
    "save": (),
    "load": ("state",),
}
_FUNCTION = ("config", "worker", "state")
_EXPECTED = (
    "a class with setup(config, worker), step(), save() and load(state), or a generator function "
    "f(config, worker, state) that yields metrics, save"
)
_SIMULATED = "; functions f(config, iteration) and f(config) can only be simulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A checked trainable. `most_slots` is the largest gang that makes sense; None: any."""

    name: str
    metric: str | None
    most_slots: int | None
    user: Callable[..., Any]

    @property
    def evaluates(self) -> bool:
        """Whether it can evaluate a model on validation data."""
        return callable(getattr(self.user, "evaluate", None))

    def start(self, config: Mapping[str, Any], worker: Worker, state: State | None) -> Training:
        """A new training, from the beginning or from `state`. Every rank starts one."""
        if self.most_slots is not None and worker.size > self.most_slots:
            most = f"its most_slots is {self.most_slots}"
            raise InvariantError(f"{self.name} got a gang of {worker.size}, but {most}")
        results = IterationResult(worker, name=self.name, metric=self.metric)
        worker.enter_setup()
        if not isinstance(self.user, type):
            return FunctionTraining(lambda: self.user(dict(config), worker, state), state, results)
        instance = self.user()
        instance.setup(dict(config), worker)
        if state is not None:
            instance.load(state)
        return ClassTraining(instance, results)


def open_recipe(user: object, *, name: str, metric: str | None = None) -> Recipe:
    """`name` is for error messages; `metric` names the number that a step returns without a name."""
    if isinstance(user, type):
        _check_class(user, name)
    else:
        _check_function(user, name)
    if not callable(user):
        raise InvariantError(f"{name} was checked, but {seen(user)} cannot be called")
    return Recipe(name=name, metric=metric, most_slots=_most_slots(user, name), user=user)


def _check_class(user: type, name: str) -> None:
    public = [key for key in dir(user) if not key.startswith("_")]
    abstract: frozenset[str] = getattr(user, "__abstractmethods__", frozenset())
    missing = [key for key in METHODS if key in abstract or not callable(getattr(user, key, None))]
    if missing:
        hint = did_you_mean(missing[0], [word for word in public if word not in METHODS])
        absent = " and no ".join(missing)
        raise JobError(f"{name}: the class has no method {absent}; expected {_EXPECTED}{hint}")
    if problem := _problem(user):
        raise JobError(
            f"{name}: the class cannot be made without arguments ({problem}); expected {_EXPECTED}"
        )
    for method, arguments in METHODS.items():
        # Through the class, a method has its `self` as well, unless it is static.
        is_bound = isinstance(inspect.getattr_static(user, method), staticmethod | classmethod)
        if problem := _problem(getattr(user, method), *(() if is_bound else ("self",)), *arguments):
            written = f"{method}({', '.join(arguments)})"
            raise JobError(f"{name}: cannot be called as {written}: {problem}; expected {_EXPECTED}")


def _check_function(user: object, name: str) -> None:
    if not callable(user):
        kind = type(user).__name__
        hint = f"; give the class {kind} itself" if all(hasattr(user, key) for key in METHODS) else ""
        raise JobError(f"{name}: this is an object of {kind}; expected {_EXPECTED}{hint}")
    whole: Callable[..., object] = user
    while isinstance(whole, functools.partial):  # the usual way to pass data
        whole = whole.func
    code = whole if inspect.isroutine(whole) else getattr(whole, "__call__", whole)  # noqa: B004
    code = inspect.unwrap(code)
    if inspect.isasyncgenfunction(code) or inspect.iscoroutinefunction(code):
        raise JobError(f"{name}: this is an async function; expected {_EXPECTED}")
    if not inspect.isgeneratorfunction(code):
        raise JobError(f"{name}: this function has no yield; expected {_EXPECTED}{_SIMULATED}")
    if problem := _problem(user, *_FUNCTION):
        call = f"cannot be called as f(config, worker, state): {problem}"
        raise JobError(f"{name}: {call}; expected {_EXPECTED}{_SIMULATED}")


def _problem(function: Callable[..., object], *arguments: str) -> str | None:
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        return str(error)
    except ValueError:
        pass  # functions written in C may have no signature
    return None


def _most_slots(user: object, name: str) -> int | None:
    most = getattr(user, "most_slots", None)
    if most is None:
        return None
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise JobError(f"{name}: most_slots is {seen(most)}; expected a whole number from 1")
    return most


def load(reference: str) -> Callable[..., object]:
    """Import `path/to/file.py:name` or `package.module:name`: a function or a class."""
    home, _, name = reference.rpartition(":")
    if home.endswith(".py"):
        module = _imported(home, lambda: _from_file(Path(home)))
    else:
        _make_importable(Path.cwd())
        module = _imported(home, lambda: importlib.import_module(home))
    try:
        found: object = reduce(getattr, name.split("."), module)
    except AttributeError:
        public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        hint = did_you_mean(name, public)
        raise JobError(f"{home}: there is no {name!r}; callable there: {several(public)}{hint}") from None
    if not callable(found):
        kind = type(found).__name__
        raise JobError(f"{reference}: this is {kind} and cannot be called; expected a function or a class")
    return found


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise JobError(f"{path}: there is no such file; expected the Python file of the trainable")
    # As if the file were run: modules beside it can be imported.
    _make_importable(path.resolve().parent)
    name = f"elastune_trainable_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise JobError(f"{path}: cannot be imported as Python")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickle look a module up by its name, also while it is executed.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _imported(home: str, execute: Callable[[], ModuleType]) -> ModuleType:
    try:
        return execute()
    except JobError:
        raise
    except Exception as error:
        raise JobError(f"{home}: importing it failed with {type(error).__name__}: {error}") from error


def _make_importable(folder: Path) -> None:
    """At the end of the path, so that a file of the user cannot shadow an installed package."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
