"""The process that owns a fleet: it starts and ends exact nodes, and lets none of them outlive the driver.

It ends everything when its standard input closes (the driver is gone, be it by `kill -9`), when its parent
has changed, on SIGTERM, or when the head breaks. It lives in a session of its own, so a Ctrl-C in the
terminal does not reach it. Should it be killed itself, the kernel kills the head and the raylets with it, and
those end what they started.

All of it happens in the main thread: the kernel binds a raylet to the life of the thread that started it.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from elastune.model.ids import NodeId
from elastune.providers.local.head import RayHead
from elastune.providers.local.link import (
    Begun,
    EndNode,
    Failed,
    Gone,
    News,
    NodeStarted,
    Opened,
    StartNode,
    SupervisorTask,
    Up,
    decode,
    encode,
)
from elastune.providers.local.processes import FLEET, NODE, FleetFolder, adopt_orphans, kill, kill_all, reap

HANGING_BOOTS = "ELASTUNE_HANGING_BOOTS"
"""For tests, in the environment: so many of the first nodes never come up."""

_LINGER_S = 2.0
"""Between asking a raylet to end and killing it."""
_IDLE_S, _BOOTING_S = 0.5, 0.02
"""How long to sleep when nothing is reported."""
_BOOT_S = 10.0
"""After so long a node is not awaited impatiently any more."""


class DriverGoneError(Exception):
    """Nobody is left to work for."""


@dataclass(slots=True)
class _Node:
    pid: int
    ray_node: str
    since_s: float
    up: bool = False
    asked_to_end_s: float | None = None


class Supervisor:
    """The nodes of one fleet."""

    def __init__(self, task: SupervisorTask, head: RayHead, news: int) -> None:
        self._task = task
        self._head = head
        self._news = news
        self._nodes: dict[NodeId, _Node] = {}
        self._hanging = int(os.environ.get(HANGING_BOOTS, "0"))

    @property
    def pause_s(self) -> float:
        """Until the next look at what nobody reports: readiness, time-to-live, nodes that linger."""
        soon_s = time.monotonic() - _BOOT_S
        soon_up = any(not node.up and node.since_s > soon_s for node in self._nodes.values())
        return _BOOTING_S if soon_up else _IDLE_S

    @property
    def pids(self) -> set[int]:
        return {*self._head.pids, *(node.pid for node in self._nodes.values())}

    def obey(self, line: bytes) -> None:
        match decode(line):
            case StartNode(token=token, nodes=nodes):
                self._start(token, [NodeId(node) for node in nodes])
            case EndNode(nodes=nodes):
                self._end([NodeId(node) for node in nodes])

    def look_round(self) -> str | None:
        """Tell what has changed. An answer is the reason why the fleet cannot go on."""
        ended = reap()
        for name in [name for name, node in self._nodes.items() if node.pid in ended]:
            del self._nodes[name]
            kill_all(NODE, name)
            tell(self._news, Gone(node=name))
        if broken := ended & self._head.pids:
            return f"Ray's head ended by itself (process {min(broken)}); the machine may be short of memory"
        self._enforce()
        self._greet()
        return None

    def _start(self, token: str, names: list[NodeId]) -> None:
        tell(self._news, Begun(token=token))
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
        tell(self._news, NodeStarted(token=token, nodes=tuple(started), reason=reason))

    def _end(self, names: list[NodeId]) -> None:
        for node in (self._nodes[name] for name in names if name in self._nodes):
            if node.asked_to_end_s is None:
                node.asked_to_end_s = time.monotonic()
                kill(node.pid, signal.SIGTERM)

    def _enforce(self) -> None:
        now_s = time.monotonic()
        expires_s = self._task.expires_s
        if expires_s is not None:
            self._end([name for name, node in self._nodes.items() if now_s - node.since_s >= expires_s])
        for node in self._nodes.values():
            if node.asked_to_end_s is not None and now_s - node.asked_to_end_s > _LINGER_S:
                kill(node.pid)

    def _greet(self) -> None:
        booting = {name: node for name, node in self._nodes.items() if not node.up}
        if not booting:
            return
        alive = self._head.alive()
        for name, node in booting.items():
            if node.ray_node in alive:
                node.up = True
                tell(self._news, Up(node=name, ray_node=node.ray_node))


class _Ears:
    """Hears the driver, signals and the end of children, whichever comes first."""

    def __init__(self, orders: int, driver: int) -> None:
        self._orders = orders
        self._driver = driver
        self._heard = b""
        self._selector = selectors.DefaultSelector()
        wake, self._waker = os.pipe()
        for end in (orders, wake, self._waker):
            os.set_blocking(end, False)
        self._wake = wake
        self._selector.register(orders, selectors.EVENT_READ)
        self._selector.register(wake, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def listen(self, most_s: float) -> list[bytes]:
        """The lines that have come in."""
        ready = {key.fd for key, _ in self._selector.select(most_s)}
        if self._wake in ready and signal.SIGTERM in os.read(self._wake, 4096):
            raise DriverGoneError
        if self._orders in ready:
            read = os.read(self._orders, 65536)
            if not read:
                raise DriverGoneError
            self._heard += read
        elif os.getppid() != self._driver:
            # A fork of the driver may hold the pipe open for longer than the driver lives.
            raise DriverGoneError
        *lines, self._heard = self._heard.split(b"\n")
        return lines


def tell(news: int, message: News) -> None:
    """A driver that no longer listens is found out by `_Ears`."""
    try:
        os.write(news, encode(message))
    except BrokenPipeError as error:
        raise DriverGoneError from error


def keep(task: SupervisorTask, folder: FleetFolder, orders: int, news: int) -> None:
    """Until the driver is gone, or Ray is."""
    ears = _Ears(orders, task.driver)
    try:
        head = RayHead(folder)
    except Exception as error:  # noqa: BLE001 - whatever Ray's private parts raise is for the driver to tell
        tell(news, Failed(reason=f"{type(error).__name__}: {error}"))
        return
    tell(news, Opened(address=head.address))
    supervisor = Supervisor(task, head, news)
    try:
        while True:
            for line in ears.listen(supervisor.pause_s):
                supervisor.obey(line)
            if reason := supervisor.look_round():
                tell(news, Failed(reason=reason))
                return
    finally:
        for pid in supervisor.pids:
            kill(pid)


def main() -> None:
    task = SupervisorTask.from_json(sys.argv[1])
    folder = FleetFolder.join(Path(task.folder))
    adopt_orphans()
    # Whatever Ray prints must not mix with what we tell, and no child shall hold the driver's pipes.
    orders, news = os.dup(0), os.dup(1)
    nothing, log = os.open(os.devnull, os.O_RDONLY), os.open(folder.log, os.O_WRONLY | os.O_CREAT, 0o600)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    try:
        keep(task, folder, orders, news)
    except DriverGoneError:
        pass
    except Exception as error:
        tell(news, Failed(reason=f"the keeper broke: {type(error).__name__}: {error}"))
        raise
    finally:
        kill_all(FLEET, task.folder)
        folder.remove()
    os._exit(0)  # Ray's threads would take half a second to say goodbye to what is dead


if __name__ == "__main__":
    main()
