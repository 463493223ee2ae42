"""When a training trial saves by itself. Both runtimes use it: a simulation saves when a real run does.

A save is due at every new best and every max(30 s, 10 x save time), or as often as the job says. Saves begin
at least ten times their own length apart, whatever the job says, so that a model that improves with every
short iteration still trains. Only a model that reaches the target is saved at once: the run waits for it. A
state whose metric is not a finite number is not saved, because its trial fails. Saves at a pause or a barrier
are commands of the core. Slot processes import this module, so it is below the core and imports little.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from elastune.model.metric import Mode, Target

DEFAULT_INTERVAL_S = 30.0
SAVES_PER_INTERVAL = 10.0


class Saves(NamedTuple):
    """The saves of one gang so far, as far as the next one depends on them."""

    best: float | None  # a better value is a new best
    regular_s: float  # when the last regular save began; at first, when training began
    began_s: float = -math.inf  # when the last save of any kind began
    save_s: float | None = None  # how long the last save took; None: none has ended yet
    is_writing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRule:
    mode: Mode
    every_s: float = DEFAULT_INTERVAL_S
    save_s: float = 0.0  # expected length of a save, until one is measured
    target: Target | None = None

    def is_due(self, saves: Saves, value: float | None, now_s: float) -> bool:
        """Whether the state after an iteration that ended now, with this metric, is to be saved."""
        if value is None or not math.isfinite(value):
            return False
        if not self._is_best(value, saves.best) and not self.is_regular(saves, now_s):
            return False
        if self.target is not None and self.is_awaited(value):
            return True
        return not saves.is_writing and now_s - saves.began_s >= SAVES_PER_INTERVAL * (saves.save_s or 0.0)

    def is_regular(self, saves: Saves, now_s: float) -> bool:
        return now_s - saves.regular_s >= self._interval_s(saves.save_s)

    def is_awaited(self, value: float) -> bool:
        """Whether the run ends as soon as the model with this metric is durable."""
        return self.target is not None and self.target.is_reached_by(value)

    def begin(self, saves: Saves, value: float, now_s: float) -> Saves:
        """A save of the state with this metric begins now."""
        return self._with_save(saves, value, now_s, saves.save_s, is_writing=True)

    def end(self, saves: Saves, save_s: float) -> Saves:
        """The save that was being written is over, after `save_s`."""
        return saves._replace(save_s=save_s, is_writing=False)

    def begin_and_end(self, saves: Saves, value: float, now_s: float, save_s: float) -> Saves:
        """A save that begins now and will have taken `save_s`."""
        return self._with_save(saves, value, now_s, save_s, is_writing=False)

    def raise_best(self, saves: Saves, value: float | None) -> Saves:
        """A model with this metric is saved, here or elsewhere."""
        is_best = value is not None and self._is_best(value, saves.best)
        return saves._replace(best=value) if is_best else saves

    def is_visit_due(self, unsaved_s: float, save_s: float | None, *, training_ends: bool) -> bool:
        """If models hop: whether to save after a visit within an iteration, with `unsaved_s` of training.

        Always between training and evaluation, so that the training need not be repeated.
        """
        return training_ends or unsaved_s >= self._interval_s(save_s)

    def _with_save(
        self, saves: Saves, value: float, now_s: float, save_s: float | None, *, is_writing: bool
    ) -> Saves:
        best = value if self._is_best(value, saves.best) else saves.best
        regular_s = now_s if self.is_regular(saves, now_s) else saves.regular_s
        return Saves(best, regular_s, now_s, save_s, is_writing)  # a simulation saves very often

    def _interval_s(self, save_s: float | None) -> float:
        least_s = SAVES_PER_INTERVAL * (self.save_s if save_s is None else save_s)
        return least_s if least_s > self.every_s else self.every_s

    def _is_best(self, value: float, best: float | None) -> bool:
        """`best` was a finite number when it was saved."""
        if best is None or not math.isfinite(value):
            return math.isfinite(value)
        return value > best if self.mode is Mode.MAX else value < best
