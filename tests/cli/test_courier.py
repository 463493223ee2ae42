"""What is shown must not stop what is shown."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import threading

from elastune.cli.terminal import OutputQueue
from tests.waiting import wait_until


def is_behind(courier: OutputQueue) -> bool:
    return courier.is_behind


def test_what_is_written_arrives_in_order() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        courier = OutputQueue(stream)
        for number in range(100):
            courier.write(f"{number}\n")
        courier.settle()
        assert not courier.is_behind
    with os.fdopen(reading) as end:
        assert end.read().split() == [str(number) for number in range(100)]


def test_a_terminal_that_takes_nothing_stops_nobody() -> None:
    """Nobody reads the other end, so writing to it blocks once it is full."""
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as stream:
        courier = OutputQueue(stream)
        done = threading.Event()

        def draw() -> None:
            for _ in range(100):
                courier.write("x" * 1000)
            courier.settle(0.1)
            done.set()

        threading.Thread(target=draw, daemon=True).start()
        assert done.wait(30)
        assert courier.is_behind
        assert courier.isatty()
        while is_behind(courier):  # somebody reads again
            if select.select([leader], [], [], 0.1)[0]:
                os.read(leader, 65536)
    os.close(leader)


def test_a_pipe_that_is_gone_is_forgotten() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    courier = OutputQueue(stream)
    courier.write("hello")
    courier.settle()
    courier.write("again")
    wait_until(lambda: not courier.is_behind)
    assert not courier.is_behind
    with contextlib.suppress(OSError):
        stream.close()
