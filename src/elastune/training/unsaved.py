"""Trainables that cannot be saved: plain functions, generators without a save, classes without save and load.

When such a trial continues (after a pause, a lost node, a resume), it trains again from the beginning. Its
checkpoint is a record without a model. A plain function is one call: the whole training is one iteration or,
with a fidelity, a call from the beginning to the iteration of each lease.
"""

from __future__ import annotations

import dis
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from elastune.errors import JobError
from elastune.training.running import NO_MODEL, IterationResult, MetricMissingError, Row
from elastune.training.trainable import State

# Sums of floats in another order differ by less.
_TOLERANCE = 1e-6


def is_no_model(state: State) -> bool:
    return isinstance(state, Mapping) and state.get("elastune") == NO_MODEL


def difference(state: State, row: Row) -> str:
    """How the metrics of the iteration that was trained again differ from the record; empty: not at all."""
    before: Mapping[str, float] = state["metrics"] if is_no_model(state) else {}
    for name in sorted(before.keys() & row.keys()):
        if not math.isclose(before[name], row[name], rel_tol=_TOLERANCE, abs_tol=_TOLERANCE**2):
            return f"{name} was {before[name]:.6g} and is {row[name]:.6g}"
    return ""


class CallTraining:
    """A plain function. With a fidelity, each step is a call up to the worker's iteration."""

    def __init__(
        self, call: Callable[[Mapping[str, Any]], object], results: IterationResult, fidelity: str | None
    ) -> None:
        self._call = call
        self._results = results
        self._fidelity = fidelity
        self._called = False

    def step(self) -> Row | None:
        results = self._results
        results.begin()
        if self._called and self._fidelity is None:
            results.finish()
            return None
        if self._called:  # every call begins with the same random numbers
            results.worker.enter_setup()
        self._called = True
        amount = {} if self._fidelity is None else {self._fidelity: results.worker.iteration}
        metrics = self._call(amount)
        if metrics is None:
            raise MetricMissingError(
                f"{results.name} returned nothing; expected its metrics, a number or a mapping of numbers"
            )
        return results.read(metrics)

    def evaluate(self) -> Row:
        raise JobError(f"{self._results.name} is a function; expected a class with evaluate()")

    def save(self) -> State:
        return self._results.no_model()

    def close(self) -> None:
        pass


def reads_argument(called: Callable[..., object], code: Callable[..., object], position: int) -> bool:
    """Whether the code of what is called reads the argument at this position; True: it does, or that cannot
    be seen."""
    try:
        parameters = list(inspect.signature(called).parameters.values())
    except (TypeError, ValueError):
        return True
    compiled = getattr(code, "__code__", None)
    plain = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if compiled is None or position >= len(plain):
        return True
    name = plain[position].name
    if name in compiled.co_cellvars:  # a function inside reads it
        return True
    loads = (each for each in dis.get_instructions(compiled) if each.opname.startswith("LOAD"))
    return any(
        name == each.argval or (isinstance(each.argval, tuple) and name in each.argval) for each in loads
    )
