"""From what the user wrote, a class or a function, to trainings. Mistakes raise before training."""

from __future__ import annotations

import copy
import functools
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

from elastune.errors import InvariantError, JobError
from elastune.training.running import ClassTraining, FunctionTraining, IterationResult, Training
from elastune.training.signatures import (
    GENERATOR,
    PLAIN,
    arguments_of,
    problem_of,
    refuse_single_values,
    second_argument,
)
from elastune.training.trainable import State, Trainable
from elastune.training.unsaved import CallTraining, reads_argument
from elastune.training.worker import Worker
from elastune.wording import did_you_mean, seen, several

_being_imported: list[str] = []

METHODS: Mapping[str, tuple[str, ...]] = {
    "setup": ("config", "worker"),
    "step": (),
    "save": (),
    "load": ("state",),
}
_NEEDED = ("setup", "step")
_SAVING = ("save", "load")
_EXPECTED = (
    "a class with setup(config, worker), step(), save() and load(state), a generator function "
    "f(config, worker, state) that yields metrics, save, or a function f(config) that returns metrics"
)
_SIMULATED = "; functions f(config, iteration) can only be simulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A checked trainable. `most_slots` is the largest gang that makes sense; None: any.

    `saves`: a trial can continue from a state; otherwise it trains again from the beginning. An attribute
    `saves = False` of the user's class or function says so, too.
    `arguments`: how a function is called. `is_call`: it has no `yield`, so one call is the whole training;
    `fidelity` is the argument that tells it how much to train.
    """

    name: str
    metric: str | None
    most_slots: int | None
    user: Callable[..., Any]
    saves: bool = True
    arguments: tuple[str, ...] = ()
    is_call: bool = False
    fidelity: str | None = None

    @property
    def evaluates(self) -> bool:
        """Whether it can evaluate a model on validation data."""
        return callable(getattr(self.user, "evaluate", None))

    def start(self, config: Mapping[str, Any], worker: Worker, state: State | None) -> Training:
        """A new training, from the beginning or from `state`. Every rank starts one."""
        if self.most_slots is not None and worker.size > self.most_slots:
            most = f"its most_slots is {self.most_slots}"
            raise InvariantError(f"{self.name} got a gang of {worker.size}, but {most}")
        results = IterationResult(worker, name=self.name, metric=self.metric, config=config)
        worker.enter_setup()
        if not isinstance(self.user, type):
            given = {"worker": worker, "state": state}

            def call(amount: Mapping[str, Any]) -> Any:
                own = _owned(config, amount)
                return self.user(own, *(given[name] for name in self.arguments[1:]))

            if self.is_call:
                return CallTraining(call, results, self.fidelity)
            return FunctionTraining(lambda: call({}), state, results)
        instance = self.user()
        instance.setup(_owned(config, {}), worker)
        if state is not None:
            instance.load(state)
        return ClassTraining(instance, results, saves=self.saves)


def _owned(config: Mapping[str, Any], amount: Mapping[str, Any]) -> dict[str, Any]:
    """Of a training, which may change it. A check watches what is read of it, so its kind of dict stays."""
    own = copy.deepcopy(config if isinstance(config, dict) else dict(config))
    own.update(amount)
    return own


def open_recipe(
    user: object,
    *,
    name: str,
    metric: str | None = None,
    fidelity: str | None = None,
    hyperparameters: Collection[str] = (),
) -> Recipe:
    """`name` is for error messages; `metric` names the number that a step returns without a name.

    `hyperparameters` are those of the space, as far as they are known."""
    most_slots = _most_slots(user, name)
    if isinstance(user, type):
        saves = _check_class(user, name, hyperparameters)
        recipe = Recipe(name=name, metric=metric, most_slots=most_slots, user=user, saves=saves)
    else:
        called = _as_callable(user, name)
        recipe = Recipe(name=name, metric=metric, most_slots=most_slots, user=called)
        recipe = _open_function(called, recipe, hyperparameters)
    if fidelity is None:
        return recipe
    if not recipe.is_call:
        kind = "class" if isinstance(user, type) else "generator function"
        raise JobError(
            f"{name}: the job has fidelity: {fidelity}, which is for a function that returns its metrics; "
            f"this is a {kind}, which trains iteration by iteration; remove `fidelity` from the job"
        )
    return replace(recipe, fidelity=fidelity)


def _check_class(user: type, name: str, hyperparameters: Collection[str]) -> bool:
    """Whether it saves."""
    public = [key for key in dir(user) if not key.startswith("_")]
    abstract: frozenset[str] = getattr(user, "__abstractmethods__", frozenset())
    has = {key for key in METHODS if key not in abstract and callable(getattr(user, key, None))}
    has -= {key for key in _SAVING if getattr(user, key, None) is getattr(Trainable, key)}
    others = [key for key in public if key.startswith("save") and key not in ("save", "saves")]
    saves = getattr(user, "saves", not has.isdisjoint(_SAVING) or bool(others)) is not False
    missing = [key for key in (METHODS if saves else _NEEDED) if key not in has]
    if missing:
        hint = did_you_mean(missing[0], [word for word in public if word not in METHODS])
        absent = " and no ".join(missing)
        raise JobError(f"{name}: the class has no method {absent}; expected {_EXPECTED}{hint}")
    if problem := problem_of(user):
        raise JobError(
            f"{name}: the class cannot be made without arguments ({problem}); expected {_EXPECTED}"
        )
    for method in sorted(has, key=list(METHODS).index):
        arguments = METHODS[method]
        # Through the class, a method has its `self` as well, unless it is static.
        is_bound = isinstance(inspect.getattr_static(user, method), staticmethod | classmethod)
        called = getattr(user, method)
        called = called if is_bound else functools.partial(called, "self")
        if method == "setup":
            code = inspect.unwrap(getattr(user, method))
            refuse_single_values(called, code, name=name, hyperparameters=hyperparameters, is_setup=True)
        if problem := problem_of(called, *arguments):
            written = f"{method}({', '.join(arguments)})"
            raise JobError(f"{name}: cannot be called as {written}: {problem}; expected {_EXPECTED}")
    return saves


def _as_callable(user: object, name: str) -> Callable[..., Any]:
    if callable(user):
        return user
    kind = type(user).__name__
    hint = f"; give the class {kind} itself" if all(hasattr(user, key) for key in _NEEDED) else ""
    raise JobError(f"{name}: this is an object of {kind}; expected {_EXPECTED}{hint}")


def _open_function(user: Callable[..., Any], recipe: Recipe, hyperparameters: Collection[str]) -> Recipe:
    name, whole = recipe.name, user
    while isinstance(whole, functools.partial):  # the usual way to pass data
        whole = whole.func
    code = whole if inspect.isroutine(whole) else getattr(whole, "__call__", whole)  # noqa: B004
    code = inspect.unwrap(code)
    if inspect.isasyncgenfunction(code) or inspect.iscoroutinefunction(code):
        raise JobError(f"{name}: this is an async function; expected {_EXPECTED}")
    refuse_single_values(user, code, name=name, hyperparameters=hyperparameters)
    is_call = not inspect.isgeneratorfunction(code)
    arguments = arguments_of(user, PLAIN if is_call else GENERATOR)
    if problem := problem_of(user, *arguments):
        call = f"cannot be called as f({', '.join(arguments)}): {problem}"
        call = f"this function has no yield, and {call}" if is_call else call
        raise JobError(f"{name}: {call}; expected {_EXPECTED}{_SIMULATED if is_call else ''}")
    if is_call:
        _check_second(user, name)
    # Without a worker, the members of a gang would all train the same.
    alone = is_call or "worker" not in arguments
    state = arguments.index("state") if "state" in arguments else None
    return replace(
        recipe,
        most_slots=1 if alone else recipe.most_slots,
        saves=state is not None and getattr(user, "saves", True) and reads_argument(user, code, state),
        arguments=arguments,
        is_call=is_call,
    )


def _check_second(user: Callable[..., object], name: str) -> None:
    """A second argument of another name may be the iteration of a simulated function."""
    second = second_argument(user)
    if second not in (None, "worker") and len(arguments_of(user, PLAIN)) > 1:
        raise JobError(
            f"{name}: the second argument of this function is {second}, and it has no yield; expected "
            f"f(config) or f(config, worker) with these names, or {_EXPECTED}{_SIMULATED}"
        )


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


def refuse_while_imported(call: str) -> None:
    """A script that starts a search when it is imported would start one in every process that trains."""
    if _being_imported:
        raise JobError(
            f"{_being_imported[-1]} calls {call} when it is imported, as every process that trains does; put "
            'this call below if __name__ == "__main__":'
        )


def _imported(home: str, execute: Callable[[], ModuleType]) -> ModuleType:
    _being_imported.append(home)
    try:
        return execute()
    except JobError:
        raise
    except SystemExit as end:
        raise JobError(
            f"{home}: importing it ended with SystemExit({end.code!r}), as parse_args() does with arguments "
            'of another program; put what runs the script below if __name__ == "__main__":'
        ) from end
    except Exception as error:
        failed = f"{home}: importing it failed with {type(error).__name__}: {error}"
        raise JobError(f"{failed}{_how_to_import(home, error)}") from error
    finally:
        _being_imported.pop()


def _how_to_import(home: str, error: Exception) -> str:
    """Of a file of a package, which imports from its neighbours."""
    if not home.endswith(".py") or "relative import" not in str(error):
        return ""
    path = Path(home).resolve()
    folders = [path.parent]
    while (folders[-1] / "__init__.py").is_file():
        folders.append(folders[-1].parent)
    name = ".".join([*(each.name for each in reversed(folders[:-1])), path.stem])
    return f"; name it as a module, trainable: {name}:NAME, from the folder {folders[-1]}"


def _make_importable(folder: Path) -> None:
    """At the end of the path, so that a file of the user cannot shadow an installed package."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
