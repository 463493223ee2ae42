"""A search that begins with what an earlier one found: its trials, mapped to the space of the new search.

The spaces may differ. A hyperparameter that the new space does not have, or whose value lies outside of it,
is left out of an old configuration. One that is whole without it is shown to a sampler that learns; one that
is not, because the new space has more hyperparameters, can only be tried again: missing values are drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from elastune.model.configuration import Configuration, Scalar
from elastune.model.metric import Mode
from elastune.space.sampler import AnySpace, completed
from elastune.space.space import Distribution, SpaceError
from elastune.space.values import quantile
from elastune.wording import plural, several


class OldTrial(NamedTuple):
    """`values[i]` is the metric after iteration i + 1."""

    config: Configuration
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedTrial:
    """`config` has the values that the new space has, too. `is_whole`: nothing is missing."""

    config: Configuration
    values: tuple[float, ...]
    is_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedTrials:
    """In the order of the old search; `left_out` counts how often a hyperparameter was."""

    trials: tuple[MappedTrial, ...]
    left_out: Counter[str]

    @property
    def whole(self) -> list[MappedTrial]:
        return [trial for trial in self.trials if trial.is_whole]

    def best(self, count: int, mode: Mode) -> list[Configuration]:
        """Different configurations, best first."""
        top = max if mode is Mode.MAX else min
        ranked = sorted(self.trials, key=lambda trial: top(trial.values), reverse=mode is Mode.MAX)
        chosen: list[Configuration] = []
        for trial in ranked:
            if trial.config and trial.config not in chosen:
                chosen.append(trial.config)
        return chosen[:count]

    def describe(self, run: str, *, learns: bool, first: int) -> str:
        """What becomes of the old trials, for people."""
        whole = plural(len(self.whole), "trial")
        parts = [f"the sampler learns from {whole}"] if learns else []
        if not learns and not first:
            parts.append("the sampler does not learn, so its trials have no effect")
        if first:
            parts.append(f"the best {plural(min(first, len(self.trials)), 'configuration')} of it first")
        missing = len(self.trials) - len(self.whole)
        if missing and learns:
            incomplete = f"{plural(missing, 'trial')} without all hyperparameters of this space"
            parts.append(f"{incomplete} not shown to it")
        if self.left_out:
            parts.append(f"not of this space and ignored: {several(sorted(self.left_out))}")
        return f"warm start with run {run}: {'; '.join(parts)}"


def map_trials(space: AnySpace, trials: Sequence[OldTrial]) -> MappedTrials:
    """Trials without a value are no use."""
    left_out: Counter[str] = Counter()
    mapped = [_mapped(space, trial, left_out) for trial in trials if trial.values]
    return MappedTrials(trials=tuple(mapped), left_out=left_out)


def _mapped(space: AnySpace, trial: OldTrial, left_out: Counter[str]) -> MappedTrial:
    kept = dict(trial.config)
    while True:
        drawn: list[str] = []

        def draw(name: str, distribution: Distribution, drawn: list[str] = drawn) -> Scalar:
            drawn.append(name)
            return quantile(distribution)(0.0)

        try:
            completed(space, kept, draw)
        except SpaceError as error:
            name = error.path[0]
            left_out[name] += 1
            del kept[name]
        else:
            return MappedTrial(config=kept, values=trial.values, is_whole=not drawn)
