"""The space of an objective, found by running its suggestions.

What an objective suggests next may depend on its answers so far. So the calls are kept as a tree: a choice,
or a whole number of few values (such as how many layers), has a branch per value; all other numbers share
one. A branch that has not been seen is found by running the objective once more. In training, a call that is
not as it was found fails the trial with what to do: `every=True` runs the objective for each configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from optuna.distributions import CategoricalDistribution, IntDistribution

from elastune.adapters.optuna.suggestions import Reports, run_suggestions
from elastune.adapters.optuna.trials import SearchingTrial
from elastune.errors import JobError
from elastune.model.configuration import Scalar, Value, scalar
from elastune.space.function_space import SuggestingTrial
from elastune.space.space import Distribution, Domain
from elastune.space.values import NotInsideError, fitted, quantile

# A whole number of more values decides a size, not what is suggested next.
_FEW = 32
Branch = tuple[tuple[str, Scalar], ...]


class ObjectiveSpace:
    """A function `suggest(trial)` for the `space` of a job. `sampler` is a sampler of Optuna for it."""

    def __init__(self, objective: Callable[..., object], *, every: bool = False, sampler: Any = None) -> None:
        self.sampler = sampler
        self.reports: Reports = Reports(any=False)
        self.runs = 0  # how often the objective was run for its suggestions
        self._objective = objective
        self._every = every
        self._next: dict[Branch, tuple[str, Domain] | None] = {}
        self.__name__ = self.__qualname__ = getattr(objective, "__name__", type(objective).__name__)
        self.__module__ = getattr(objective, "__module__", __name__)

    def __call__(self, trial: SuggestingTrial) -> None:
        branch: Branch = ()
        while True:
            if branch not in self._next:
                self._explore(trial.params)
            if branch not in self._next:
                raise JobError(
                    f"the objective {self.__name__} suggests something else for the same answers; expected "
                    "suggestions that depend on nothing else, such as random numbers or the time"
                )
            found = self._next[branch]
            if found is None:
                return
            name, domain = found
            branch = (*branch, self._step(name, domain, trial.suggest(name, domain)))

    def _explore(self, answers: Mapping[str, Value]) -> None:
        """Run the objective with these answers, and with values from the middle for all else."""
        self.runs += 1

        def draw(name: str, distribution: Distribution) -> Scalar:
            if name in answers:
                with suppress(NotInsideError):  # another range for other answers: only `every` sees that
                    return fitted(distribution, scalar(answers[name]))
            return quantile(distribution)(0.5)

        trial = SearchingTrial(draw, number=0)
        reports = run_suggestions(self._objective, trial)
        self.reports = reports if reports.any or not self.reports.any else self.reports
        branch: Branch = ()
        for name, domain in trial.domains.items():
            self._next[branch] = (name, domain)
            branch = (*branch, self._step(name, domain, trial.params[name]))
        self._next[branch] = None

    def _step(self, name: str, domain: Domain, value: Value) -> tuple[str, Scalar]:
        match domain.distribution:
            case CategoricalDistribution():
                decides = True
            case IntDistribution(low=low, high=high, step=step):
                decides = (high - low) // step < _FEW
            case _:
                decides = False
        return name, scalar(value) if decides or self._every else None
