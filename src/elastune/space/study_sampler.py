"""Configurations from a sampler of Optuna that the user made, with trials that were known before the run.

The sampler sees what it would see in a study that asks for one trial after the other. A trial that has been
trained as long as the longest is complete; one that has not is shown as pruned, with its values so far; one
without a value is running. Unlike the other samplers, it may have a state: asks in another order give other
configurations, and a resumed run may continue with others than the run would have had.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from elastune.model.configuration import Scalar
from elastune.model.metric import Mode
from elastune.space.sampler import AnySpace, LearningSampler
from elastune.space.space import Distribution, Draw

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSampler:
    """A space that is a function may have one, as its attribute `sampler`. `before`: the known trials."""

    sampler: BaseSampler
    before: tuple[FrozenTrial, ...] = ()


class StudySampler(LearningSampler):
    def __init__(self, space: AnySpace, own: OwnSampler, *, seed: int, mode: Mode) -> None:
        super().__init__(space, seed=seed)
        from elastune.space import optuna_models  # noqa: PLC0415  Optuna's samplers take long to import

        self._optuna = optuna_models
        self._sampler = copy.deepcopy(own.sampler)  # a run must not depend on the one before
        self._before = own.before
        self._mode = mode
        self._values: dict[int, dict[int, float]] = {}

    def tell(self, trial: int, iteration: int, value: float) -> None:
        """Reports of trials whose configuration was never asked for are ignored."""
        if trial in self._given:
            self._values.setdefault(trial, {})[iteration] = value

    def draw(self, trial: int) -> Draw:
        number, made = len(self._before) + trial, list[Draw]()

        def draw(name: str, distribution: Distribution) -> Scalar:
            if not made:  # at the first value that is not given
                made.append(self._optuna.suggest(self._sampler, self._mode, number, self._known()))
            return made[0](name, distribution)

        return draw

    def _known(self) -> tuple[FrozenTrial, ...]:
        longest = max((max(values) for values in self._values.values()), default=0)
        first = len(self._before)
        shown = [
            self._optuna.told_trial(first + trial, *given, self._values.get(trial, {}), longest)
            for trial, given in sorted(self._given.items())
        ]
        return (*self._before, *shown)
