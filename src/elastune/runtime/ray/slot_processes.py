"""The slot processes of one node: started warm, given orders gang after gang, replaced when they die.

Does not depend on Ray, so it can be tested alone. One thread reads all channels; orders come from any thread.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path

from elastune.runtime.ray import messages as msg
from elastune.runtime.ray.code_bundle import CodeFolder
from elastune.runtime.ray.fork_server import ForkServer, describe_exit, kill
from elastune.runtime.ray.shared_models import NodeModels, Origin, map_privately, receive_handle, send_handle

_MOST_BYTES = 16_000


def last_lines(path: Path) -> str:
    """Whole lines; empty if there is no such file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _MOST_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return text if size <= _MOST_BYTES else f"...\n{text.partition(chr(10))[2]}"


def lost_model(form: msg.Form, why: str) -> msg.Broken:
    """The news of a visit that cannot begin."""
    error = f"the model was lost on its way: {why}"
    return msg.Broken(gang=form.gang, at=time.monotonic(), error=error, fault=False, model_lost=True)


# After so many failed starts of a slot (exits before it was ready), the node is given up.
_MOST_FAILED_STARTS = 3
# How long to wait for the exit status after a channel has closed.
_STATUS_S = 1.0


class SlotProcess:
    """One slot: its process, if it has one, and the gangs that wait for it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.channel: Connection | None = None
        self.pid: int | None = None
        self.ready = False
        self.gang: msg.GangId | None = None
        self.rank = 0
        self.waiting: deque[msg.Form] = deque()
        self.failed_starts = 0
        self.doomed: msg.GangId | None = None
        """The gang whose process we end ourselves: its exit is not reported."""
        self.ended_at: float | None = None
        """When its channel closed; the exit status may still come."""


class SlotProcesses:
    """`report` is called with the news, in the reading thread. Other arguments: see `ForkServer`."""

    def __init__(
        self,
        sealed: msg.Sealed,
        slots: int,
        report: Callable[[msg.News], None],
        *,
        host: str = "127.0.0.1",
        niceness: int = 0,
        output: str | None = None,
        place: CodeFolder | None = None,
    ) -> None:
        self._place = place
        self._report = report
        self._lock = threading.RLock()
        self._slots = [SlotProcess(number) for number in range(slots)]
        self._statuses: dict[int, int] = {}
        self._ends: list[tuple[float, SlotProcess, msg.GangId]] = []
        self._flushing: dict[int, set[int]] = {}
        self._models = NodeModels()
        self._readers = itertools.count()
        """Numbers of readers beside visits."""
        self._closed = False
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._fork_server = ForkServer(sealed, host, niceness, output, place)
        self._reader = threading.Thread(target=self._read, name="slot reader", daemon=True)
        self._reader.start()

    @property
    def pids(self) -> tuple[int, ...]:
        with self._lock:
            pids = [self._fork_server.pid, *(process.pid for process in self._slots)]
            return tuple(pid for pid in pids if pid is not None)

    def order(self, slot: int, order: msg.Order) -> None:
        with self._lock:
            if isinstance(order, msg.Flush):
                self._flush(order)
                return
            process = self._slots[slot]
            if isinstance(order, msg.Form):
                if order.model is not None and isinstance(order.model.data, msg.HeldModel):
                    self._models.read(order.model.data.key, order.gang)  # while it waits, too
                process.waiting.append(order)
                self._start_next(process)
            elif process.gang == order.gang:
                self._pass_on(process, order)
            else:
                self._amend(process, order)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for process in self._slots:
                if process.pid is not None:
                    kill(process.pid)
        self._fork_server.close()
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b"!")
        self._reader.join(_STATUS_S)
        if not self._reader.is_alive():
            os.close(self._wake_read)
            os.close(self._wake_write)

    # Models in shared memory.

    def has_model(self, key: msg.GangId) -> bool:
        with self._lock:
            return key in self._models

    def claim_model(self, key: msg.GangId, gang: msg.GangId) -> bool:
        """Keep a model for a visit that is to come, whatever else is fetched; False: it is not here."""
        with self._lock:
            return self._models.read(key, gang) is not None

    def unclaim_model(self, gang: msg.GangId) -> None:
        with self._lock:
            self._release(gang)

    def take_copy(
        self,
        key: msg.GangId,
        slot: int,
        size: int,
        fill: Callable[[memoryview], None],
        claimed_by: msg.GangId | None = None,
    ) -> None:
        """A model from another node, for this slot; `fill` writes its bytes."""
        with self._lock:
            segment = self._models.reserve(size)
        try:
            fill(segment.room(size))
        except BaseException:
            with self._lock:
                self._models.give_up(segment)
            raise
        with self._lock:
            self._models.add_copy(key, slot, segment)
            if claimed_by is not None:
                self._models.read(key, claimed_by)

    def drop_model(self, key: msg.GangId) -> None:
        with self._lock:
            self._free(self._models.drop(key))

    @contextlib.contextmanager
    def reading(self, key: msg.GangId) -> Iterator[memoryview]:
        """The model, which stays as it is meanwhile. Raises `KeyError` if it is not here."""
        with self._lock:
            reader = next(self._readers)
            model = self._models.read(key, reader)
            if model is None:
                raise KeyError(key)
            handle = os.dup(model.handle)
        try:
            yield map_privately(handle, model.size)
        finally:
            with self._lock:
                self._free(self._models.release(reader))

    def _release(self, gang: msg.GangId | None) -> None:
        """This visit does not read its model any more."""
        if gang is not None:
            self._free(self._models.release(gang))

    def _free(self, segments: Iterable[Origin]) -> None:
        """Their slots may write there again."""
        for origin in segments:
            process = self._slots[origin.slot]
            if process.pid == origin.pid:
                self._send(process, msg.Reuse(segment=origin.number))

    # Orders.

    def _pass_on(self, process: SlotProcess, order: msg.GangOrder) -> None:
        self._send(process, order)
        if isinstance(order, msg.Dissolve):
            self._ends.append((time.monotonic() + order.grace_s, process, order.gang))
            self._wake()

    def _amend(self, process: SlotProcess, order: msg.GangOrder) -> None:
        """An order for a gang that still waits for its slot."""
        for _ in range(len(process.waiting)):
            form = process.waiting.popleft()
            if form.gang == order.gang:
                match order:
                    case msg.Dissolve():
                        self._release(form.gang)
                        continue
                    case msg.Extend(terms=terms):
                        form = replace(form, terms=terms)
                    case msg.Join(meeting=meeting):
                        form = replace(form, meeting=meeting)
            process.waiting.append(form)

    def _start_next(self, process: SlotProcess) -> None:
        if process.ready and process.gang is None and process.waiting:
            form = process.waiting.popleft()
            handle = None
            if form.model is not None and isinstance(held := form.model.data, msg.HeldModel):
                model = self._models.read(held.key, form.gang)
                if model is None:
                    self._report(lost_model(form, "its copy in shared memory is gone"))
                    return
                handle = model.handle
                # The token is not for the user's code.
                form = replace(form, model=replace(form.model, data=replace(held, source=None)))
            process.gang, process.rank = form.gang, form.rank
            self._send(process, form, handle)

    def _flush(self, order: msg.Flush) -> None:
        busy = {process.number for process in self._slots if process.gang is not None and process.ready}
        if not busy:
            self._report(msg.Flushed(number=order.number))
            return
        self._flushing[order.number] = busy
        for number in sorted(busy):
            self._send(self._slots[number], order)

    def _send(self, process: SlotProcess, order: msg.SlotOrder, handle: int | None = None) -> None:
        """`handle`: of the shared memory that goes with it."""
        if process.channel is None:
            return
        with contextlib.suppress(OSError):  # it exited; the reader will see that
            if select.select([], [process.channel], [], 0.0)[1]:
                process.channel.send_bytes(pickle.dumps(order, pickle.HIGHEST_PROTOCOL))
                if handle is not None:
                    send_handle(process.channel, handle)
            elif process.pid is not None:
                kill(process.pid)  # it has stopped reading, and a blocking send would stall the others

    # Processes.

    def _start(self, process: SlotProcess) -> None:
        if self._closed:
            return
        process.channel, is_requested = self._fork_server.fork(process.number)
        process.pid, process.ready, process.gang, process.ended_at = None, False, None, None
        if not is_requested:
            self._fail("the fork server of the slot processes is gone")
        self._wake()

    def _fail(self, error: str) -> None:
        if not self._closed:
            self._report(msg.AgentFailed(error=error))

    # The reading thread.

    def _read(self) -> None:
        try:
            while self._receive():
                pass
        except Exception as error:  # noqa: BLE001  without its reader the node is of no use
            self._fail(f"the reader of its slots broke: {error!r}")

    def _receive(self) -> bool:
        """Wait for messages and handle them; False: the slot processes are closed."""
        with self._lock:
            channels = {process.channel: process for process in self._slots if process.channel is not None}
            timeout = self._due_s()
        readable = wait([self._fork_server.channel, self._wake_read, *channels], timeout)
        with self._lock:
            for source in readable:
                if self._closed:
                    return False
                if source == self._wake_read:
                    os.read(self._wake_read, 4096)
                elif source is self._fork_server.channel:
                    self._receive_from_fork_server()
                elif isinstance(source, Connection) and channels[source].channel is source:
                    self._receive_from_slot(channels[source], source)
            self._end_lingering()
        return not self._closed

    def _due_s(self) -> float | None:
        now = time.monotonic()
        times = [at for at, _, _ in self._ends]
        times += [process.ended_at + _STATUS_S for process in self._slots if process.ended_at is not None]
        return max(0.0, min(times) - now) if times else None

    def _receive_from_fork_server(self) -> None:
        try:
            word, first, second = self._fork_server.channel.recv()
        except (EOFError, OSError):
            if self._fork_server.start_alone():
                return
            self._fail("the fork server of the slot processes ended")
            self._closed = True
            return
        match word:
            case "ready":
                self._fork_server.pid = first
                for process in self._slots:
                    self._start(process)
            case "forked":
                self._slots[first].pid = second
            case "ended":
                self._statuses[first] = second
                for process in self._slots:
                    if process.pid == first:
                        self._on_exit(process)

    def _receive_from_slot(self, process: SlotProcess, channel: Connection) -> None:
        try:
            while True:
                news = pickle.loads(channel.recv_bytes())  # noqa: S301  our own child
                if isinstance(news, msg.Visited):
                    self._keep_model(process, news, channel)
                self._take(process, news)
                if not channel.poll():
                    return
        except (EOFError, OSError):
            channel.close()
            process.channel, process.ready, process.ended_at = None, False, time.monotonic()
            if process.pid in self._statuses:
                self._replace(process)

    def _keep_model(self, process: SlotProcess, news: msg.Visited, channel: Connection) -> None:
        """A large model follows the answer of its visit."""
        data = news.model.data
        if isinstance(data, msg.HeldModel):
            origin = Origin(number=data.segment, slot=process.number, pid=process.pid)
            self._models.add(data.key, receive_handle(channel), data.size, origin)

    def _on_exit(self, process: SlotProcess) -> None:
        """Read what is left in the channel, which a helper process of the user's code may hold open."""
        channel = process.channel
        if channel is not None and channel.poll():
            self._receive_from_slot(process, channel)
        if process.channel is not None:
            process.channel.close()
            process.channel, process.ready = None, False
        if process.pid in self._statuses:
            self._replace(process)

    def _take(self, process: SlotProcess, news: msg.News) -> None:
        match news:
            case msg.SlotReady():
                process.ready, process.failed_starts = True, 0
                self._start_next(process)
            case msg.SlotUnfit():
                process.failed_starts = _MOST_FAILED_STARTS
            case msg.SlotIdle():
                if process.doomed is None:  # else it is being killed
                    self._release(process.gang)
                    process.gang = None
                    self._start_next(process)
                return
            case msg.Broken(gang=gang):
                process.doomed = gang  # it exits by itself now, which is not reported again
                news = replace(news, log=self._log_of(process, gang))
            case msg.Flushed(number=number):
                self._flushed(number, process)
                return
        self._report(news)

    def _flushed(self, number: int, process: SlotProcess) -> None:
        waiting = self._flushing.get(number)
        if waiting is None:
            return
        waiting.discard(process.number)
        if not waiting:
            del self._flushing[number]
            self._report(msg.Flushed(number=number))

    def _end_lingering(self) -> None:
        now = time.monotonic()
        due = [end for end in self._ends if end[0] <= now]
        self._ends = [end for end in self._ends if end[0] > now]
        for _, process, gang in due:
            if process.gang == gang and process.pid is not None:
                process.doomed = gang
                kill(process.pid)
        for process in self._slots:
            if process.ended_at is not None and now - process.ended_at >= _STATUS_S:
                self._replace(process)

    def _replace(self, process: SlotProcess) -> None:
        """The process of this slot has ended: report the gang that this breaks, and start another."""
        status = self._statuses.pop(process.pid, None) if process.pid is not None else None
        was_ready = process.gang is not None or process.failed_starts == 0
        gang, doomed = process.gang, process.doomed
        process.gang, process.doomed, process.ended_at = None, None, None
        self._release(gang)
        if process.pid is not None:
            kill(process.pid)  # the helper processes that it left
        for number in tuple(self._flushing):
            self._flushed(number, process)
        if gang is not None and gang != doomed:
            error, fault = describe_exit(status)
            log = self._log_of(process, gang)
            self._report(msg.Broken(gang=gang, at=time.monotonic(), error=error, fault=fault, log=log))
        if gang is None:
            process.failed_starts += 1
        if not was_ready and process.failed_starts >= _MOST_FAILED_STARTS:
            self._fail("its slot processes cannot be started")
            return
        self._start(process)

    def _log_of(self, process: SlotProcess, gang: msg.GangId) -> tuple[str, str] | None:
        if self._place is None:
            return None
        name = msg.log_name(gang.trial, process.rank)
        return name, last_lines(Path(self._place.logs) / name)

    def _wake(self) -> None:
        """Call it with the lock: the number of a closed pipe may be in use again."""
        with contextlib.suppress(OSError):
            if not self._closed:
                os.write(self._wake_write, b"!")
