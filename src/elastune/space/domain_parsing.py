"""How one hyperparameter is written: `{float: [1e-4, 1.0], log: true}`, `{int: [1, 8]}`, `{choice: [a, b]}`.

Also accepted: Optuna's distributions, and Ray Tune's ranges as objects or as text. Everything that Optuna
would refuse or silently change is refused or settled here, with a message that names the place, so that all
samplers treat the distributions alike. All mistakes of a hyperparameter are found at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from numbers import Real
from typing import Any, Self

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from elastune.model.configuration import NotPlainError, Scalar, Value, is_compound, plain_value, scalar
from elastune.space.space import Condition, Domain, Path, SpaceError, raise_all
from elastune.wording import did_you_mean, either, seen

_OPTIONS = {
    "float": ("log", "step", "grid", "when"),
    "int": ("log", "step", "when"),
    "choice": ("when",),
    "grid_search": ("when",),
}
KINDS = ("float", "int", "choice")
# How other tools name the parts of a range.
_FOREIGN = {
    "min", "max", "low", "high", "lower", "upper", "values", "choices", "categories", "range", "uniform",
    "loguniform", "log_uniform", "log", "step", "grid",
}  # fmt: skip
_FOREIGN_BESIDE = {"type", "value", "distribution", "q", "mu", "sigma", "base"}
# In a wider range the difference of the two ends overflows; no hyperparameter is so large.
_MOST = 1e300
# Larger whole numbers are not exact as the floats that samplers compute with.
_MOST_WHOLE = 2**53
_MOST_GRID = 1_000_000


class Mistakes:
    """Collects the mistakes of several parts, each read in a `with` block, so that one does not hide the
    others."""

    def __init__(self) -> None:
        self._found: list[SpaceError] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if isinstance(error, SpaceError):
            self.add(error)
        return isinstance(error, SpaceError)

    def add(self, error: SpaceError) -> None:
        known = {(each.path, each.text) for each in self._found}
        self._found.extend(each for each in error.mistakes if (each.path, each.text) not in known)

    def settle(self) -> None:
        """Raise what was found, if anything."""
        raise_all(self._found)


def is_domain(written: Mapping[Any, object]) -> bool:
    """Whether a mapping describes one hyperparameter, perhaps wrongly, and is not a group of several.

    A group has members that are mappings, or names that no range has in any tool: `{flaot: [0, 1]}`, `{log:
    true}` and `{min: 0, max: 1}` are mistakes, not groups of constants.
    """
    if not written or any(kind in written for kind in _OPTIONS):
        return True
    options = {str(key): value for key, value in written.items() if key != "when"}
    if any(isinstance(value, Mapping) for value in options.values()):
        return False
    is_misspelt = any(did_you_mean(key, KINDS) and _is_of_kind(value) for key, value in options.items())
    is_foreign = options.keys() <= _FOREIGN | _FOREIGN_BESIDE and bool(options.keys() & _FOREIGN)
    return is_misspelt or is_foreign


def _is_of_kind(value: object) -> bool:
    """Whether a value could be that of `float` or `int`, or of `choice` with numbers."""
    return isinstance(value, list | tuple) and all(isinstance(each, Real) for each in value)


def parse_domain(name: str, written: Mapping[str, object]) -> Domain:
    return domain((name,), written)


def domain(path: Path, written: Mapping[Any, object]) -> Domain:
    """Raises `SpaceError`, with all mistakes of the hyperparameter."""
    options = {str(key): value for key, value in written.items()}
    kinds = [kind for kind in _OPTIONS if kind in options]
    if len(kinds) != 1:
        hint = "".join(did_you_mean(key, KINDS) for key in options) if not kinds else ""
        raise SpaceError(path, f"is {seen(options)}; expected one of float, int and choice{hint}")
    kind = kinds[0]
    mistakes = Mistakes()
    for key in options:
        if key not in (kind, *_OPTIONS[kind]):
            known, hint = either(_OPTIONS[kind]), did_you_mean(key, _OPTIONS[kind])
            mistakes.add(SpaceError((*path, key), f"is not an option of {kind}; expected {known}{hint}"))
    when: tuple[Condition, ...] = ()
    with mistakes:
        when = conditions((*path, "when"), options["when"]) if "when" in options else ()
    found: Domain | None = None
    with mistakes:
        found = _of_kind(kind, path, options)
    mistakes.settle()
    assert found is not None
    return replace(found, when=when)


def _of_kind(kind: str, path: Path, options: Mapping[str, object]) -> Domain:
    match kind:
        case "float":
            return _float(path, options)
        case "int":
            return _int(path, options)
        case _:
            return choice((*path, kind), options[kind])


def conditions(path: Path, written: object) -> tuple[Condition, ...]:
    """For each parent a value or a list of values; all conditions must be met."""
    if not isinstance(written, Mapping) or not written:
        raise SpaceError(path, f"is {seen(written)}; expected conditions by name, such as {{optimizer: sgd}}")
    mistakes = Mistakes()
    found = []
    for parent, value in written.items():
        place = (*path, str(parent))
        values = list(value) if isinstance(value, list | tuple) else [value]
        if not values:
            mistakes.add(SpaceError(place, "is []; expected a value, or a list of values"))
        with mistakes:
            wanted = tuple(scalar(parse_value(place, each)) for each in values)
            found.append(Condition(str(parent), wanted))
    mistakes.settle()
    return tuple(found)


def choice(path: Path, written: object) -> Domain:
    """A list or a mapping among the values is drawn as its JSON text."""
    if not isinstance(written, list | tuple) or not written:
        raise SpaceError(path, f"is {seen(written)}; expected a list of values, such as [0.9, 0.95, 0.99]")
    mistakes = Mistakes()
    values: dict[Scalar, Value] = {}
    for position, each in enumerate(written):
        place = (*path, str(position))
        with mistakes:
            value = parse_value(place, each)
            equal = [other for drawn, other in values.items() if drawn == scalar(value) or other == value]
            if equal:
                raise SpaceError(place, f"is {seen(each)}, which equals the choice {seen(equal[0])}")
            values[scalar(value)] = value
    mistakes.settle()
    compound = {str(drawn): value for drawn, value in values.items() if is_compound(value)}
    return Domain(distribution=CategoricalDistribution(list(values)), compound=compound)


def _float(path: Path, options: Mapping[str, object]) -> Domain:
    mistakes = Mistakes()
    low, high, log, step, grid = 1.0, 1.0, False, None, None
    with mistakes:
        low, high = _range((*path, "float"), options["float"])
    with mistakes:
        log = _flag((*path, "log"), options.get("log", False))
    with mistakes:
        step = _number((*path, "step"), options["step"]) if "step" in options else None
    with mistakes:
        grid = _whole((*path, "grid"), options["grid"]) if "grid" in options else None
    if log and low <= 0:
        mistakes.add(SpaceError((*path, "float"), f"starts at {low:g}; with log: true it starts above 0"))
    if step is not None and (step <= 0 or log):
        reason = "log and step exclude each other" if log else "expected a positive number"
        mistakes.add(SpaceError((*path, "step"), f"is {step:g}; {reason}"))
    if grid is not None and (step is not None or not 2 <= grid <= _MOST_GRID):
        expected = f"a whole number from 2 to {_MOST_GRID:,}"
        reason = "step already sets the points of the grid" if step is not None else f"expected {expected}"
        mistakes.add(SpaceError((*path, "grid"), f"is {grid}; {reason}"))
    mistakes.settle()
    if step is not None:
        first, width = Decimal(str(low)), Decimal(str(step))
        # Optuna cuts the range to whole steps too, but with a warning.
        high = float(first + (Decimal(str(high)) - first) // width * width)
    return Domain(distribution=FloatDistribution(low, high, log=log, step=step), grid=grid)


def _int(path: Path, options: Mapping[str, object]) -> Domain:
    mistakes = Mistakes()
    low, high, log, step = 1, 1, False, 1
    with mistakes:
        low, high = _whole_range((*path, "int"), options["int"])
    with mistakes:
        log = _flag((*path, "log"), options.get("log", False))
    with mistakes:
        step = _whole((*path, "step"), options.get("step", 1))
    if log and low < 1:
        mistakes.add(SpaceError((*path, "int"), f"starts at {low}; with log: true it starts at 1 or above"))
    if step < 1 or (log and step > 1):
        reason = "log and step exclude each other" if log else "expected 1 or more"
        mistakes.add(SpaceError((*path, "step"), f"is {step}; {reason}"))
    mistakes.settle()
    return Domain(distribution=IntDistribution(low, high - (high - low) % step, log=log, step=step))


def _range(path: Path, written: object) -> tuple[float, float]:
    if not isinstance(written, list | tuple) or len(written) != 2:
        raise SpaceError(path, f"is {seen(written)}; expected the two ends of a range, such as [1, 8]")
    low, high = _number(path, written[0]), _number(path, written[1])
    if low > high:
        raise SpaceError(path, f"is {seen(written)}; expected the smaller end first")
    return low, high


def _whole_range(path: Path, written: object) -> tuple[int, int]:
    low, high = _range(path, written)
    return _whole(path, low), _whole(path, high)


def _number(path: Path, value: object) -> float:
    try:
        number = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:
        number = math.inf
    if not abs(number) <= _MOST:
        raise SpaceError(path, f"is {seen(value)}; expected a number, such as 0.001")
    return number


def _whole(path: Path, value: object) -> int:
    number = _number(path, value)
    if number != number // 1 or abs(number) > _MOST_WHOLE:
        raise SpaceError(path, f"is {seen(value)}; expected a whole number up to 2^53")
    return int(number)


def _flag(path: Path, value: object) -> bool:
    if not isinstance(value, bool):
        raise SpaceError(path, f"is {seen(value)}; expected true or false")
    return value


def parse_value(path: Path, value: object) -> Value:
    """Text, a finite number, true, false, null, or lists and mappings of them."""
    try:
        return plain_value(value)
    except NotPlainError as error:
        expected = "text, a finite number, true or false"
        if error.path:
            expected = "text, finite numbers, true, false and null inside lists and mappings"
        raise SpaceError((*path, *error.path), f"is {seen(error.part)}; expected {expected}") from None
