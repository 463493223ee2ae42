"""The process of a check: imports the heavy libraries once, and forks a process for each step.

It has one thread, so that forking is safe, and one socket, on which it reports progress and what was seen.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from elastune.checks import phases
from elastune.checks.messages import DetourSeen, GangSeen, ProbeOrder, RankSeen, SoloSeen, UserFault
from elastune.runtime.ray.fork_server import describe_exit, prepare
from elastune.training.shared_data import use_folders

T = TypeVar("T")
STACKS = "stacks"
"""A file in the order's folder: where the training was when the time was over."""
_SHARES = frozenset(("wrap", "sum"))
# Two workers may take this long, and this many times as long as one.
_LEAST_GANG_S, _GANG_FACTOR = 60.0, 4.0
# Before the driver ends this process, so that it finds the stacks.
_EARLIER_S = 1.0


class Checker:
    def __init__(self, channel: Connection, order: ProbeOrder) -> None:
        self._channel = channel
        self._order = order
        self._until = time.monotonic() + order.most_s

    def run(self) -> None:
        solo = self._solo()
        if solo.fault is not None and solo.was_cut:
            # Some code counts the batches itself, and fails if there are fewer.
            self._order = replace(self._order, shortened=False)
            solo = self._solo()
        if solo.fault is not None and solo.fault.by_library and not solo.rows:
            # Some libraries take plain dicts only.
            self._order = replace(self._order, watched=False)
            solo = self._solo()
        if solo.diverged and len(self._order.configs) > 1:
            self._channel.send(("diverged", self._order.configs[0]))
            self._order = replace(self._order, configs=self._order.configs[1:])
            solo = self._solo()
        self._channel.send(("solo", solo))
        if solo.fault is not None or not solo.rows or solo.diverged:
            return
        shortened = self._order.shortened and "batches" in solo.calls
        if solo.saves:
            self._say("load")
            detour = self._fork_one(
                lambda: phases.continue_anew(self._order, shortened=shortened, device=solo.device),
                lambda fault: DetourSeen(fault=fault),
            )
            self._channel.send(("detour", detour))
        if self._order.gang and self._is_worth_a_gang(solo):
            self._say("two workers")
            most_s = _LEAST_GANG_S + _GANG_FACTOR * (
                solo.startup_s + max(each or 0.0 for each in solo.seconds)
            )
            gang = self._gang(shortened=shortened, device=solo.device, most_s=most_s)
            self._channel.send(("gang", gang))

    def _is_worth_a_gang(self, solo: SoloSeen) -> bool:
        """Without an exchange there is nothing to see. With loops of its own, an iteration cannot be
        shortened, and only one that declares gangs is tried."""
        return bool(solo.calls & _SHARES) and ("batches" in solo.calls or self._order.declared)

    def _solo(self) -> SoloSeen:
        self._say("the start")
        train, order = phases.train_alone, self._order
        return self._fork_one(lambda: train(order, self._say), lambda fault: SoloSeen(fault=fault))

    def _gang(self, *, shortened: bool, device: str, most_s: float) -> GangSeen:
        ends = Pipe()

        def rank(number: int) -> Callable[[], RankSeen]:
            return lambda: phases.train_together(
                self._order,
                lambda: phases.join_pair(number, ends[number]),
                shortened=shortened,
                device=device,
                say=self._say,
            )

        forked = [self._fork(rank(number)) for number in range(2)]
        for end in ends:
            end.close()
        until = time.monotonic() + most_s
        ranks: list[RankSeen] = []
        for pid, reading in forked:
            if not reading.poll(max(0.0, until - time.monotonic())):
                os.kill(pid, signal.SIGKILL)  # such as two workers that wait for each other
            ranks.append(self._result(pid, reading, lambda fault: RankSeen(fault=fault)))
        return phases.compare_ranks(self._order, ranks)

    def _say(self, stage: str) -> None:
        self._channel.send(("stage", stage))

    # Processes.

    def _fork_one(self, task: Callable[[], T], failed: Callable[[UserFault], T]) -> T:
        return self._result(*self._fork(task), failed)

    def _fork(self, task: Callable[[], Any]) -> tuple[int, Connection]:
        reading, writing = Pipe(duplex=False)
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            writing.close()
            return pid, reading
        try:
            reading.close()
            self._dump_when_over()
            result = task()
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
            writing.send_bytes(pickle.dumps(result, pickle.HIGHEST_PROTOCOL))
        finally:
            os._exit(0)

    def _dump_when_over(self) -> None:
        left_s = max(0.1, self._until - time.monotonic() - _EARLIER_S)
        stacks = (Path(self._order.folder) / STACKS).open("a", encoding="utf-8")
        faulthandler.dump_traceback_later(left_s, file=stacks)

    def _result(self, pid: int, reading: Connection, failed: Callable[[UserFault], T]) -> T:
        data: bytes | None = None
        with contextlib.suppress(EOFError, OSError):
            data = reading.recv_bytes()
        _, status = os.waitpid(pid, 0)
        if data is not None:
            result: T = pickle.loads(data)  # noqa: S301  from our own child
            return result
        why, _ = describe_exit(status)
        return failed(UserFault(stage="training", error=why, place=None))


def main(arguments: Sequence[str]) -> None:
    """Started as `python -m elastune.checks.child <fd>`."""
    channel = Connection(int(arguments[0]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver decides
    order: ProbeOrder = pickle.loads(channel.recv_bytes())  # noqa: S301  from our parent
    prepare(order.paths, order.preload)
    use_folders(order.shared)
    Checker(channel, order).run()
    channel.send(("done", None))


if __name__ == "__main__":
    main(sys.argv[1:])
