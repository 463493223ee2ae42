"""When rank 0 saves, and how: the state is copied between two iterations and written behind their back."""

from __future__ import annotations

import math
import threading
import time

from elastune.bodies.ray.messages import Form, Manual
from elastune.bodies.ray.reporting import Reporter
from elastune.checkpoints import encode
from elastune.training import Training

LEAST_CHECKPOINT_S = 30.0
# Saving takes at most a tenth of the time, so that a model that improves with every short iteration trains.
SAVES_PER_CHECKPOINT = 10.0


class Saver:
    """Of one gang: regularly, at a new best, and when it is told to."""

    def __init__(self, manual: Manual, form: Form, training: Training, reporter: Reporter) -> None:
        self._manual = manual
        self._form = form
        self._training = training
        self._reporter = reporter
        self._best = form.terms.keep_above
        self._regular = time.monotonic()
        self._next = -math.inf
        self._saved = form.after_iteration
        self._writing: threading.Thread | None = None
        self._error: Exception | None = None

    def raise_bar(self, keep_above: float | None) -> None:
        """Elsewhere a better model was found meanwhile."""
        if keep_above is not None and self._is_best(keep_above):
            self._best = keep_above

    def consider(self, iteration: int, value: float | None, now: float) -> None:
        """After each iteration: is this state worth a checkpoint?"""
        is_best = value is not None and self._is_best(value)
        if not is_best and now - self._regular < self._every_s:
            return
        if not self._is_enough(value) and (now < self._next or self._is_writing):
            return
        if self._writing is not None:
            self._writing.join()
        if is_best:
            self._best = value
        self._regular = now
        data = self._copy()
        self._writing = threading.Thread(target=self._write, args=(iteration, data, now), daemon=True)
        self._writing.start()

    def keep(self, iteration: int) -> None:
        """When this returns, the state after `iteration` is durable. Raises if it cannot be."""
        if self._writing is not None:
            self._writing.join()
        if self._saved == iteration:
            return
        self._manual.store.write(self._form.gang.trial, iteration, self._copy())
        self._saved = iteration

    def finish(self) -> None:
        """Let what is being written be written, before a later gang may write the same."""
        if self._writing is not None:
            self._writing.join()

    def _copy(self) -> bytes:
        return encode(self._training.save(), pickles=self._manual.pickles)

    def _write(self, iteration: int, data: bytes, began: float) -> None:
        try:
            self._manual.store.write(self._form.gang.trial, iteration, data)
        except Exception as error:  # noqa: BLE001  whatever the storage raises; the next save tries again
            self._error = error
        else:
            self._saved, self._error = iteration, None
            self._reporter.add_saved(self._form.gang, iteration)
        self._next = time.monotonic() + SAVES_PER_CHECKPOINT * (time.monotonic() - began)

    @property
    def _every_s(self) -> float:
        return self._manual.checkpoint_every_s or LEAST_CHECKPOINT_S

    @property
    def _is_writing(self) -> bool:
        return self._writing is not None and self._writing.is_alive()

    def _is_enough(self, value: float | None) -> bool:
        target = self._manual.target
        return target is not None and value is not None and target.is_reached_by(value)

    def _is_best(self, value: float) -> bool:
        if not math.isfinite(value) or self._best is None:
            return math.isfinite(value)
        return value > self._best if self._manual.maximise else value < self._best
