"""How the user's function takes its arguments: the configuration first, as one dict.

Functions of a plain script often take hyperparameters one by one. Called with a configuration, they would
fail far from the cause, or never see the value that was drawn. They are refused, with their line.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection

from elastune.errors import JobError
from elastune.wording import several

PLAIN = ("config", "worker")
GENERATOR = ("config", "worker", "state")
_VALUES = (bool, int, float, str, list, tuple)

AnyFunction = Callable[..., object]


def arguments_of(user: AnyFunction, words: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `words` with which the function is called: arguments that it requires, or names like that."""
    parameters = _parameters(user)
    if parameters is None or any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return words[:1] if words is PLAIN else words
    count = 1
    for each, word in zip(parameters[1:], words[1:], strict=False):
        if each.kind is each.KEYWORD_ONLY or (each.default is not each.empty and each.name != word):
            break
        count += 1
    return words[:count]


def problem_of(function: AnyFunction, *arguments: str) -> str | None:
    """Why the function cannot be called with so many arguments."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        return str(error)
    except ValueError:
        pass  # functions written in C may have no signature
    return None


def first_argument(user: AnyFunction) -> str | None:
    return next((each.name for each in _parameters(user) or ()), None)


def second_argument(user: AnyFunction) -> str | None:
    return next((each.name for each in (_parameters(user) or [])[1:]), None)


def refuse_single_values(
    user: AnyFunction,
    code: AnyFunction,
    *,
    name: str,
    hyperparameters: Collection[str] = (),
    is_setup: bool = False,
) -> None:
    """A function that takes hyperparameters as arguments. `code` is the function itself, without partial
    arguments and decorators; `hyperparameters` are those of the space, as far as they are known. `is_setup`:
    it is the `setup` of a class, as called, without `self`."""
    parameters = _parameters(user) or []
    positional = [
        each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    found = [each.name for each in positional[1:] if each.name in hyperparameters]
    if positional and (found or isinstance(positional[0].default, _VALUES)):
        is_value = isinstance(positional[0].default, _VALUES) or positional[0].name in hyperparameters
        found = [positional[0].name, *found] if is_value else found
    elif parameters and all(each.kind is each.KEYWORD_ONLY for each in parameters):
        found = [each.name for each in parameters]
    if found:
        what = f"{several(found)} as {'an argument' if len(found) == 1 else 'arguments'}{_line_of(code)}"
        if is_setup:
            write = f"def setup(self, config, worker) with config[{found[0]!r}]"
            raise JobError(
                f"{name}: its setup takes {what}, but the first argument is the configuration: {write}"
            )
        raise JobError(f"{name}: takes {what}, but {how_to_configure(code, found[0])}")


def how_to_configure(code: AnyFunction, hyperparameter: str) -> str:
    """What to write instead."""
    written = getattr(code, "__name__", "train")
    yields = inspect.isgeneratorfunction(code)
    words, call = (GENERATOR, "yield from") if yields else (PLAIN[:1], "return")
    return (
        f"the first argument is the configuration: def {written}({', '.join(words)}) with "
        f"config[{hyperparameter!r}]; or tune a function around it: "
        f"def tuned(config): {call} {written}(**config)"
    )


def _line_of(code: AnyFunction) -> str:
    compiled = getattr(code, "__code__", None)
    return "" if compiled is None else f" ({compiled.co_filename}:{compiled.co_firstlineno})"


def _parameters(user: AnyFunction) -> list[inspect.Parameter] | None:
    """None: functions written in C may have no signature."""
    try:
        return list(inspect.signature(user).parameters.values())
    except ValueError:
        return None
