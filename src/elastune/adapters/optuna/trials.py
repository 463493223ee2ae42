"""The trial that an objective gets: with it, the objective finds its space, and then trains.

Its suggestions are those of `elastune.space.function_space`. What a trial of Optuna has beside them and this
one has not is refused with the name of the attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from elastune.adapters.optuna.suggestions import Reports, SuggestedError
from elastune.errors import JobError
from elastune.model.configuration import Value
from elastune.space.function_space import SuggestingTrial
from elastune.space.space import Distribution, Domain, Draw
from elastune.wording import seen

_EXPECTED = (
    "suggest_float, suggest_int, suggest_categorical, report, should_prune, set_user_attr, params, number"
)


class NotCarriedOverError(JobError, AttributeError):
    """For people a wrong objective; for code that asks what an object has, an attribute that is missing."""


class AdapterTrial:
    """Both kinds of trial. `draw` gives the values."""

    def __init__(self, draw: Draw, number: int) -> None:
        self._inner = SuggestingTrial(draw)
        self._number = number
        self._attributes: dict[str, Any] = {}

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        return self._inner.suggest_float(name, low, high, step=step, log=log)

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        return self._inner.suggest_int(name, low, high, step=step, log=log)

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        return self._inner.suggest_categorical(name, choices)

    def suggest_uniform(self, name: str, low: float, high: float) -> float:
        return self.suggest_float(name, low, high)

    def suggest_loguniform(self, name: str, low: float, high: float) -> float:
        return self.suggest_float(name, low, high, log=True)

    def suggest_discrete_uniform(self, name: str, low: float, high: float, q: float) -> float:
        return self.suggest_float(name, low, high, step=q)

    def set_user_attr(self, key: str, value: Any) -> None:
        """Those that are numbers become metrics."""
        self._attributes[key] = value

    @property
    def params(self) -> dict[str, Value]:
        return self._inner.params

    @property
    def distributions(self) -> dict[str, Any]:
        found: dict[str, Distribution] = self._inner.distributions
        return dict(found)

    @property
    def domains(self) -> dict[str, Domain]:
        return self._inner.domains

    @property
    def user_attrs(self) -> dict[str, Any]:
        return dict(self._attributes)

    @property
    def number(self) -> int:
        return self._number

    @property
    def datetime_start(self) -> None:
        return None

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotCarriedOverError(
            f"the objective uses trial.{name}, which is not carried over; remove it, or use {_EXPECTED}"
        )


class SearchingTrial(AdapterTrial):
    """For the suggestions alone: the first report ends the objective."""

    def report(self, value: float, step: int) -> None:
        raise SuggestedError(Reports(any=True))

    def should_prune(self) -> bool:
        raise SuggestedError(Reports(any=True))


class TrainingTrial(AdapterTrial):
    """In training: its values are those of a configuration, and reports go to `reporting`."""

    def __init__(
        self, draw: Draw, number: int, reporting: Callable[[float, int | None, dict[str, Any]], None]
    ) -> None:
        super().__init__(draw, number)
        self._reporting = reporting
        self._steps: set[int] = set()

    def report(self, value: float, step: int) -> None:
        """A second report of a step is ignored, as in Optuna."""
        try:
            number, at = float(value), int(step)
        except (TypeError, ValueError):
            raise JobError(
                f"trial.report got {seen(value)} and {seen(step)}; expected a number and a whole step"
            ) from None
        if at not in self._steps:
            self._steps.add(at)
            self._reporting(number, at, self.user_attrs)

    def should_prune(self) -> bool:
        """Never: which trials go on is decided by the run, which ends the others in their reports."""
        return False
