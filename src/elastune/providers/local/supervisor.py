"""The process that owns a fleet: it starts and ends exact nodes, and none of them outlives the driver.

It ends everything when its standard input closes (the driver is gone, even by `kill -9`), when its parent
has changed, on SIGTERM, or when the head breaks. It has its own session, so a Ctrl-C in the terminal does not
reach it. If it is killed itself, the kernel kills the head and the raylets, and those end what they started.

Everything runs in the main thread: the kernel binds a raylet to the life of the thread that started it.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from elastune.model.ids import NodeId
from elastune.providers.local import link
from elastune.providers.local.head import RayHead
from elastune.providers.local.processes import FLEET, NODE, FleetFolder, adopt_orphans, kill, kill_all, reap

HANGING_BOOTS = "ELASTUNE_HANGING_BOOTS"
"""For tests, in the environment: this many of the first nodes never come up."""

_LINGER_S = 2.0
"""Between SIGTERM and SIGKILL for a raylet."""
_IDLE_S, _BOOTING_S = 0.5, 0.02
"""The longest sleep, without and with booting nodes."""
_BOOT_S = 10.0
"""A node that boots for longer no longer shortens the sleep."""


class DriverGoneError(Exception):
    """The fleet has to end."""


@dataclass(slots=True)
class _Node:
    pid: int
    ray_node: str
    since_s: float
    up: bool = False
    asked_to_end_s: float | None = None


class Supervisor:
    """The nodes of one fleet."""

    def __init__(self, task: link.SupervisorTask, head: RayHead, news: int) -> None:
        self._task = task
        self._head = head
        self._news = news
        self._nodes: dict[NodeId, _Node] = {}
        self._hanging = int(os.environ.get(HANGING_BOOTS, "0"))

    @property
    def pause_s(self) -> float:
        """Until the next check of what sends no event: readiness, time-to-live, nodes that linger."""
        soon_s = time.monotonic() - _BOOT_S
        soon_up = any(not node.up and node.since_s > soon_s for node in self._nodes.values())
        return _BOOTING_S if soon_up else _IDLE_S

    @property
    def pids(self) -> set[int]:
        return {*self._head.pids, *(node.pid for node in self._nodes.values())}

    def obey(self, line: bytes) -> None:
        match link.decode(line):
            case link.StartNode(token=token, nodes=nodes):
                self._start(token, [NodeId(node) for node in nodes])
            case link.EndNode(nodes=nodes):
                self._end([NodeId(node) for node in nodes])

    def check(self) -> str | None:
        """Report what has changed. Returns the reason why the fleet cannot go on, if any."""
        ended = reap()
        for name in [name for name, node in self._nodes.items() if node.pid in ended]:
            del self._nodes[name]
            kill_all(NODE, name)
            send(self._news, link.Gone(node=name))
        if broken := ended & self._head.pids:
            return f"Ray's head ended by itself (process {min(broken)}); the machine may be short of memory"
        self._enforce_ends()
        self._report_ready()
        return None

    def _start(self, token: str, names: list[NodeId]) -> None:
        send(self._news, link.Begun(token=token))
        started, reason = [], ""
        for name in names:
            try:
                pid, ray_node = self._head.start_node(name, cpus=self._task.cpus, gpus=self._task.gpus)
            except OSError as error:
                reason = f"this machine cannot start another node: {error}"
                break
            if self._hanging > 0:
                self._hanging -= 1
                kill(pid, signal.SIGSTOP)
            self._nodes[name] = _Node(pid=pid, ray_node=ray_node, since_s=time.monotonic())
            started.append(name)
        send(self._news, link.NodeStarted(token=token, nodes=tuple(started), reason=reason))

    def _end(self, names: list[NodeId]) -> None:
        for node in (self._nodes[name] for name in names if name in self._nodes):
            if node.asked_to_end_s is None:
                node.asked_to_end_s = time.monotonic()
                kill(node.pid, signal.SIGTERM)

    def _enforce_ends(self) -> None:
        now_s = time.monotonic()
        expires_s = self._task.expires_s
        if expires_s is not None:
            self._end([name for name, node in self._nodes.items() if now_s - node.since_s >= expires_s])
        for node in self._nodes.values():
            if node.asked_to_end_s is not None and now_s - node.asked_to_end_s > _LINGER_S:
                kill(node.pid)

    def _report_ready(self) -> None:
        booting = {name: node for name, node in self._nodes.items() if not node.up}
        if not booting:
            return
        alive = self._head.alive()
        for name, node in booting.items():
            if node.ray_node in alive:
                node.up = True
                send(self._news, link.Up(node=name, ray_node=node.ray_node))


class _OrderReader:
    """Waits for the driver, signals and the end of children, whichever comes first."""

    def __init__(self, orders: int, driver: int) -> None:
        self._orders = orders
        self._driver = driver
        self._unread = b""
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = os.pipe()
        for end in (orders, self._wake, self._waker):
            os.set_blocking(end, False)
        for end in (orders, self._wake):
            self._selector.register(end, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        for woken in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(woken, lambda *_: None)
        for ignored in (signal.SIGINT, signal.SIGHUP):
            signal.signal(ignored, signal.SIG_IGN)

    def lines(self, most_s: float) -> list[bytes]:
        """Those that have arrived, after at most that time."""
        ready = {key.fd for key, _ in self._selector.select(most_s)}
        if self._wake in ready and signal.SIGTERM in os.read(self._wake, 4096):
            raise DriverGoneError
        if self._orders in ready:
            read = os.read(self._orders, 65536)
            if not read:
                raise DriverGoneError
            self._unread += read
        elif os.getppid() != self._driver:
            # A fork of the driver may hold the pipe open for longer than the driver lives.
            raise DriverGoneError
        *lines, self._unread = self._unread.split(b"\n")
        return lines


def send(news: int, message: link.News) -> None:
    try:
        os.write(news, link.encode(message))
    except BrokenPipeError as error:
        raise DriverGoneError from error


def supervise(task: link.SupervisorTask, folder: FleetFolder, orders: int, news: int) -> None:
    """Until the driver or Ray is gone."""
    reader = _OrderReader(orders, task.driver)
    try:
        head = RayHead(folder, task.host, task.ports)
    except Exception as error:  # noqa: BLE001 - the driver reports whatever Ray's private parts raise
        send(news, link.Failed(reason=f"{type(error).__name__}: {error}"))
        return
    send(news, link.Opened(address=head.address))
    supervisor = Supervisor(task, head, news)
    try:
        while True:
            for line in reader.lines(supervisor.pause_s):
                supervisor.obey(line)
            if reason := supervisor.check():
                send(news, link.Failed(reason=reason))
                return
    finally:
        for pid in supervisor.pids:
            kill(pid)


def main() -> None:
    task = link.SupervisorTask(**json.loads(sys.argv[1]))
    folder = FleetFolder.join(Path(task.folder))
    adopt_orphans()
    # Ray's output must not mix with our messages, and no child may hold the driver's pipes open.
    orders, news = os.dup(0), os.dup(1)
    nothing, log = os.open(os.devnull, os.O_RDONLY), os.open(folder.log, os.O_WRONLY | os.O_CREAT, 0o600)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    try:
        supervise(task, folder, orders, news)
    except DriverGoneError:
        pass
    except Exception as error:
        send(news, link.Failed(reason=f"the supervisor broke: {type(error).__name__}: {error}"))
        raise
    finally:
        kill_all(FLEET, task.folder)
        folder.remove()
    os._exit(0)  # Ray's threads would take half a second to disconnect from dead processes


if __name__ == "__main__":
    main()
