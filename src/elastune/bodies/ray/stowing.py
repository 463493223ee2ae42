"""Models at rest, made durable by the driver: before their node goes, nobody else would."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from elastune.bodies.ray.carrier import fetch
from elastune.bodies.ray.messages import Model
from elastune.checkpoints import Store, decode, encode
from elastune.core import commands as do
from elastune.core import events as ev
from elastune.errors import ElastuneError

_HANDS = 2


class Stower:
    """Behind the driver's back; `done` tells what has come to its end."""

    def __init__(self, store: Store, *, pickles: bool) -> None:
        self._store = store
        self._pickles = pickles
        self._over: deque[tuple[do.Stow, str | None]] = deque()
        self._hands: ThreadPoolExecutor | None = None

    def stow(self, command: do.Stow, model: Model | None) -> None:
        if model is None or (model.iteration + 1, model.visits) != (command.iteration, command.visits):
            self._over.append((command, "it is not there any more"))
            return
        if self._hands is None:
            self._hands = ThreadPoolExecutor(max_workers=_HANDS, thread_name_prefix="stowing")
        self._hands.submit(self._write, command, model)

    def done(self, now_s: float) -> Iterator[ev.ModelStowed]:
        while self._over:
            command, error = self._over.popleft()
            yield ev.ModelStowed(
                at_s=now_s,
                trial=command.trial,
                generation=command.generation,
                iteration=command.iteration,
                visits=command.visits,
                error=error,
            )

    def _write(self, command: do.Stow, model: Model) -> None:
        error = None
        try:
            data = fetch(model).data
            if not isinstance(data, bytes):
                raise TypeError(f"a model is {type(data).__name__}, not bytes")  # noqa: TRY301
            whole = {"state": decode(data, pickles=self._pickles), "tally": dict(model.tally)}
            written = encode(whole, pickles=self._pickles)
            self._store.write_underway(command.trial, command.iteration, command.visits, written)
        except ElastuneError as failed:
            error = str(failed)
        except Exception as failed:  # noqa: BLE001  whatever Ray raises: the node that had it is gone
            error = f"{type(failed).__name__}: {failed}"
        self._over.append((command, error))
