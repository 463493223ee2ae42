"""The Ray actor on each node: passes orders to the crew of slot processes and their news to the driver.

The driver always has one `poll` waiting here, which returns as soon as there is news; so news need one
message, and many small ones travel together.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from elastune.bodies.ray.carrier import Carrier, stow
from elastune.bodies.ray.crew import Crew, Orders
from elastune.bodies.ray.machine import this_machine
from elastune.bodies.ray.messages import AgentFailed, News, Sealed
from elastune.bodies.ray.workplace import Workplace, set_up

if TYPE_CHECKING:
    from ray.actor import ActorClass

_POLL_S = 30.0


class Agent:
    def __init__(self, sealed: Sealed, slots: int) -> None:
        import ray  # noqa: PLC0415

        self._news: deque[News] = deque()
        self._arrived = threading.Condition()
        self._crew: Crew | None = None
        self._carrier: Carrier | None = None
        try:
            place = _move_in(sealed)
        except Exception as error:  # noqa: BLE001  a full disk, a store that is gone: the driver is to know
            self._take(AgentFailed(error=f"the working folder cannot be unpacked there: {error}"))
            return
        host = ray.util.get_node_ip_address()
        self._crew = Crew(sealed, slots, self._take, host=host, place=place)
        self._carrier = Carrier(self._crew, slots, self._take)

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
        return time.monotonic(), os.getpid(), self._crew.pids if self._crew is not None else ()

    def _take(self, news: News) -> None:
        news = stow(news)
        with self._arrived:
            self._news.append(news)
            self._arrived.notify()


def _move_in(sealed: Sealed) -> Workplace | None:
    """None: on the driver's machine slots work where its own files are."""
    if sealed.luggage is None or sealed.luggage.machine == this_machine():
        return None
    return set_up(sealed.luggage.parcels)


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
