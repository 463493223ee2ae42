"""The logs of trials: what they are called, and their last lines, which travel where the file does not.

The slot processes of one node: started warm, given orders gang after gang, replaced when they die.

Knows nothing of Ray, so that it can be tried by itself. One thread reads all channels; orders come from any
thread.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import send_handle
from pathlib import Path

from elastune.runtime.ray.code_bundle import CodeFolder
from elastune.runtime.ray.messages import (
    AgentFailed,
    Bring,
    Broken,
    Dissolve,
    Extend,
    Flush,
    Flushed,
    Form,
    GangId,
    Halt,
    Join,
    Keep,
    News,
    Order,
    Sealed,
    SlotIdle,
    SlotReady,
    SlotUnfit,
)

_MOST_BYTES = 16_000


def log_name(trial: int, rank: int) -> str:
    """`trial-00003.log`; `trial-00003.rank-1.log` of its second worker."""
    return f"trial-{trial:05d}{f'.rank-{rank}' if rank else ''}.log"


def last_lines(path: Path) -> str:
    """Whole ones; nothing if there is no such file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _MOST_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return text if size <= _MOST_BYTES else f"...\n{text.partition(chr(10))[2]}"


_ZYGOTE = (sys.executable, "-u", "-m", "elastune.runtime.ray.fork_server")
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# Deaths of a slot before it was ever ready, after which the node is given up.
_MOST_STILLBIRTHS = 3
# Between the end of a channel and the exit status that the zygote tells.
_STATUS_S = 1.0


class SlotProcess:
    """One slot: its process, if it has one, and what waits for it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.channel: Connection | None = None
        self.pid: int | None = None
        self.ready = False
        self.gang: GangId | None = None
        self.rank = 0
        """In that gang."""
        self.waiting: deque[Form] = deque()
        self.stillbirths = 0
        self.doomed: GangId | None = None
        """The gang whose process we end ourselves: its death is no news."""
        self.ended_at: float | None = None
        """When its channel closed; its exit status is awaited."""


class SlotProcesses:
    """`tell` takes the news, from the reading thread. `host` is the address of this machine."""

    def __init__(
        self,
        sealed: Sealed,
        slots: int,
        tell: Callable[[News], None],
        *,
        host: str = "127.0.0.1",
        niceness: int = 0,
        output: str | None = None,
        place: CodeFolder | None = None,
    ) -> None:
        """`output`: a file for what is printed outside of trials; None: where this process prints.
        `place`: where the slots work, if this is not the driver's machine."""
        self._sealed = sealed
        self._place = place
        self._tell = tell
        self._lock = threading.RLock()
        self._seats = [SlotProcess(number) for number in range(slots)]
        self._statuses: dict[int, int] = {}
        self._ends: list[tuple[float, SlotProcess, GangId]] = []
        self._flushing: dict[int, set[int]] = {}
        self._closed = False
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._zygote, self._fork_channel = self._start_zygote(host, niceness, output)
        self._reader = threading.Thread(target=self._read, name="crew", daemon=True)
        self._reader.start()

    @property
    def pids(self) -> tuple[int, ...]:
        with self._lock:
            return (self._zygote.pid, *(seat.pid for seat in self._seats if seat.pid))

    def order(self, slot: int, order: Order) -> None:
        with self._lock:
            if isinstance(order, Flush):
                self._flush(order)
                return
            seat = self._seats[slot]
            if isinstance(order, Form):
                seat.waiting.append(order)
                self._seat_next(seat)
            elif seat.gang == order.gang:
                self._pass_on(seat, order)
            else:
                self._amend(seat, order)

    def close(self) -> None:
        """Every process ends."""
        with self._lock:
            self._closed = True
            self._fork_channel.close()
            for seat in self._seats:
                if seat.pid is not None:
                    _kill(seat.pid)
            self._zygote.kill()
        self._zygote.wait()
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b"!")
        self._reader.join(_STATUS_S)
        if not self._reader.is_alive():
            os.close(self._wake_read)
            os.close(self._wake_write)

    # Orders.

    def _pass_on(self, seat: SlotProcess, order: Join | Extend | Halt | Keep | Dissolve) -> None:
        self._send(seat, order)
        if isinstance(order, Dissolve):
            self._ends.append((time.monotonic() + order.grace_s, seat, order.gang))
            self._wake()

    @staticmethod
    def _amend(seat: SlotProcess, order: Join | Extend | Halt | Keep | Dissolve) -> None:
        """An order for a gang that still waits for its slot."""
        forms = list(seat.waiting)
        seat.waiting.clear()
        for form in forms:
            if form.gang != order.gang:
                seat.waiting.append(form)
            elif isinstance(order, Extend):
                seat.waiting.append(replace(form, terms=order.terms))
            elif isinstance(order, Join):
                seat.waiting.append(replace(form, meeting=order.meeting))
            elif not isinstance(order, Dissolve):
                seat.waiting.append(form)

    def _seat_next(self, seat: SlotProcess) -> None:
        if seat.ready and seat.gang is None and seat.waiting:
            form = seat.waiting.popleft()
            seat.gang, seat.rank = form.gang, form.rank
            self._send(seat, form)

    def _flush(self, order: Flush) -> None:
        busy = {seat.number for seat in self._seats if seat.gang is not None and seat.ready}
        if not busy:
            self._tell(Flushed(number=order.number))
            return
        self._flushing[order.number] = busy
        for number in sorted(busy):
            self._send(self._seats[number], order)

    def _send(self, seat: SlotProcess, order: Order) -> None:
        if seat.channel is None:
            return
        with contextlib.suppress(OSError):  # it died; the reader will see that
            if select.select([], [seat.channel], [], 0.0)[1]:
                seat.channel.send_bytes(pickle.dumps(order, pickle.HIGHEST_PROTOCOL))
            elif seat.pid is not None:
                _kill(seat.pid)  # it has stopped to read, and nobody may wait for it

    # Processes.

    def _start_zygote(
        self, host: str, niceness: int, output: str | None
    ) -> tuple[subprocess.Popen[bytes], Connection]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        environment = {
            **os.environ,
            **dict.fromkeys(_THREADS, str(self._sealed.threads)),
        }
        with open(output, "ab") if output else contextlib.nullcontext() as file:  # noqa: PTH123
            process = subprocess.Popen(  # noqa: S603  our own module
                [*_ZYGOTE, str(theirs.fileno()), host, str(niceness)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=environment,
                cwd=None if self._place is None else self._place.home,  # which is first on its path as well
                start_new_session=True,
            )
        theirs.close()
        channel = Connection(ours.detach())
        channel.send_bytes(self._sealed.worker_spec)
        channel.send_bytes(pickle.dumps(self._place))
        return process, channel

    def _raise_child(self, seat: SlotProcess) -> None:
        if self._closed:
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        seat.channel = Connection(ours.detach())
        seat.pid, seat.ready, seat.gang, seat.ended_at = None, False, None, None
        try:
            self._fork_channel.send(seat.number)
            send_handle(self._fork_channel, theirs.fileno(), self._zygote.pid)
        except OSError:
            self._fail("the zygote of the slot processes is gone")
        finally:
            theirs.close()
        self._wake()

    def _fail(self, error: str) -> None:
        if not self._closed:
            self._tell(AgentFailed(error=error))

    # The reading thread.

    def _read(self) -> None:
        try:
            while self._hear():
                pass
        except Exception as error:  # noqa: BLE001  a node whose news nobody reads is worth nothing
            self._fail(f"the reader of its slots broke: {error!r}")

    def _hear(self) -> bool:
        """Wait for something to happen and deal with it; False: the crew is gone."""
        with self._lock:
            seats = {seat.channel: seat for seat in self._seats if seat.channel is not None}
            timeout = self._due_s()
        readable = wait([self._fork_channel, self._wake_read, *seats], timeout)
        with self._lock:
            for source in readable:
                if self._closed:
                    return False
                if source == self._wake_read:
                    os.read(self._wake_read, 4096)
                elif source is self._fork_channel:
                    self._hear_zygote()
                elif isinstance(source, Connection) and seats[source].channel is source:
                    self._hear_slot(seats[source], source)
            self._end_lingering()
        return not self._closed

    def _due_s(self) -> float | None:
        now = time.monotonic()
        times = [at for at, _, _ in self._ends]
        times += [seat.ended_at + _STATUS_S for seat in self._seats if seat.ended_at is not None]
        return max(0.0, min(times) - now) if times else None

    def _hear_zygote(self) -> None:
        try:
            word, first, second = self._fork_channel.recv()
        except (EOFError, OSError):
            self._fail("the zygote of the slot processes ended")
            self._closed = True
            return
        match word:
            case "ready":
                for seat in self._seats:
                    self._raise_child(seat)
            case "forked":
                self._seats[first].pid = second
            case "ended":
                self._statuses[first] = second
                for seat in self._seats:
                    if seat.pid == first:
                        self._on_exit(seat)

    def _hear_slot(self, seat: SlotProcess, channel: Connection) -> None:
        try:
            while True:
                self._take(seat, pickle.loads(channel.recv_bytes()))  # noqa: S301  our own child
                if not channel.poll():
                    return
        except (EOFError, OSError):
            channel.close()
            seat.channel, seat.ready, seat.ended_at = None, False, time.monotonic()
            if seat.pid in self._statuses:
                self._replace(seat)

    def _on_exit(self, seat: SlotProcess) -> None:
        """Its process has ended. A helper that it started may hold the channel open: hear what is in it."""
        channel = seat.channel
        if channel is not None and channel.poll():
            self._hear_slot(seat, channel)
        if seat.channel is not None:
            seat.channel.close()
            seat.channel, seat.ready = None, False
        if seat.pid in self._statuses:
            self._replace(seat)

    def _take(self, seat: SlotProcess, news: News) -> None:
        match news:
            case SlotReady():
                seat.ready, seat.stillbirths = True, 0
                self._seat_next(seat)
            case SlotUnfit():
                seat.stillbirths = _MOST_STILLBIRTHS
            case SlotIdle():
                if seat.doomed is None:  # else it was killed when it said so
                    seat.gang = None
                    self._seat_next(seat)
                return
            case Broken(gang=gang):
                seat.doomed = gang  # it ends by itself now, and that is no further news
                news = replace(news, log=self._log_of(seat, gang))
            case Flushed(number=number):
                self._flushed(number, seat)
                return
        self._tell(news)

    def _flushed(self, number: int, seat: SlotProcess) -> None:
        open_ = self._flushing.get(number)
        if open_ is None:
            return
        open_.discard(seat.number)
        if not open_:
            del self._flushing[number]
            self._tell(Flushed(number=number))

    def _end_lingering(self) -> None:
        now = time.monotonic()
        due = [end for end in self._ends if end[0] <= now]
        self._ends = [end for end in self._ends if end[0] > now]
        for _, seat, gang in due:
            if seat.gang == gang and seat.pid is not None:
                seat.doomed = gang
                _kill(seat.pid)
        for seat in self._seats:
            if seat.ended_at is not None and now - seat.ended_at >= _STATUS_S:
                self._replace(seat)

    def _replace(self, seat: SlotProcess) -> None:
        """The process of this slot has ended: tell whose gang that breaks, and start another."""
        status = self._statuses.pop(seat.pid, None) if seat.pid is not None else None
        was_ready = seat.gang is not None or seat.stillbirths == 0
        gang, doomed = seat.gang, seat.doomed
        seat.gang, seat.doomed, seat.ended_at = None, None, None
        if seat.pid is not None:
            _kill(seat.pid)  # the helpers that it has left
        for number in tuple(self._flushing):
            self._flushed(number, seat)
        if gang is not None and gang != doomed:
            error, fault = describe_end(status)
            log = self._log_of(seat, gang)
            self._tell(Broken(gang=gang, at=time.monotonic(), error=error, fault=fault, log=log))
        if gang is None:
            seat.stillbirths += 1
        if not was_ready and seat.stillbirths >= _MOST_STILLBIRTHS:
            self._fail("its slot processes cannot be started")
            return
        self._raise_child(seat)

    def _log_of(self, seat: SlotProcess, gang: GangId) -> tuple[str, str] | None:
        if self._place is None:
            return None
        name = log_name(gang.trial, seat.rank)
        return name, last_lines(Path(self._place.logs) / name)

    def _wake(self) -> None:
        """With the lock, so that a number that was closed is not somebody else's by now."""
        with contextlib.suppress(OSError):
            if not self._closed:
                os.write(self._wake_write, b"!")


def describe_end(status: int | None) -> tuple[str, bool]:
    """Why a process ended, and whether its own code is to blame: nobody but others sends these signals."""
    if status is None:
        return "the worker process ended", True
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name
        if number in {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}:
            hint = " (somebody did, or the machine ran out of memory)" if number == signal.SIGKILL else ""
            return f"the worker process was ended by {name}{hint}", False
        return f"the worker process crashed with {name}", True
    return f"the worker process ended by itself with exit code {os.WEXITSTATUS(status)}", True


def _kill(pid: int) -> None:
    """A slot process leads a group of its own, with whatever the user's code has started."""
    for end in (os.killpg, os.kill):  # it may be so young that the group is not there yet
        with contextlib.suppress(ProcessLookupError, PermissionError):
            end(pid, signal.SIGKILL)


Orders = Sequence[tuple[int, Order | Bring]]
