"""How models hop: between a node's crew of slot processes and Ray's object store.

A model that leaves a slot is put into the store of its node, and its name goes to the driver; where it is
needed next, it is fetched by that name, straight from node to node. While a slot trains, the model that comes
next can be brought already: one per slot.

Models at rest, made durable by the driver: before their node goes, nobody else would.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from elastune.checkpoints.encoding import decode, encode
from elastune.checkpoints.store import Store
from elastune.core import commands as do
from elastune.core import events as ev
from elastune.errors import ElastuneError
from elastune.runtime.ray.messages import Bring, Broken, Dissolve, Form, GangId, Model, News, Order, Visited
from elastune.runtime.ray.slot_processes import SlotProcesses

# Ray itself keeps smaller objects in its messages.
_LEAST_BYTES = 100_000
# Of each slot: those that look for a model which is gone are busy for a while.
_CARRIERS = 4
# News of a lost node may take longer to the driver than Ray's to us.
_LOSS_DELAY_S = 2.0


class ModelCarrier:
    """`tell` takes news of models that cannot be fetched."""

    def __init__(self, processes: SlotProcesses, slots: int, tell: Callable[[News], None]) -> None:
        self._processes = processes
        self._tell = tell
        self._lock = threading.Lock()
        self._awaited: set[GangId] = set()
        self._brought: dict[int, tuple[Model, Model]] = {}
        """By slot: the model as it was named, and with its bytes."""
        self._hands = ThreadPoolExecutor(max_workers=_CARRIERS * max(1, slots), thread_name_prefix="models")

    def order(self, slot: int, order: Order | Bring) -> None:
        match order:
            case Bring(model=model):
                if not isinstance(model.data, bytes):
                    self._hands.submit(self._bring, slot, model)
            case Form(model=Model() as model) if not isinstance(model.data, bytes):
                with self._lock:
                    named, ready = self._brought.pop(slot, (None, None))
                    # By its name in the store: after a loss there may be another model of as many visits.
                    if named is None or named.data != model.data:
                        self._awaited.add(order.gang)
                        self._hands.submit(self._seat, slot, order, model)
                        return
                self._processes.order(slot, replace(order, model=ready))
            case Dissolve(gang=gang) if self._is_awaited(gang):
                pass  # it never got to its slot
            case _:
                self._processes.order(slot, order)

    def close(self) -> None:
        self._hands.shutdown(wait=False, cancel_futures=True)

    def _seat(self, slot: int, form: Form, model: Model) -> None:
        try:
            form = replace(form, model=fetch(model))
        except Exception as error:  # noqa: BLE001  whatever Ray raises: the node that had it is gone
            if model.visits:
                self._tell_lost(form, error)
                return
            form = replace(form, model=None)  # between two iterations the store has it as well
        with self._lock:
            if form.gang in self._awaited:
                self._awaited.discard(form.gang)
                self._processes.order(slot, form)

    def _tell_lost(self, form: Form, error: Exception) -> None:
        """That the node is lost should be known before: then the visit goes on from a state that is there."""
        time.sleep(_LOSS_DELAY_S)
        if self._is_awaited(form.gang):
            lost = f"the model was lost on its way: {type(error).__name__}"
            self._tell(Broken(gang=form.gang, at=time.monotonic(), error=lost, fault=False, model_lost=True))

    def _bring(self, slot: int, model: Model) -> None:
        try:
            ready = fetch(model)
        except Exception:  # noqa: BLE001  then it is fetched when it is needed, or told
            return
        with self._lock:
            self._brought[slot] = model, ready

    def _is_awaited(self, gang: GangId) -> bool:
        with self._lock:
            was = gang in self._awaited
            self._awaited.discard(gang)
            return was


def stow(news: News) -> News:
    """A model that leaves its slot goes into the store of this node; what travels on is its name."""
    if not isinstance(news, Visited) or not isinstance(news.model.data, bytes):
        return news
    if len(news.model.data) < _LEAST_BYTES:
        return news
    import ray  # noqa: PLC0415

    return replace(news, model=replace(news.model, data=ray.put(news.model.data)))


def fetch(model: Model) -> Model:
    """With its bytes. Raises what Ray raises if they are gone."""
    if isinstance(model.data, bytes):
        return model
    import ray  # noqa: PLC0415

    return replace(model, data=ray.get(model.data))


_SAVERS = 2


class ModelSaver:
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
            self._hands = ThreadPoolExecutor(max_workers=_SAVERS, thread_name_prefix="stowing")
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
