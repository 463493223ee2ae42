"""How models move between nodes, and from there to the checkpoint store.

A model that leaves a slot stays in the shared memory of its node, and the driver gets its name. If the next
visit is on another node, that one asks for it, and only then it goes directly from node to node: over a
connection of its own, or through Ray's object store where a firewall prevents that. While a slot trains, the
next model can be prefetched: one per slot. Suspended models are saved by the driver before their node is
released.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from elastune.checkpoints.encoding import decode, decode_shared, encode_parts
from elastune.checkpoints.store import Store
from elastune.core import commands as do
from elastune.core import events as ev
from elastune.errors import ElastuneError, InvariantError
from elastune.model.ids import NodeId, Slot, TrialId
from elastune.runtime.ray import messages as msg
from elastune.runtime.ray.model_server import receive_model
from elastune.runtime.ray.slot_processes import SlotProcesses, lost_model
from elastune.training.trainable import State

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
        self._threads = ThreadPoolExecutor(max_workers=_CARRIERS * max(1, slots), thread_name_prefix="models")

    def order(self, slot: int, order: msg.NodeOrder) -> None:
        match order:
            case msg.Prefetch(model=msg.Model(data=msg.HeldModel() as held)):
                if not self._processes.has_model(held.key):
                    self._threads.submit(self._prefetch, slot, held)
            case msg.Prefetch():
                pass
            case msg.DropModel(key=key):
                self._processes.drop_model(key)
            case msg.Form(model=msg.Model(data=msg.HeldModel() as held)) if not self._processes.claim_model(
                held.key, order.gang
            ):
                with self._lock:
                    self._awaited.add(order.gang)
                self._threads.submit(self._fetch_and_order, slot, order, held)
            case msg.Dissolve(gang=gang) if self._is_awaited(gang):
                pass  # it has not reached its slot
            case _:
                self._processes.order(slot, order)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _fetch_and_order(self, slot: int, form: msg.Form, held: msg.HeldModel) -> None:
        try:
            self._take(slot, held, claimed_by=form.gang)
        except Exception as error:  # noqa: BLE001  Ray raises many kinds: the node that had it is gone
            if form.model is not None and form.model.visits:
                self._report_lost(form, error)
                return
            form = replace(form, model=None)  # between two iterations the checkpoint store has it
        with self._lock:
            if form.gang in self._awaited:
                self._awaited.discard(form.gang)
                self._processes.order(slot, form)
            else:  # it was dissolved meanwhile
                self._processes.unclaim_model(form.gang)

    def _report_lost(self, form: msg.Form, error: Exception) -> None:
        """After the loss of the node: then the visit continues from a state that still exists."""
        time.sleep(_LOSS_DELAY_S)
        if self._is_awaited(form.gang):
            self._report(lost_model(form, type(error).__name__))

    def _prefetch(self, slot: int, held: msg.HeldModel) -> None:
        with contextlib.suppress(Exception):  # fetched again, or reported, when it is needed
            self._take(slot, held)

    def _take(self, slot: int, held: msg.HeldModel, claimed_by: msg.GangId | None = None) -> None:
        """Two models for one slot may be under way at once; what is claimed stays when the other arrives."""
        self._processes.take_copy(held.key, slot, held.size, functools.partial(fetch, held), claimed_by)

    def _is_awaited(self, gang: msg.GangId) -> bool:
        with self._lock:
            was = gang in self._awaited
            self._awaited.discard(gang)
            return was


def give(processes: SlotProcesses, key: msg.GangId) -> object:
    """The name of a model of this node in the object store. Raises `KeyError` if it is not here."""
    import ray  # noqa: PLC0415

    with processes.reading(key) as view:
        return ray.put(np.frombuffer(view, np.uint8))


_firewalled: set[tuple[str, int]] = set()
"""Addresses that could not be reached, of nodes that Ray reaches."""


def fetch(held: msg.HeldModel, room: memoryview) -> None:
    """The bytes of a model of another node. Raises what Ray raises if they are gone."""
    source = held.source
    if source is None:
        raise InvariantError(f"the model {held.key} has no source; expected one from its agent")
    address = (source.host, source.port)
    if address not in _firewalled:
        with contextlib.suppress(OSError):
            receive_model(source, held.key, room)
            return
    _fetch_through_ray(source.agent, held.key, room)
    _firewalled.add(address)


def _fetch_through_ray(agent: str, key: msg.GangId, room: memoryview) -> None:
    import ray  # noqa: PLC0415

    (name,) = ray.get(ray.get_actor(agent).give.remote(key))
    array: npt.NDArray[np.uint8] = ray.get(name)
    np.copyto(np.frombuffer(room, np.uint8), array)


class ModelPlace(NamedTuple):
    model: msg.Model
    slot: Slot


class ModelPlaces:
    """The newest model of every trial as the driver knows it, by name, and the slot that it left."""

    def __init__(self) -> None:
        self._places: dict[TrialId, ModelPlace] = {}
        self._dropped: list[ModelPlace] = []

    def record(self, model: msg.Model, slot: Slot) -> bool:
        """Replace the model of its trial; returns whether it came from another slot."""
        trial = TrialId(model.trial)
        before = self._places.get(trial)
        self.forget(trial)
        self._places[trial] = ModelPlace(model, slot)
        return before is not None and before.slot != slot

    def discard(self, model: msg.Model, slot: Slot) -> None:
        """It is on that node, but not wanted."""
        self._dropped.append(ModelPlace(model, slot))

    def dropped(self) -> list[ModelPlace]:
        """Those that were replaced or forgotten since the last call."""
        dropped, self._dropped = self._dropped, []
        return dropped

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
        if (place := self._places.pop(trial, None)) is not None:
            self._dropped.append(place)

    def forget_node(self, node: NodeId) -> None:
        """Its models are gone, except for what the checkpoint store has."""
        self._places = {trial: place for trial, place in self._places.items() if place.slot.node != node}

    def forget_others(self, living: Container[TrialId]) -> None:
        for trial in [trial for trial in self._places if trial not in living]:
            self.forget(trial)


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
            whole = {"state": self._state(model), "tally": dict(model.tally)}
            written = encode_parts(whole, pickles=self._pickles).sealed
            self._store.write_underway(command.trial, command.iteration, command.visits, written)
        except ElastuneError as failed:
            error = str(failed)
        except Exception as failed:  # noqa: BLE001  Ray raises many kinds: the node that had it is gone
            error = f"{type(failed).__name__}: {failed}"
        self._over.append((command, error))

    def _state(self, model: msg.Model) -> State:
        match model.data:
            case bytes():
                return decode(model.data, pickles=self._pickles)
            case msg.HeldModel():
                room = memoryview(bytearray(model.data.size))
                fetch(model.data, room)
                return decode_shared(room, pickles=self._pickles)
            case _:
                raise InvariantError("the driver has a model that is mapped; only slot processes have those")
