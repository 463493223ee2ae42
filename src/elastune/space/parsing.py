"""How a space is written: `{lr: {float: [1e-4, 1.0], log: true}, act: [relu, tanh], epochs: 5}`.

Also accepted: Optuna's distributions, and Ray Tune's ranges as objects or as text. Everything that Optuna
would refuse or silently change is refused or settled here, with a message that names the place, so that all
samplers treat the distributions alike. Conditions (`momentum: {float: [0.8, 0.99], when: {optimizer: sgd}}`)
are refused if they name an unknown hyperparameter or a value that it never has, or depend on each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from graphlib import CycleError, TopologicalSorter
from numbers import Integral, Real
from typing import Any

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from elastune.space import ray_style
from elastune.space.space import Condition, Domain, Scalar, Space, SpaceError
from elastune.space.values import NotInsideError, fitted, same
from elastune.wording import did_you_mean, either, seen

Entries = Mapping[str, Domain | Scalar]


def checked(entries: Entries) -> dict[str, Domain | Scalar]:
    """The entries with each condition's values as its parent has them; raises `SpaceError`."""
    settled = {name: _checked_entry(name, entry, entries) for name, entry in entries.items()}
    domains = {name: entry for name, entry in settled.items() if isinstance(entry, Domain)}
    try:
        TopologicalSorter({name: [each.parent for each in of.when] for name, of in domains.items()}).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1][::-1]
        text = f"is circular: {' on '.join(circle)}; remove one of these conditions"
        raise SpaceError((circle[0], "when"), text) from None
    return settled


def _checked_entry(name: str, entry: Domain | Scalar, entries: Entries) -> Domain | Scalar:
    if not isinstance(entry, Domain) or not entry.when:
        return entry
    path = (name, "when")
    return replace(entry, when=tuple(_checked_condition(path, each, entries) for each in entry.when))


def _checked_condition(path: tuple[str, ...], condition: Condition, entries: Entries) -> Condition:
    parent = condition.parent
    if parent not in entries:
        expected = f"{either(entries)}{did_you_mean(parent, entries)}"
        raise SpaceError((*path, parent), f"is no hyperparameter of this space; expected {expected}")
    owner = entries[parent]
    return Condition(parent, tuple(_possible((*path, parent), value, owner) for value in condition.values))


def _possible(path: tuple[str, ...], value: Scalar, owner: Domain | Scalar) -> Scalar:
    if not isinstance(owner, Domain):
        if same(value, owner):
            return owner
        raise SpaceError(path, f"is {seen(value)}, which is impossible: {path[-1]} is always {seen(owner)}")
    try:
        return fitted(owner.distribution, value)
    except NotInsideError as error:
        raise SpaceError(path, f"is {seen(value)}, which is impossible: {path[-1]} is {error}") from None


_OPTIONS = {
    "float": ("log", "step", "grid", "when"),
    "int": ("log", "step", "when"),
    "choice": ("when",),
    "grid_search": ("when",),
}
_KINDS = ("float", "int", "choice")
_FORMS = "{float: [1e-4, 1.0], log: true}, {int: [1, 8]}, a list of choices or a constant"
# In a wider range the difference of the two ends overflows; no hyperparameter is so large.
_MOST = 1e300
# Larger whole numbers are not exact as the floats that samplers compute with.
_MOST_WHOLE = 2**53
_MOST_GRID = 1_000_000

Path = tuple[str, ...]


def parse_space(written: object) -> Space:
    """A `Space` and Optuna's distributions are taken as they are; a function is a `FunctionSpace`."""
    if isinstance(written, Space):
        return written
    if not isinstance(written, Mapping) or not written:
        example = "{lr: {float: [1e-4, 1.0], log: true}}"
        raise SpaceError((), f"is {seen(written)}; expected hyperparameters by name, such as {example}")
    return Space(checked({str(name): _entry((str(name),), value) for name, value in written.items()}))


def parse_domain(name: str, written: Mapping[str, object]) -> Domain:
    return _domain((name,), written)


def _entry(path: Path, written: object) -> Domain | Scalar:  # noqa: PLR0911  one case per form
    match written:
        case Domain():
            return written
        case FloatDistribution() | IntDistribution() | CategoricalDistribution():
            return Domain(distribution=written)
        case list() | tuple():
            return _choice(path, written)
        case Mapping():
            return _domain(path, written)
        case str() if (call := ray_style.from_text(path, written)) is not None:
            return _domain(path, call)
        case None:
            raise SpaceError(path, f"is empty; expected {_FORMS}")
        case _ if ray_style.is_ray(written):
            return _domain(path, ray_style.from_object(path, written))
        case _:
            return parse_scalar(path, written)


def _domain(path: Path, written: Mapping[Any, object]) -> Domain:
    options = {str(key): value for key, value in written.items()}
    kinds = [kind for kind in _OPTIONS if kind in options]
    if len(kinds) != 1:
        hint = "".join(did_you_mean(key, _KINDS) for key in options) if not kinds else ""
        raise SpaceError(path, f"is {seen(options)}; expected one of float, int and choice{hint}")
    kind = kinds[0]
    for key in options:
        if key not in (kind, *_OPTIONS[kind]):
            known, hint = either(_OPTIONS[kind]), did_you_mean(key, _OPTIONS[kind])
            raise SpaceError((*path, key), f"is not an option of {kind}; expected {known}{hint}")
    when = _when((*path, "when"), options["when"]) if "when" in options else ()
    if kind in ("float", "int"):
        return replace((_float if kind == "float" else _int)(path, options), when=when)
    return replace(_choice((*path, kind), options[kind]), when=when)


def _when(path: Path, written: object) -> tuple[Condition, ...]:
    """For each parent a value or a list of values; all conditions must be met."""
    if not isinstance(written, Mapping) or not written:
        raise SpaceError(path, f"is {seen(written)}; expected conditions by name, such as {{optimizer: sgd}}")
    conditions = []
    for parent, value in written.items():
        place = (*path, str(parent))
        values = list(value) if isinstance(value, list | tuple) else [value]
        if not values:
            raise SpaceError(place, "is []; expected a value, or a list of values")
        conditions.append(Condition(str(parent), tuple(_choice_value(place, each) for each in values)))
    return tuple(conditions)


def _choice_value(path: Path, value: object) -> Scalar:
    return None if value is None else parse_scalar(path, value)


def _choice(path: Path, written: object) -> Domain:
    if not isinstance(written, list | tuple) or not written:
        raise SpaceError(path, f"is {seen(written)}; expected a list of values, such as [0.9, 0.95, 0.99]")
    choices: list[Scalar] = []
    for position, value in enumerate(written):
        choice = _choice_value((*path, str(position)), value)
        if choice in choices:
            equal = seen(choices[choices.index(choice)])
            raise SpaceError((*path, str(position)), f"is {seen(value)}, which equals the choice {equal}")
        choices.append(choice)
    return Domain(distribution=CategoricalDistribution(choices))


def _float(path: Path, options: Mapping[str, object]) -> Domain:
    low, high = _range((*path, "float"), options["float"])
    log = _flag((*path, "log"), options.get("log", False))
    step = _number((*path, "step"), options["step"]) if "step" in options else None
    grid = _whole((*path, "grid"), options["grid"]) if "grid" in options else None
    if log and low <= 0:
        raise SpaceError((*path, "float"), f"starts at {low:g}; with log: true it starts above 0")
    if step is not None:
        if step <= 0 or log:
            reason = "log and step exclude each other" if log else "expected a positive number"
            raise SpaceError((*path, "step"), f"is {step:g}; {reason}")
        first, width = Decimal(str(low)), Decimal(str(step))
        # Optuna cuts the range to whole steps too, but with a warning.
        high = float(first + (Decimal(str(high)) - first) // width * width)
    if grid is not None and (step is not None or not 2 <= grid <= _MOST_GRID):
        expected = f"a whole number from 2 to {_MOST_GRID:,}"
        reason = "step already sets the points of the grid" if step is not None else f"expected {expected}"
        raise SpaceError((*path, "grid"), f"is {grid}; {reason}")
    return Domain(distribution=FloatDistribution(low, high, log=log, step=step), grid=grid)


def _int(path: Path, options: Mapping[str, object]) -> Domain:
    ends = _range((*path, "int"), options["int"])
    low, high = (_whole((*path, "int"), end) for end in ends)
    log = _flag((*path, "log"), options.get("log", False))
    step = _whole((*path, "step"), options.get("step", 1))
    if log and low < 1:
        raise SpaceError((*path, "int"), f"starts at {low}; with log: true it starts at 1 or above")
    if step < 1 or (log and step > 1):
        reason = "log and step exclude each other" if log else "expected 1 or more"
        raise SpaceError((*path, "step"), f"is {step}; {reason}")
    return Domain(distribution=IntDistribution(low, high - (high - low) % step, log=log, step=step))


def _range(path: Path, written: object) -> tuple[float, float]:
    if not isinstance(written, list | tuple) or len(written) != 2:
        raise SpaceError(path, f"is {seen(written)}; expected the two ends of a range, such as [1, 8]")
    low, high = _number(path, written[0]), _number(path, written[1])
    if low > high:
        raise SpaceError(path, f"is {seen(written)}; expected the smaller end first")
    return low, high


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


def parse_scalar(path: Path, value: object) -> Scalar:
    """Text, true or false, or a finite number."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and math.isfinite(value):
        return float(value)
    raise SpaceError(path, f"is {seen(value)}; expected text, a finite number, true or false")
