"""The driver's side of a check: starts its process, follows it, and ends it when the time is over."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from elastune.checks.child import STACKS
from elastune.checks.messages import ProbeOrder, ProbeSeen
from elastune.checks.source import standing_at
from elastune.wording import format_duration

_COMMAND = (sys.executable, "-u", "-m", "elastune.checks.child")
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# CheckProgress is said of what takes longer than the first, and then each time that the second has passed.
_QUIET_S = 2.0
_AGAIN_S = 10.0
# Importing heavy libraries is not counted; it may take so long on a busy machine.
_IMPORT_S = 120.0

Say = Callable[[str], None]


class CheckProgress:
    """Says what is going on if it takes a while."""

    def __init__(self, say: Say, clock: Callable[[], float] = time.monotonic) -> None:
        self._say = say
        self._clock = clock
        self.stage = "the start"
        self._began = clock()
        self._due = self._began + _QUIET_S

    def enter(self, stage: str) -> None:
        self.stage = stage
        self._began = self._clock()
        self._due = self._began + _QUIET_S

    def look(self) -> None:
        now = self._clock()
        if now >= self._due:
            self._say(f"checking the trainable: {self.stage}, {format_duration(now - self._began)} so far")
            self._due = now + _AGAIN_S


def probe(order: ProbeOrder, output: Path, say: Say) -> ProbeSeen:
    """Carry out the order. What the training prints goes to the file `output`."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with output.open("ab") as file:
        process = subprocess.Popen(  # noqa: S603  our own module
            [*_COMMAND, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env={**os.environ, **dict.fromkeys(_THREADS, str(order.threads))},
            start_new_session=True,
        )
    theirs.close()
    channel = Connection(ours.detach())
    try:
        channel.send_bytes(pickle.dumps(order))
        return _follow(channel, order, CheckProgress(say))
    finally:
        channel.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _follow(channel: Connection, order: ProbeOrder, progress: CheckProgress) -> ProbeSeen:
    seen = ProbeSeen()
    until, has_begun = time.monotonic() + order.most_s + _IMPORT_S, False
    while True:
        if not channel.poll(0.2):
            progress.look()
            if time.monotonic() > until:
                return _cut(seen, order, progress.stage)
            continue
        try:
            kind, value = channel.recv()
        except (EOFError, OSError):
            seen.broken = f"the checking process ended while it was at {progress.stage}"
            return seen
        match kind:
            case "stage":
                if not has_begun:  # the libraries are imported
                    has_begun, until = True, time.monotonic() + order.most_s
                progress.enter(value)
            case "done":
                return seen
            case _:
                setattr(seen, kind, value)


def _cut(seen: ProbeSeen, order: ProbeOrder, stage: str) -> ProbeSeen:
    seen.cut_at = stage
    with contextlib.suppress(OSError):
        stacks = (Path(order.folder) / STACKS).read_text(encoding="utf-8", errors="replace")
        seen.cut_place = standing_at(stacks)
    return seen
