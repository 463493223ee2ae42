"""How rank 0 saves: the state is copied between two iterations and written behind their back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from elastune.bodies.ray.messages import Form, Manual
from elastune.bodies.ray.reporting import Reporter
from elastune.checkpoints import encode
from elastune.spec.checkpointing import Saves
from elastune.training import Training


class Saver:
    """Of one gang: when the rule says so, and when it is told to."""

    def __init__(
        self,
        manual: Manual,
        form: Form,
        training: Training,
        reporter: Reporter,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._manual = manual
        self._form = form
        self._training = training
        self._reporter = reporter
        self._clock = clock
        self._saves = Saves(best=form.terms.keep_above, regular_s=clock())
        self._saved = form.after_iteration
        self._writing: threading.Thread | None = None
        self._took_s = 0.0

    def raise_bar(self, keep_above: float | None) -> None:
        """Elsewhere a better model was found meanwhile."""
        self._saves = self._manual.checkpoints.raise_best(self._saves, keep_above)

    def consider(self, iteration: int, value: float | None, now: float) -> None:
        """After each iteration: is this state worth a checkpoint?"""
        rule = self._manual.checkpoints
        if self._writing is not None and not self._writing.is_alive():
            self.finish()
        if value is None or not rule.is_due(self._saves, value, now):
            return
        self.finish()
        began = self._clock()
        self._saves = rule.begin(self._saves, value, began)
        data = self._copy()
        self._writing = threading.Thread(target=self._write, args=(iteration, data, began), daemon=True)
        self._writing.start()

    def keep(self, iteration: int) -> None:
        """When this returns, the state after `iteration` is durable. Raises if it cannot be."""
        self.finish()
        if self._saved == iteration:
            return
        self._manual.store.write(self._form.gang.trial, iteration, self._copy())
        self._saved = iteration

    def finish(self) -> None:
        """Let what is being written be written, before a later gang may write the same."""
        if self._writing is not None:
            self._writing.join()
            self._writing = None
            self._saves = self._manual.checkpoints.end(self._saves, self._took_s)

    def _copy(self) -> bytes:
        return encode(self._training.save(), pickles=self._manual.pickles)

    def _write(self, iteration: int, data: bytes, began: float) -> None:
        try:
            self._manual.store.write(self._form.gang.trial, iteration, data)
        except Exception:  # noqa: BLE001, S110  whatever the storage raises; the next save tries again
            pass
        else:
            self._saved = iteration
            self._reporter.add_saved(self._form.gang, iteration)
        self._took_s = self._clock() - began
