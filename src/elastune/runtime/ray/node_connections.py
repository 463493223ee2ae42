"""One node as the driver reaches it: orders go out, news arrive in an inbox.

On other nodes that is a Ray actor, the agent. On the driver's own node the slot processes belong to the
driver itself, which saves a process and a hop for every message; Ray only reserves the CPUs.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple, Protocol

from elastune.errors import ExecutionError
from elastune.model.ids import NodeId
from elastune.runtime.ray.agent import agent_class
from elastune.runtime.ray.messages import Broken, DropModel, News, Orders, Prefetch, Sealed
from elastune.runtime.ray.slot_processes import SlotProcesses

_LOOKS = 5
# How long to wait for the CPUs at a time.
_PATIENCE_S = 1.0
# Training must not starve the driver. The workers that Ray itself starts have 15.
_NICENESS = 5

_log = logging.getLogger("elastune")

Outcome = Sequence[News] | Exception
"""What a connection delivered; an exception: it will deliver nothing more."""


class SlotShare(NamedTuple):
    """Our part of a node: its slots, and the Ray resources that they take."""

    slots: int
    cpus: float
    gpus: float


class NodeConnection(Protocol):
    """`heard` is the time of its last message; None if it cannot fall silent."""

    node: NodeId
    heard: float | None
    offset: float | None
    """What to add to its clock to get ours; None: no message yet."""

    def send(self, orders: Orders) -> None: ...

    def listen(self) -> None:
        """Continue after an outcome was taken from the inbox."""

    def stop(self) -> None:
        """End all its processes."""


class Inbox:
    """What all connections delivered, from any thread."""

    def __init__(self) -> None:
        self._came: deque[tuple[NodeConnection, Outcome]] = deque()
        self._arrived = threading.Event()

    def put(self, connection: NodeConnection, outcome: Outcome) -> None:
        self._came.append((connection, outcome))
        self._arrived.set()

    def take(self, timeout_s: float) -> list[tuple[NodeConnection, Outcome]]:
        """All that has arrived; waits at most `timeout_s` for the first."""
        self._arrived.wait(timeout_s)
        self._arrived.clear()
        return [self._came.popleft() for _ in range(len(self._came))]


class RemoteConnection:
    def __init__(self, node: NodeId, ray_node: str, sealed: Sealed, share: SlotShare, inbox: Inbox) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

        self.node = node
        self.offset: float | None = None
        self.heard: float | None = time.monotonic()
        self._inbox = inbox
        self._logs = sealed.logs
        strategy = NodeAffinitySchedulingStrategy(ray_node, soft=False)
        options = {"num_cpus": share.cpus, "num_gpus": share.gpus, "scheduling_strategy": strategy}
        name = f"ElastuneAgent-{secrets.token_hex(8)}"  # by which other nodes of this run find it
        self.agent = (
            agent_class().options(max_restarts=0, name=name, **options).remote(sealed, share.slots, name)
        )
        self._poll()

    def send(self, orders: Orders) -> None:
        self.agent.order.remote(list(orders))

    def listen(self) -> None:
        """Raises Ray's error when the agent is gone."""
        self.heard = time.monotonic()
        if self.offset is None:
            self.offset = self._measured_offset()
        self._poll()

    def stop(self) -> None:
        import ray  # noqa: PLC0415

        ray.kill(self.agent)

    def _poll(self) -> None:
        self.agent.poll.remote().future().add_done_callback(self._arrived)

    def _arrived(self, answer: Future[Sequence[News]]) -> None:
        error = answer.exception()
        if error is None:
            _keep_logs(answer.result(), self._logs)
        self._inbox.put(self, answer.result() if error is None else _plain(error))

    def _measured_offset(self) -> float:
        """Our clock minus theirs, by the quickest of several looks."""
        import ray  # noqa: PLC0415

        best: tuple[float, float] | None = None
        for _ in range(_LOOKS):
            before = time.monotonic()
            try:
                theirs, *_ = ray.get(self.agent.look.remote(), timeout=2.0)
            except ray.exceptions.GetTimeoutError:
                break
            after = time.monotonic()
            if best is None or after - before < best[0]:
                best = after - before, (before + after) / 2 - theirs
        return 0.0 if best is None or abs(best[1]) <= best[0] else best[1]


class LocalConnection:
    """The driver's own node. Its slots start as soon as Ray has reserved the CPUs."""

    def __init__(self, node: NodeId, ray_node: str, sealed: Sealed, share: SlotShare, inbox: Inbox) -> None:
        from ray.util.placement_group import placement_group  # noqa: PLC0415

        self.node = node
        self.offset: float | None = None
        self.heard: float | None = None
        self._inbox = inbox
        self._processes: SlotProcesses | None = None
        self._lock = threading.Lock()
        self._stopped = False
        self._held = placement_group(
            [{"CPU": share.cpus}], bundle_label_selector=[{"ray.io/node-id": ray_node}]
        )
        threading.Thread(
            target=self._start, args=(sealed, share.slots, share.cpus), name="local node", daemon=True
        ).start()

    def send(self, orders: Orders) -> None:
        if self._processes is not None:
            for slot, order in orders:
                if not isinstance(order, Prefetch | DropModel):  # those are of models that hop
                    self._processes.order(slot, order)

    def listen(self) -> None:
        self.offset = 0.0

    def stop(self) -> None:
        from ray.util.placement_group import remove_placement_group  # noqa: PLC0415

        with self._lock:
            self._stopped = True
            if self._processes is not None:
                self._processes.close()
        remove_placement_group(self._held)

    def _start(self, sealed: Sealed, slots: int, cpus: float) -> None:
        import ray  # noqa: PLC0415

        waited = False
        try:
            while not self._held.wait(_PATIENCE_S):
                if self._stopped:
                    return
                if not waited:
                    _log.warning("waiting for %g CPUs of this Ray node, which others use", cpus)
                waited = True
            host = ray.util.get_node_ip_address()
            output = None if sealed.logs is None else str(Path(sealed.logs) / "workers.log")
            with self._lock:
                if not self._stopped:
                    self._processes = SlotProcesses(
                        sealed, slots, self._report, host=host, niceness=_NICENESS, output=output
                    )
        except Exception as error:  # noqa: BLE001  Ray raises many kinds; there will be no slots here
            self._inbox.put(self, _plain(error))

    def _report(self, news: News) -> None:
        self._inbox.put(self, (news,))


def connect(node: NodeId, ray_node: str, sealed: Sealed, share: SlotShare, inbox: Inbox) -> NodeConnection:
    """Ray numbers GPUs for its actors only, and models hop from agent to agent; such nodes need one."""
    import ray  # noqa: PLC0415

    is_local = ray.get_runtime_context().get_node_id() == ray_node and not share.gpus and not sealed.hops
    return (LocalConnection if is_local else RemoteConnection)(node, ray_node, sealed, share, inbox)


def _keep_logs(news: Sequence[News], logs: str | None) -> None:
    """Write the last lines of trials that broke on other machines into the run's logs."""
    for each in news:
        if isinstance(each, Broken) and each.log is not None and logs is not None:
            name, text = each.log
            with contextlib.suppress(OSError), (Path(logs) / name).open("a", encoding="utf-8") as file:
                file.write(text)


def _plain(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) else ExecutionError(repr(error))
