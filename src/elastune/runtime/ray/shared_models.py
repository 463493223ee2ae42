"""Models in shared memory: how they move between the slot processes of a node, without a copy on the way.

A visit ends with one copy, from the model into a *segment*: memory without a name, which Linux frees with the
last process that has it. The segment goes to the agent with the answer, and from there to the next slot,
which maps it as its own: what the training changes there is not seen by others. Writing into memory that is
in use already is several times as fast as into new memory, so a slot writes into its old segments when no
process reads them any more: the agent knows, and says so (`Reuse`).
"""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from elastune.checkpoints.container import Buffer
from elastune.runtime.ray.messages import GangId

# Smaller states travel in the messages themselves.
LEAST_BYTES = 100_000
# Unused segments that a process keeps for later.
_MOST_FREE = 2
_MEMORY = Path("/proc/meminfo")
# Below this part of the machine's memory, models go to files, which the system moves to the disk as it needs.
_LEAST_FREE = 0.1
_BYTE = b"m"


class Segment:
    """Shared memory of one process, and what is written there. `number` is unique in the process."""

    def __init__(self, number: int, capacity: int) -> None:
        self.number = number
        self.capacity = capacity
        self.size = 0
        self.handle = _allocate(capacity)
        self._map = mmap.mmap(self.handle, capacity)

    @property
    def view(self) -> memoryview:
        return memoryview(self._map)[: self.size]

    def room(self, size: int) -> memoryview:
        """For so many bytes, to be written by the caller."""
        self.size = size
        return memoryview(self._map)[:size]

    def write(self, parts: Iterable[Buffer]) -> None:
        end, whole = 0, np.frombuffer(self._map, np.uint8)  # numpy copies without the interpreter's lock
        for part in parts:
            if len(part):
                whole[end : end + len(part)] = np.frombuffer(part, np.uint8)
                end += len(part)
        self.size = end

    def close(self) -> None:
        os.close(self.handle)
        with contextlib.suppress(BufferError):  # still in use; it goes with the last user
            self._map.close()


class SegmentPool:
    """The segments of one process, for any of its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: dict[int, Segment] = {}
        self._free: list[int] = []
        self._next = 0

    def take(self, size: int) -> Segment:
        """A free one that is large enough and not far too large, or a new one."""
        with self._lock:
            for number in self._free:
                if size <= self._all[number].capacity <= 2 * size:
                    self._free.remove(number)
                    return self._all[number]
            self._next += 1
            segment = self._all[self._next] = Segment(self._next, size)
            return segment

    def give_back(self, number: int) -> None:
        """It is not read any more."""
        with self._lock:
            if number not in self._all or number in self._free:
                return
            self._free.append(number)
            while len(self._free) > _MOST_FREE:
                self._all.pop(self._free.pop(0)).close()


def _allocate(size: int) -> int:
    """A file without a name, in memory if there is enough."""
    if _has_room(size) and hasattr(os, "memfd_create"):
        handle = os.memfd_create("elastune-model", os.MFD_CLOEXEC)
    else:
        handle, path = tempfile.mkstemp(prefix="elastune-model-")
        Path(path).unlink()
    os.ftruncate(handle, size)
    return handle


def _has_room(size: int) -> bool:
    try:
        lines = dict(line.split(":", 1) for line in _MEMORY.read_text(encoding="ascii").splitlines())
        total, free = (int(lines[key].split()[0]) * 1024 for key in ("MemTotal", "MemAvailable"))
    except (OSError, KeyError, ValueError):
        return True  # not Linux
    return free - size > _LEAST_FREE * total


def map_privately(handle: int, size: int) -> memoryview:
    """Writable, but others do not see what is written. Closes the handle."""
    try:
        return memoryview(mmap.mmap(handle, size, access=mmap.ACCESS_COPY))
    finally:
        os.close(handle)


def send_handle(channel: Connection, handle: int) -> None:
    with socket.socket(fileno=os.dup(channel.fileno())) as wire:
        socket.send_fds(wire, [_BYTE], [handle])


def receive_handle(channel: Connection) -> int:
    with socket.socket(fileno=os.dup(channel.fileno())) as wire:
        byte, handles, _, _ = socket.recv_fds(wire, 1, 1)
    if not byte:
        raise EOFError
    return handles[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The process whose segment it is; None: this one."""

    number: int
    slot: int = 0
    pid: int | None = None


ModelReader = GangId | int
"""A visit, or the number of something else that reads a model."""


@dataclass(slots=True, kw_only=True)
class NodeModel:
    """A model on this node. `is_dropped`: it is not needed beyond its present readers."""

    handle: int
    size: int
    origin: Origin
    readers: set[ModelReader] = field(default_factory=set)
    is_dropped: bool = False


class NodeModels:
    """All models in the shared memory of a node, by the visit that they are from. Not for several threads."""

    def __init__(self) -> None:
        self._models: dict[GangId, NodeModel] = {}
        self._pool = SegmentPool()
        self._copies: dict[int, GangId] = {}
        """By slot: the model that came from another node for it."""

    def __contains__(self, key: GangId) -> bool:
        return key in self._models

    def add(self, key: GangId, handle: int, size: int, origin: Origin) -> None:
        self._models[key] = NodeModel(handle=handle, size=size, origin=origin)

    def reserve(self, size: int) -> Segment:
        """For a model from another node."""
        return self._pool.take(size)

    def give_up(self, segment: Segment) -> None:
        """The model did not arrive."""
        self._pool.give_back(segment.number)

    def add_copy(self, key: GangId, slot: int, segment: Segment) -> None:
        """For one slot: it is freed after one use, or when another comes for this slot."""
        if key in self._models:
            self._pool.give_back(segment.number)
            return
        if (before := self._copies.pop(slot, None)) is not None:
            self.drop(before)
        origin = Origin(number=segment.number)
        self._models[key] = NodeModel(handle=os.dup(segment.handle), size=segment.size, origin=origin)
        self._copies[slot] = key

    def read(self, key: GangId, reader: ModelReader) -> NodeModel | None:
        """Until `release` of this reader, the model stays as it is. A copy that a visit reads is used."""
        model = self._models.get(key)
        if model is not None:
            model.readers.add(reader)
            for slot in [slot for slot, each in self._copies.items() if each == key]:
                del self._copies[slot]
                model.is_dropped = True
        return model

    def drop(self, key: GangId) -> list[Origin]:
        """There is a newer model. Returns the segments that other processes may use again."""
        if key in self._models:
            self._models[key].is_dropped = True
        return self._tidy()

    def release(self, reader: ModelReader) -> list[Origin]:
        """This reader is done; returns as `drop` does."""
        for model in self._models.values():
            model.readers.discard(reader)
        return self._tidy()

    def _tidy(self) -> list[Origin]:
        freed = []
        for key in [key for key, each in self._models.items() if each.is_dropped and not each.readers]:
            model = self._models.pop(key)
            os.close(model.handle)
            if model.origin.pid is None:
                self._pool.give_back(model.origin.number)
            else:
                freed.append(model.origin)
        return freed
