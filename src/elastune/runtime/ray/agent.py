"""The Ray actor on each node: passes orders to the slot processes, and their news to the driver.

The driver always has one `poll` waiting here, which returns as soon as there is news. So news take one
message, and many small ones go together. `this_machine` shows whether the node is on the driver's machine:
two machines may have a folder of the same path, and two of one image even the same files in it.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from elastune.runtime.ray.code_bundle import CodeFolder, set_up
from elastune.runtime.ray.messages import AgentFailed, GangId, HeldModel, News, Orders, Sealed, Visited
from elastune.runtime.ray.model_server import ModelServer
from elastune.runtime.ray.model_transfer import ModelCarrier, give
from elastune.runtime.ray.slot_processes import SlotProcesses

if TYPE_CHECKING:
    from ray.actor import ActorClass

MACHINE = "ELASTUNE_MACHINE"
"""Environment variable: the name of this machine, where containers or virtual machines look alike."""
_POLL_S = 30.0
# Models that leave a node at once.
_GIVES = 4
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def this_machine() -> str:
    """A name that differs between machines and between containers."""
    given = os.environ.get(MACHINE)
    if given:
        return given
    try:
        boot = _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()} {boot}"


class Agent:
    def __init__(self, sealed: Sealed, slots: int, name: str) -> None:
        """`name` is that of the actor."""
        import ray  # noqa: PLC0415

        self._news: deque[News] = deque()
        self._arrived = threading.Condition()
        self._processes: SlotProcesses | None = None
        self._carrier: ModelCarrier | None = None
        self._server: ModelServer | None = None
        try:
            place: CodeFolder | None = None  # on the driver's machine, slots use its own files
            if sealed.bundle is not None and sealed.bundle.machine != this_machine():
                place = set_up(sealed.bundle)
        except Exception as error:  # noqa: BLE001  such as a full disk; the driver has to know
            self._take(AgentFailed(error=f"the working folder cannot be unpacked there: {error}"))
            return
        host = ray.util.get_node_ip_address()
        self._processes = SlotProcesses(sealed, slots, self._take, host=host, place=place)
        self._carrier = ModelCarrier(self._processes, slots, self._take)
        if sealed.hops:
            self._server = ModelServer(host, name, self._processes.reading)

    def poll(self) -> list[News]:
        with self._arrived:
            self._arrived.wait_for(lambda: self._news, _POLL_S)
            news = list(self._news)
            self._news.clear()
            return news

    def order(self, orders: Orders) -> None:
        if self._carrier is not None:
            for slot, order in orders:
                self._carrier.order(slot, order)

    def give(self, key: GangId) -> list[object]:
        """To another node: the name of a model in the object store; in a list, because Ray resolves names."""
        if self._processes is None:
            raise KeyError(key)
        return [give(self._processes, key)]

    def look(self) -> tuple[float, int, tuple[int, ...]]:
        """The clock of this machine, and the processes of this agent."""
        return time.monotonic(), os.getpid(), self._processes.pids if self._processes is not None else ()

    def _take(self, news: News) -> None:
        if isinstance(news, Visited) and isinstance(held := news.model.data, HeldModel) and self._server:
            data = replace(held, source=self._server.source)
            news = replace(news, model=replace(news.model, data=data))
        with self._arrived:
            self._news.append(news)
            self._arrived.notify()


def agent_class() -> ActorClass:
    """The actor class: its methods do not block each other, and orders keep their order."""
    import ray  # noqa: PLC0415

    methods = {"poll": "polls", "order": "orders", "give": "gives", "look": "looks"}
    members = {
        name: ray.method(concurrency_group=group)(getattr(Agent, name)) for name, group in methods.items()
    }
    groups = {**dict.fromkeys(methods.values(), 1), "gives": _GIVES}
    return ray.remote(concurrency_groups=groups)(type("ElastuneAgent", (Agent,), members))
