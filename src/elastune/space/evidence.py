"""What a sampler that learns was told, and which part of it a model is made of.

Trials are stopped after different iterations, and a value after 1 iteration says little about one after 81.
As in BOHB (Falkner, Klein, Hutter 2018, section 4.1) a model is made of the values at one number of
iterations: the highest at which enough trials have one, and enough is one more than there are
hyperparameters, 3 at least. Deliberate deviation: no share of the trials is drawn at random to escape a model
that is wrong; the random first trials and the model's own spread have to do.
"""

from __future__ import annotations

_LEAST = 3


class Evidence:
    """Values by iteration and trial. The level only ever rises, so what lies below it is forgotten."""

    def __init__(self) -> None:
        self.level: int | None = None
        """The iteration whose values the model is made of; None: there are not enough at any."""
        self.seen: set[int] = set()
        """The trials with a value at any iteration."""
        self._values: dict[int, dict[int, float]] = {}

    def add(self, trial: int, iteration: int, value: float, *, hyperparameters: int) -> None:
        self.seen.add(trial)
        if self.level is not None and iteration < self.level:
            return
        values = self._values.setdefault(iteration, {})
        values[trial] = value
        enough = max(_LEAST, hyperparameters + 1)
        if len(values) >= enough and (self.level is None or iteration > self.level):
            self.level = iteration
            self._values = {each: of for each, of in self._values.items() if each >= iteration}

    def values(self) -> dict[int, float]:
        """The value of each trial that counts."""
        return {} if self.level is None else self._values[self.level]
