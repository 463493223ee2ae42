"""Samplers that learn: Optuna's TPE and Gaussian process, on what was told so far.

The study that Optuna looks at is put together anew for every ask from what was told, with the numbers of our
own trials; its sampler is made anew too, seeded by (seed, trial). So a configuration depends on nothing else,
and a run that is resumed only has to say again what was told. Trials without a value count as running: both
samplers keep away from them, so that configurations asked for side by side differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from elastune.space.evidence import Evidence
from elastune.space.given import completed
from elastune.space.random_sampler import RandomSampler
from elastune.space.sampler import AnySpace, Configuration
from elastune.space.space import Distribution, Draw, Scalar, Space
from elastune.space.space_sampler import SpaceSampler
from elastune.spec import Mode

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

Model = Literal["tpe", "gp"]
STARTUP = 10


class ModelSampler(SpaceSampler):
    """Draws at random until `startup` trials have a value, then by the model."""

    learns = True

    def __init__(
        self, space: AnySpace, *, seed: int, mode: Mode, model: Model = "tpe", startup: int = STARTUP
    ) -> None:
        super().__init__(space, seed=seed)
        # The samplers of Optuna are only imported where they are used.
        from elastune.space import optuna_models  # noqa: PLC0415

        if model == "gp":
            optuna_models.check_gp()
        self._make_model = optuna_models.tpe if model == "tpe" else optuna_models.gp
        self._optuna = optuna_models
        self._mode = mode
        self._startup = startup
        self._random = RandomSampler(space, seed=seed)
        self._evidence = Evidence()
        self._pending: dict[int, FrozenTrial] = {}
        self._known: dict[tuple[int, float], FrozenTrial] = {}
        self._given: dict[int, tuple[dict[str, Scalar], dict[str, Distribution]]] = {}
        self._hyperparameters = len(space.domains) if isinstance(space, Space) else 0

    def ask(self, trial: int) -> Configuration:
        return self._remembered(trial, self._space.configure(self.draw(trial)))

    def complete(self, trial: int, given: Configuration) -> Configuration:
        return self._remembered(trial, completed(self._space, given, self.draw(trial)))

    def fork(self, trial: int, parent: Configuration) -> Configuration:
        return self._remembered(trial, super().fork(trial, parent))

    def tell(self, trial: int, iteration: int, value: float) -> None:
        """What is told of a trial whose configuration was never asked for cannot be used."""
        if trial in self._given:
            self._pending.pop(trial, None)
            self._evidence.add(trial, iteration, value, hyperparameters=self._hyperparameters)

    def draw(self, trial: int) -> Draw:
        if self._evidence.level is None or len(self._evidence.seen) < self._startup:
            return self._random.draw(trial)
        made: list[Draw] = []

        def draw(name: str, distribution: Distribution) -> Scalar:
            # Where all values are given no model is made.
            if not made:
                made.append(self._suggestion(trial))
            return made[0](name, distribution)

        return draw

    def _suggestion(self, trial: int) -> Draw:
        seed = int(np.random.SeedSequence((self._seed, trial)).generate_state(1)[0])
        # As soon as there is evidence at a level it is used: `startup` has already been waited for.
        model = self._make_model(seed, 1)
        told = self._evidence.values()
        trials = [self._told(each, value) for each, value in told.items() if each != trial]
        trials += [pending for each, pending in self._pending.items() if each != trial]
        trials.sort(key=lambda each: each.number)
        return self._optuna.suggest(model, self._mode, trial, trials)

    def _told(self, trial: int, value: float) -> FrozenTrial:
        """Kept, because every ask needs all of them."""
        key = (trial, value)
        if key not in self._known:
            self._known[key] = self._optuna.shown_trial(trial, *self._given[trial], value)
        return self._known[key]

    def _remembered(self, trial: int, configuration: Configuration) -> Configuration:
        values: dict[str, Scalar] = {}
        distributions: dict[str, Distribution] = {}

        def remember(name: str, distribution: Distribution) -> Scalar:
            values[name], distributions[name] = configuration[name], distribution
            return configuration[name]

        self._space.configure(remember)
        if trial in self._given:
            self._known = {key: each for key, each in self._known.items() if key[0] != trial}
        self._given[trial] = values, distributions
        if trial not in self._evidence.seen:
            self._pending[trial] = self._optuna.shown_trial(trial, values, distributions)
        self._hyperparameters = max(self._hyperparameters, len(values))
        return configuration
