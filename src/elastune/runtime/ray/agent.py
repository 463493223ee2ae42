"""Telling machines apart: is this the one on which the driver runs?

Two machines may have a folder of the same name, and two made from one image even the same files in it. So a
path that exists here is not yet the driver's folder.

The Ray actor on each node: passes orders to the crew of slot processes and their news to the driver.

The driver always has one `poll` waiting here, which returns as soon as there is news; so news need one
message, and many small ones travel together.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from elastune.runtime.ray.code_bundle import CodeFolder, set_up
from elastune.runtime.ray.messages import AgentFailed, News, Sealed
from elastune.runtime.ray.model_transfer import ModelCarrier, stow
from elastune.runtime.ray.slot_processes import Orders, SlotProcesses

if TYPE_CHECKING:
    from ray.actor import ActorClass


MACHINE = "ELASTUNE_MACHINE"
"""In the environment: the name of this machine, where containers or virtual machines look alike."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def this_machine() -> str:
    """Differs from machine to machine, and from container to container."""
    given = os.environ.get(MACHINE)
    if given:
        return given
    try:
        boot = _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()} {boot}"


_POLL_S = 30.0


class Agent:
    def __init__(self, sealed: Sealed, slots: int) -> None:
        import ray  # noqa: PLC0415

        self._news: deque[News] = deque()
        self._arrived = threading.Condition()
        self._processes: SlotProcesses | None = None
        self._carrier: ModelCarrier | None = None
        try:
            place = _move_in(sealed)
        except Exception as error:  # noqa: BLE001  a full disk, a store that is gone: the driver is to know
            self._take(AgentFailed(error=f"the working folder cannot be unpacked there: {error}"))
            return
        host = ray.util.get_node_ip_address()
        self._processes = SlotProcesses(sealed, slots, self._take, host=host, place=place)
        self._carrier = ModelCarrier(self._processes, slots, self._take)

    def poll(self) -> list[News]:
        """What is new, as soon as something is."""
        with self._arrived:
            self._arrived.wait_for(lambda: self._news, _POLL_S)
            news = list(self._news)
            self._news.clear()
            return news

    def order(self, orders: Orders) -> None:
        if self._carrier is not None:
            for slot, order in orders:
                self._carrier.order(slot, order)

    def look(self) -> tuple[float, int, tuple[int, ...]]:
        """The clock here, and whose processes there are."""
        return time.monotonic(), os.getpid(), self._processes.pids if self._processes is not None else ()

    def _take(self, news: News) -> None:
        news = stow(news)
        with self._arrived:
            self._news.append(news)
            self._arrived.notify()


def _move_in(sealed: Sealed) -> CodeFolder | None:
    """None: on the driver's machine slots work where its own files are."""
    if sealed.bundle is None or sealed.bundle.machine == this_machine():
        return None
    return set_up(sealed.bundle.parcels)


def agent_class() -> ActorClass:
    """As Ray wants it: polls, orders and looks do not wait for each other, and orders keep their order."""
    import ray  # noqa: PLC0415

    methods = {"poll": "polls", "order": "orders", "look": "looks"}
    members = {
        name: ray.method(concurrency_group=group)(getattr(Agent, name)) for name, group in methods.items()
    }
    remote = type("ElastuneAgent", (Agent,), members)
    groups = dict.fromkeys(methods.values(), 1)
    return ray.remote(concurrency_groups=groups)(remote)
