"""From what a step returned to numbers by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import SupportsFloat

from elastune.errors import JobError
from elastune.wording import seen


def read_metrics(given: object, *, metric: str | None, name: str) -> dict[str, float]:
    """The numbers in a mapping, or a bare number as `metric`; `name` is how errors speak of the trainable.

    What is no number is dropped, save for the metric itself, which must be there.
    """
    if not isinstance(given, Mapping):
        number = as_number(given)
        if number is None or metric is None:
            raise JobError(f"{name} gave {seen(given)}; expected {_expected(metric)}")
        return {metric: number}
    numbers = ((str(key), as_number(value)) for key, value in given.items())
    row = {key: value for key, value in numbers if value is not None}
    if metric is not None and metric not in row:
        raise JobError(f"{name} gave {seen(dict(given))}; expected {_expected(metric)}")
    return row


def as_number(value: object) -> float | None:
    """Of numpy and torch, scalars and arrays without dimensions; None: it is no number."""
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
