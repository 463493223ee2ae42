"""Spaces as Ray Tune writes them: its objects, and its calls as text (`lr: loguniform(1e-4, 1e-1)`).

Names and meanings are those of `ray.tune`: the upper end of `randint` and `lograndint` does not belong to the
range, a `q...` range holds the multiples of q. Ray is not imported: its objects are recognised by their
classes. The result is in Elastune's own form, which `parsing` checks.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal

from elastune.space.space import SpaceError
from elastune.wording import nearest, seen

Path = tuple[str, ...]
Written = Mapping[str, object]

_NUMBERS = {"uniform": 2, "loguniform": 2, "quniform": 3, "randint": 2, "lograndint": 2, "qrandint": 3}
_MEANINGS = (*_NUMBERS, "choice", "grid_search")
_CALL = re.compile(r"\s*(?:ray\.)?(?:tune\.)?(?P<name>[a-z_]+)\s*\(.*\)\s*", re.DOTALL)
_NAMES = ("lower", "upper", "q", "categories", "values")


def is_ray(value: object) -> bool:
    """Whether this is a range or choice of Ray Tune."""
    return type(value).__module__.startswith("ray.tune.")


def from_object(path: Path, value: object) -> Written:
    """What a range of Ray Tune means; raises `SpaceError` for one that has no ends."""
    kind, sampler = type(value).__name__, getattr(value, "sampler", None)
    if kind == "Categorical":
        return _written(path, "choice", [getattr(value, "categories", None)])
    if kind not in ("Float", "Integer"):
        return _written(path, "sample_from", [])
    ends, prefix = [getattr(value, "lower", None), getattr(value, "upper", None)], ""
    if type(sampler).__name__ == "Quantized":
        ends.append(getattr(sampler, "q", None))
        prefix, sampler = "q", getattr(sampler, "sampler", None)
    shape = type(sampler).__name__.lstrip("_")
    if shape == "Normal":
        return _written(path, f"{prefix}randn", [])
    log = "log" if shape == "LogUniform" else ""
    return _written(path, f"{prefix}{log}{'uniform' if kind == 'Float' else 'randint'}", ends)


def from_text(path: Path, text: str) -> Written | None:
    """What a call as text means; None: the text is no such call."""
    match = _CALL.fullmatch(text)
    if match is None:
        return None
    name = match["name"]
    if name not in (*_MEANINGS, *_REFUSED):
        close = nearest(name, _MEANINGS)
        if close is None:
            return None
        raise SpaceError(path, f"is {seen(text)}; did you mean '{close}'?")
    return _written(path, name, [] if name in _REFUSED else _arguments(path, text))


def _arguments(path: Path, text: str) -> list[object]:
    """Parsed, not executed: anything but plain values is refused."""
    expected = "plain numbers and lists, such as loguniform(1e-4, 1e-1) or choice([32, 64])"
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not isinstance(call, ast.Call):
            raise SpaceError(path, f"is {seen(text)}; expected {expected}")
        values = [ast.literal_eval(each) for each in call.args]
        named = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise SpaceError(path, f"is {seen(text)}; expected {expected}") from None
    unknown = [str(key) for key in named if key not in _NAMES and key != "base"]
    if unknown:
        raise SpaceError(path, f"is {seen(text)}; expected {expected}, without {', '.join(unknown)}")
    return [*values, *(named[key] for key in _NAMES if key in named)]


def _written(path: Path, name: str, arguments: Sequence[object]) -> Written:
    if name in _REFUSED:
        raise SpaceError(path, f"is {name} of Ray Tune; {_REFUSED[name]}")
    if name in ("choice", "grid_search"):
        if len(arguments) != 1:
            raise SpaceError(path, f"is {name} with {len(arguments)} values; expected one list of values")
        return {"choice": arguments[0]}
    numbers = _numbers(path, name, arguments)
    low, high = numbers[:2]
    match name:
        case "uniform" | "loguniform":
            return {"float": [low, high], "log": name == "loguniform"}
        case "quniform":
            return {"float": _multiples(path, *numbers), "step": numbers[2]}
        case "qrandint" if numbers[2] != 1:
            return {"int": _multiples(path, *numbers), "step": numbers[2]}
        case _:
            return {"int": [low, _below(path, low, high)], "log": name == "lograndint"}


def _numbers(path: Path, name: str, arguments: Sequence[object]) -> list[float]:
    numbers = [value for value in arguments if isinstance(value, int | float) and math.isfinite(value)]
    if len(numbers) != len(arguments):
        raise SpaceError(path, f"is {name} of {seen(list(arguments))}; expected numbers")
    if name.startswith("log") and len(numbers) == 3:
        # The base of the logarithm changes nothing about where values fall.
        numbers.pop()
    if name == "qrandint" and len(numbers) == 2:
        numbers.append(1)
    if len(numbers) != _NUMBERS[name]:
        raise SpaceError(path, f"is {name} with {len(numbers)} numbers; expected {_NUMBERS[name]}")
    return numbers


def _below(path: Path, low: float, high: float) -> float:
    if high <= low:
        raise SpaceError(path, f"has no value from {low} to below {high}; expected the smaller end first")
    return high - 1


def _multiples(path: Path, low: float, high: float, q: float) -> list[float]:
    """The first and the last multiple of q in the range."""
    if q <= 0:
        raise SpaceError(path, f"has q = {q}; expected a positive number")
    width = Decimal(str(q))
    first = math.ceil(Decimal(str(low)) / width) * width
    last = math.floor(Decimal(str(high)) / width) * width
    if first > last:
        raise SpaceError(path, f"has no multiple of {q} from {low} to {high}")
    return [float(first), float(last)]


_BOTH = "a range is either logarithmic or in steps; expected loguniform(...), quniform(...) or choice([...])"
_NO_ENDS = "it has no ends; expected a range with two ends, such as uniform(0.0, 1.0)"
_REFUSED = {
    "qloguniform": _BOTH,
    "qlograndint": _BOTH,
    "randn": _NO_ENDS,
    "qrandn": _NO_ENDS,
    "sample_from": "other samplers cannot use a function; write `when` for a condition, or give a function "
    "suggest(trial) as the space",
}
