"""Configurations for new trials: the part of a runtime that asks the sampler and reports values to it."""

from __future__ import annotations

import math
from collections.abc import Iterable

from elastune.core.events import Config, Row, Sampled, TrialsSampled
from elastune.core.trials import Trial
from elastune.model.ids import TrialId
from elastune.space.sampler import Sampler


class Sampling:
    def __init__(self, sampler: Sampler, metric: str) -> None:
        self.configs: dict[TrialId, Config] = {}
        self._sampler = sampler
        self._metric = metric

    def remember(self, trials: Iterable[Trial]) -> None:
        """Restore what a resumed run has drawn and learnt."""
        for trial in trials:
            self.configs[trial.number] = trial.config
            if self._sampler.learns:
                self._sampler.complete(trial.number, trial.config)
                for iteration, value in enumerate(trial.values, start=1):
                    self._sampler.tell(trial.number, iteration, value)

    def sample(self, trials: Iterable[TrialId], at_s: float) -> TrialsSampled:
        drawn: list[Sampled] = []
        for trial in trials:
            config = self._sampler.ask(trial)
            if config is None:
                return TrialsSampled(at_s=at_s, trials=tuple(drawn), exhausted=True)
            self.configs[trial] = config
            drawn.append(Sampled(trial, config))
        return TrialsSampled(at_s=at_s, trials=tuple(drawn))

    def fork(self, trial: TrialId, parent: TrialId, at_s: float) -> TrialsSampled:
        config = self._sampler.fork(trial, self.configs[parent])
        if config is None:
            return TrialsSampled(at_s=at_s, trials=(), exhausted=True)
        self.configs[trial] = config
        return TrialsSampled(at_s=at_s, trials=(Sampled(trial, config),))

    def teach(self, trial: TrialId, rows: Iterable[Row]) -> None:
        """Pass what is reported to the core to a sampler that learns."""
        if self._sampler.learns:
            for row in rows:
                value = row.metrics.get(self._metric, math.nan)
                if math.isfinite(value):
                    self._sampler.tell(trial, row.iteration, value)
