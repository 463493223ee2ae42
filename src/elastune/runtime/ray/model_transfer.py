"""How models move: between slot processes and Ray's object store, and from there to the checkpoint store.

A model that leaves a slot is put into the object store of its node, and the driver gets its name; the next
slot fetches it by that name, directly from node to node. While a slot trains, the next model can be
prefetched: one per slot. Suspended models are saved by the driver before their node is released.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

from elastune.checkpoints.encoding import decode, encode
from elastune.checkpoints.store import Store
from elastune.core import commands as do
from elastune.core import events as ev
from elastune.errors import ElastuneError
from elastune.model.ids import NodeId, Slot, TrialId
from elastune.runtime.ray import messages as msg
from elastune.runtime.ray.slot_processes import SlotProcesses

# Ray itself keeps smaller objects in its messages.
_LEAST_BYTES = 100_000
# Threads per slot: a search for a model that is gone keeps one busy for a while.
_CARRIERS = 4
# The driver may learn later of a lost node than Ray here.
_LOSS_DELAY_S = 2.0


class ModelCarrier:
    """`report` gets the news of models that cannot be fetched."""

    def __init__(self, processes: SlotProcesses, slots: int, report: Callable[[msg.News], None]) -> None:
        self._processes = processes
        self._report = report
        self._lock = threading.Lock()
        self._awaited: set[msg.GangId] = set()
        self._prefetched: dict[int, tuple[msg.Model, msg.Model]] = {}
        """By slot: the model by its name in the object store, and with its bytes."""
        self._threads = ThreadPoolExecutor(max_workers=_CARRIERS * max(1, slots), thread_name_prefix="models")

    def order(self, slot: int, order: msg.Order | msg.Prefetch) -> None:
        match order:
            case msg.Prefetch(model=model):
                if not isinstance(model.data, bytes):
                    self._threads.submit(self._prefetch, slot, model)
            case msg.Form(model=msg.Model() as model) if not isinstance(model.data, bytes):
                with self._lock:
                    named, ready = self._prefetched.pop(slot, (None, None))
                    # By its name in the store: after a loss there may be another model of as many visits.
                    if named is None or named.data != model.data:
                        self._awaited.add(order.gang)
                        self._threads.submit(self._fetch_and_order, slot, order, model)
                        return
                self._processes.order(slot, replace(order, model=ready))
            case msg.Dissolve(gang=gang) if self._is_awaited(gang):
                pass  # it has not reached its slot
            case _:
                self._processes.order(slot, order)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _fetch_and_order(self, slot: int, form: msg.Form, model: msg.Model) -> None:
        try:
            form = replace(form, model=fetch(model))
        except Exception as error:  # noqa: BLE001  Ray raises many kinds: the node that had it is gone
            if model.visits:
                self._report_lost(form, error)
                return
            form = replace(form, model=None)  # between two iterations the checkpoint store has it
        with self._lock:
            if form.gang in self._awaited:
                self._awaited.discard(form.gang)
                self._processes.order(slot, form)

    def _report_lost(self, form: msg.Form, error: Exception) -> None:
        """After the loss of the node: then the visit continues from a state that still exists."""
        time.sleep(_LOSS_DELAY_S)
        if self._is_awaited(form.gang):
            lost = f"the model was lost on its way: {type(error).__name__}"
            self._report(
                msg.Broken(gang=form.gang, at=time.monotonic(), error=lost, fault=False, model_lost=True)
            )

    def _prefetch(self, slot: int, model: msg.Model) -> None:
        try:
            ready = fetch(model)
        except Exception:  # noqa: BLE001  fetched again, or reported, when it is needed
            return
        with self._lock:
            self._prefetched[slot] = model, ready

    def _is_awaited(self, gang: msg.GangId) -> bool:
        with self._lock:
            was = gang in self._awaited
            self._awaited.discard(gang)
            return was


def put_model(news: msg.News) -> msg.News:
    """Put a model that leaves its slot into the object store of this node; its name replaces its bytes."""
    if not isinstance(news, msg.Visited):
        return news
    data = news.model.data
    if not isinstance(data, bytes) or len(data) < _LEAST_BYTES:
        return news
    import ray  # noqa: PLC0415

    return replace(news, model=replace(news.model, data=ray.put(data)))


def fetch(model: msg.Model) -> msg.Model:
    """With its bytes. Raises what Ray raises if they are gone."""
    if isinstance(model.data, bytes):
        return model
    import ray  # noqa: PLC0415

    return replace(model, data=ray.get(model.data))


class ModelPlace(NamedTuple):
    model: msg.Model
    slot: Slot


class ModelPlaces:
    """The newest model of every trial as the driver knows it, by name, and the slot that it left."""

    def __init__(self) -> None:
        self._places: dict[TrialId, ModelPlace] = {}

    def record(self, model: msg.Model, slot: Slot) -> bool:
        """Replace the model of its trial; returns whether it came from another slot."""
        trial = TrialId(model.trial)
        before = self._places.get(trial)
        self._places[trial] = ModelPlace(model, slot)
        return before is not None and before.slot != slot

    def find(self, lease: do.Train) -> ModelPlace | None:
        """The model that a visit continues; None: only the checkpoint store has it."""
        visits = 0 if lease.visit is None else lease.visit.done
        owner = lease.trial if lease.origin is None or visits else lease.origin
        place = self._places.get(owner)
        if place is None or (place.model.iteration, place.model.visits) != (lease.after_iteration, visits):
            return None
        return place

    def newest(self, trial: TrialId, *, elsewhere_than: Slot | None = None) -> msg.Model | None:
        """None also if it is on the slot `elsewhere_than` already."""
        place = self._places.get(trial)
        return None if place is None or place.slot == elsewhere_than else place.model

    def forget(self, trial: TrialId) -> None:
        self._places.pop(trial, None)

    def forget_node(self, node: NodeId) -> None:
        """Its models are gone, except for what the checkpoint store has."""
        self._places = {trial: place for trial, place in self._places.items() if place.slot.node != node}

    def forget_others(self, living: Container[TrialId]) -> None:
        self._places = {trial: place for trial, place in self._places.items() if trial in living}


_SAVERS = 2


class ModelSaver:
    """Saves in the background; `done` returns what has ended."""

    def __init__(self, store: Store, *, pickles: bool) -> None:
        self._store = store
        self._pickles = pickles
        self._over: deque[tuple[do.Stow, str | None]] = deque()
        self._threads: ThreadPoolExecutor | None = None

    def save(self, command: do.Stow, model: msg.Model | None) -> None:
        if model is None or (model.iteration + 1, model.visits) != (command.iteration, command.visits):
            self._over.append((command, "it is not there any more"))
            return
        if self._threads is None:
            self._threads = ThreadPoolExecutor(max_workers=_SAVERS, thread_name_prefix="model saves")
        self._threads.submit(self._write, command, model)

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

    def _write(self, command: do.Stow, model: msg.Model) -> None:
        error = None
        try:
            data = fetch(model).data
            if not isinstance(data, bytes):
                raise TypeError(f"a model is {type(data).__name__}; expected bytes")  # noqa: TRY301
            whole = {"state": decode(data, pickles=self._pickles), "tally": dict(model.tally)}
            written = encode(whole, pickles=self._pickles)
            self._store.write_underway(command.trial, command.iteration, command.visits, written)
        except ElastuneError as failed:
            error = str(failed)
        except Exception as failed:  # noqa: BLE001  Ray raises many kinds: the node that had it is gone
            error = f"{type(failed).__name__}: {failed}"
        self._over.append((command, error))
