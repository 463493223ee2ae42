"""The sampler that learns: Optuna's TPE or Gaussian process on the values reported so far.

A value after 1 iteration says little about one after 81. So, as in BOHB (Falkner, Klein, Hutter 2018, section
4.1), a model is made of the values at one number of iterations: the highest at which enough trials have one
(one more than there are hyperparameters, at least 3). Deliberate deviations: no share of the trials is drawn
at random to escape a wrong model; the random first trials and the model's own spread have to do. And TPE also
sees the trials that did not get so far, as worse ones: those that did are a selection of good ones, and a
model of them alone keeps away from where they are.

Each ask builds Optuna's study and its sampler, seeded by (seed, trial), anew: a configuration depends on
nothing but the reports, which a resumed run repeats. Trials without a value count as running: both samplers
keep away from them, so configurations asked for side by side differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from elastune.model.configuration import Configuration
from elastune.model.metric import Mode
from elastune.space.plain_samplers import RandomSampler
from elastune.space.sampler import AnySpace, LearningSampler, completed
from elastune.space.space import Draw, Space

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

Model = Literal["tpe", "gp"]
STARTUP = 10
_LEAST = 3
# Trials below the level that TPE sees for each one at the level.
_WORSE = 3


class Evidence:
    """Values by iteration and trial. The level only rises, so values below it are dropped."""

    def __init__(self) -> None:
        self.level: int | None = None  # the iteration whose values the model is made of, if one has enough
        self.seen: dict[int, tuple[int, float]] = {}  # by trial: its last iteration with a value, and that
        self._values: dict[int, dict[int, float]] = {}

    def add(self, trial: int, iteration: int, value: float, *, hyperparameters: int) -> None:
        if iteration >= self.seen.get(trial, (0, 0.0))[0]:
            self.seen[trial] = iteration, value
        if self.level is not None and iteration < self.level:
            return
        values = self._values.setdefault(iteration, {})
        values[trial] = value
        enough = max(_LEAST, hyperparameters + 1)
        if len(values) >= enough and (self.level is None or iteration > self.level):
            self.level = iteration
            self._values = {each: of for each, of in self._values.items() if each >= iteration}

    def values(self) -> dict[int, float]:
        """By trial, at the level."""
        return {} if self.level is None else self._values[self.level]

    def below(self, mode: Mode) -> list[int]:
        """The trials that have no value at the level, the best first: who got further, then by value."""
        sign = -1.0 if mode is Mode.MAX else 1.0
        reached = self.values()
        rest = [
            (-last, sign * value, trial) for trial, (last, value) in self.seen.items() if trial not in reached
        ]
        return [trial for _, _, trial in sorted(rest)]


class ModelSampler(LearningSampler):
    """Draws at random until `startup` trials have a value, then by the model."""

    def __init__(
        self, space: AnySpace, *, seed: int, mode: Mode, model: Model = "tpe", startup: int = STARTUP
    ) -> None:
        super().__init__(space, seed=seed)
        # Optuna's samplers are imported only where they are used.
        from elastune.space import optuna_models  # noqa: PLC0415

        if model == "gp":
            optuna_models.check_gp()
        self._make_model = optuna_models.tpe if model == "tpe" else optuna_models.gp
        self._shows_all = model == "tpe"
        self._optuna = optuna_models
        self._mode = mode
        self._startup = startup
        self._random = RandomSampler(space, seed=seed)
        self._evidence = Evidence()
        self._pending: dict[int, FrozenTrial] = {}
        self._known: dict[tuple[int, float], FrozenTrial] = {}
        self._hyperparameters = len(space.domains) if isinstance(space, Space) else 0

    def tell(self, trial: int, iteration: int, value: float) -> None:
        """Reports of trials whose configuration was never asked for are ignored."""
        if trial in self._given:
            self._pending.pop(trial, None)
            self._evidence.add(trial, iteration, value, hyperparameters=self._hyperparameters)

    def learn(self, old: Sequence[tuple[Configuration, Sequence[float]]]) -> None:
        """Trials of an earlier search, in their order, with their values after iteration 1, 2, ... They have
        numbers below 0: to the model they are older than all others."""
        for number, (config, values) in enumerate(old, start=-len(old)):
            self._remembered(number, completed(self._space, config, self._random.draw(0)))
            for iteration, value in enumerate(values, start=1):
                self.tell(number, iteration, value)

    @property
    def is_fitted(self) -> bool:
        """Whether draws come from the model; until then they are random."""
        return self._evidence.level is not None and len(self._evidence.seen) >= self._startup

    def draw(self, trial: int) -> Draw:
        if not self.is_fitted:
            return self._random.draw(trial)
        # The model is made at the first value that is not given.
        suggestion = cache(self._suggestion)
        return lambda name, distribution: suggestion(trial)(name, distribution)  # noqa: PLW0108  made late

    def _suggestion(self, trial: int) -> Draw:
        seed = int(np.random.SeedSequence((self._seed, trial)).generate_state(1)[0])
        reported = self._evidence.values()
        # 1: `startup` trials have reported already, so evidence at a level is used at once.
        model = self._make_model(seed, 1)
        trials = [self._complete_trial(each, value) for each, value in reported.items() if each != trial]
        if self._shows_all:
            worse = self._worse_than(reported).items()
            shown = self._optuna.shown_trial
            trials += [shown(each, *self._given[each], value) for each, value in worse if each != trial]
        trials += [pending for each, pending in self._pending.items() if each != trial]
        trials.sort(key=lambda each: each.number)
        return self._optuna.suggest(model, self._mode, trial, trials)

    def _worse_than(self, reported: Mapping[int, float]) -> dict[int, float]:
        """Values for trials that have none at the level, of which only the order counts; three for each one
        that has, from the best to the worst: with more, most of those at the level would count as good."""
        sign = -1.0 if self._mode is Mode.MAX else 1.0
        worst = max(sign * value for value in reported.values())
        step = max(1.0, abs(worst))
        below = self._evidence.below(self._mode)
        below = below[:: max(1, math.ceil(len(below) / (_WORSE * len(reported))))]
        return {trial: sign * (worst + step * place) for place, trial in enumerate(below, 1)}

    def _complete_trial(self, trial: int, value: float) -> FrozenTrial:
        """Cached, because every ask needs all of them."""
        key = (trial, value)
        if key not in self._known:
            self._known[key] = self._optuna.shown_trial(trial, *self._given[trial], value)
        return self._known[key]

    def _remembered(self, trial: int, configuration: Configuration) -> Configuration:
        if trial in self._given:
            self._known = {key: each for key, each in self._known.items() if key[0] != trial}
        super()._remembered(trial, configuration)
        values, distributions = self._given[trial]
        if trial not in self._evidence.seen:
            self._pending[trial] = self._optuna.shown_trial(trial, values, distributions)
        self._hyperparameters = max(self._hyperparameters, len(values))
        return configuration
