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
        self._given: set[TrialId] = set()

    def remember(self, trials: Iterable[Trial]) -> None:
        """Restore what a resumed run has drawn and learnt."""
        for trial in trials:
            self.configs[trial.number] = trial.config
            if trial.given:
                self._given.add(trial.number)
            if self._sampler.learns:
                self._sampler.complete(trial.number, trial.config)
                for iteration, value in enumerate(trial.values, start=1):
                    self._sampler.tell(trial.number, iteration, value)

    def sample(self, trials: Iterable[TrialId], at_s: float, given: Iterable[Sampled] = ()) -> TrialsSampled:
        """`given`: values that some of the trials have to have."""
        drawn: list[Sampled] = []
        values = dict(given)
        for trial in trials:
            config = self._complete(trial, values[trial]) if trial in values else self._ask(trial)
            if config is None:
                return TrialsSampled(at_s=at_s, trials=tuple(drawn), exhausted=True)
            self.configs[trial] = config
            drawn.append(Sampled(trial, config))
        return TrialsSampled(at_s=at_s, trials=tuple(drawn))

    def _complete(self, trial: TrialId, given: Config) -> Config:
        self._given.add(trial)
        return self._sampler.complete(trial, given)

    def _ask(self, trial: TrialId) -> Config | None:
        """A grid or a table gives each of its configurations once: given ones take no place in it. A sampler
        that learns knows its trials by their numbers."""
        if self._sampler.size is None or self._sampler.learns:
            return self._sampler.ask(trial)
        return self._sampler.ask(trial - sum(each < trial for each in self._given))

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
