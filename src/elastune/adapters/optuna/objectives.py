"""An Optuna objective as a trainable: an iteration is one report, and the last one is the value it returns.

An objective cannot be saved. When its trial continues, it is called again from the beginning. When the run
ends its trial, the report in which it is suspended raises `TrialPruned`, as a pruner would make it do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import optuna

from elastune.adapters.adapted_trainable import Adapter, adapt
from elastune.adapters.optuna.trials import TrainingTrial
from elastune.adapters.suspended import RandomState, SuspendedCall
from elastune.errors import JobError
from elastune.model.configuration import Scalar, scalar
from elastune.space.space import Distribution
from elastune.space.values import NotInsideError, fitted
from elastune.training.running import as_number
from elastune.training.trainable import Trainable
from elastune.training.worker import Worker
from elastune.wording import seen

METRIC = "value"
STEP = "step"
ATTRIBUTE = "user/"
"""The metrics of an objective: its value, the step of a report, and user attributes that are numbers."""


def trainable(objective: Callable[..., object]) -> type[Trainable]:
    """A trainable from `objective(trial)`. Its metric is `value`.

    >>> elastune.tune(trainable(objective), space=space(objective), metric="value", mode="min", ...)
    """
    if not callable(objective):
        raise JobError(f"the objective is {seen(objective)}; expected a function objective(trial)")
    made = adapt(OptunaObjective, objective)
    made.__name__ = made.__qualname__ = name_of(objective)
    return made


def name_of(objective: Callable[..., object]) -> str:
    name = getattr(objective, "__name__", type(objective).__name__)
    return name if name.isidentifier() else "objective"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveReport:
    value: float
    step: int | None
    attributes: Mapping[str, Any]

    @property
    def row(self) -> dict[str, float]:
        numbers = {f"{ATTRIBUTE}{name}": as_number(value) for name, value in self.attributes.items()}
        row = {name: value for name, value in numbers.items() if value is not None}
        return {METRIC: self.value, **({} if self.step is None else {STEP: float(self.step)}), **row}


class OptunaObjective(Adapter):
    """One call of the objective, in a thread that is suspended in its reports."""

    saves: ClassVar[bool] = False

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        self.config = config
        self.name = name_of(self.make)
        self.trial = TrainingTrial(self._value, worker.trial, self._report)
        objective: Callable[[TrainingTrial], object] = self.make  # type: ignore[assignment]
        self.call: SuspendedCall[ObjectiveReport] = SuspendedCall(
            lambda: objective(self.trial), name=self.name, end=optuna.TrialPruned
        )
        self.random = RandomState.now()
        self.last: float | None = None
        self.is_done = False

    def step(self) -> Mapping[str, float] | None:
        if self.is_done:
            return None
        self.random.restore()
        try:
            report = self.call.advance()
        except optuna.TrialPruned:
            if self.last is None:
                raise JobError(
                    f"{self.name} raised TrialPruned before its first report; expected a value to compare, "
                    "such as trial.report(float('inf'), 0) before"
                ) from None
            self.is_done = True
            return None
        finally:
            self.random = RandomState.now()
        if report is None:
            return self._returned()
        self.last = report.value
        return report.row

    def close(self) -> None:
        self.call.close()

    def _returned(self) -> Mapping[str, float] | None:
        """What the objective returns is its last iteration."""
        self.is_done = True
        value = self.call.returned
        if isinstance(value, tuple | list):
            raise JobError(
                f"{self.name} returned {len(value)} values; expected one: several objectives are not carried "
                "over; return the one to optimise, and the others by trial.set_user_attr"
            )
        number = as_number(value)
        if number is None:
            raise JobError(f"{self.name} returned {seen(value)}; expected one number")
        return ObjectiveReport(value=number, step=None, attributes=self.trial.user_attrs).row

    def _report(self, value: float, step: int | None, attributes: Mapping[str, Any]) -> None:
        self.call.report(ObjectiveReport(value=value, step=step, attributes=attributes))

    def _value(self, name: str, distribution: Distribution) -> Scalar:
        advice = (
            "its suggestions depend on other answers than choices; call optimize(..., every=True), which "
            "runs them for each configuration"
        )
        if name not in self.config:
            raise JobError(f"{self.name} suggests {name!r}, which this configuration does not have: {advice}")
        try:
            return fitted(distribution, scalar(self.config[name]))
        except NotInsideError as error:
            value = seen(self.config[name])
            raise JobError(f"{self.name} suggests {name!r} as {error}, but it is {value}: {advice}") from None
