"""The driver's links: messages to and from its supervisor, and the connection of this process to Ray.

A message is one JSON object per line, named by its kind. `Connection` joins a cluster that requires a token,
and restores on `close` everything that it changed in this process.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass

from elastune.errors import InvariantError
from elastune.providers.local.processes import FLEET, KEEP_READABLE, FleetFolder, kill_all


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorTask:
    """The argument of a supervisor process, as JSON."""

    folder: str
    driver: int
    """The process that the fleet must not outlive."""
    cpus: float
    gpus: float
    """Of every node."""
    expires_s: float | None
    host: str | None = None
    """The address of this machine at which nodes on other machines reach the head; None: there are none."""
    ports: tuple[int, int] | None = None
    """The range in which the head listens; None: any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartNode:
    """To the supervisor: start these nodes. One `NodeStarted` answers for all of them."""

    token: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndNode:
    """To the supervisor: end exactly these."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The head is up."""

    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The head did not come up, or broke. No message follows."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The nodes of this request are being started from now on."""

    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStarted:
    """These nodes boot; the others of the request will not come, for this reason."""

    token: str
    nodes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """Ray answers on this node; `ray_node` is Ray's id."""

    node: str
    ray_node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    node: str


Order = StartNode | EndNode
News = Opened | Failed | Begun | NodeStarted | Up | Gone

_KINDS: dict[str, Callable[..., Order | News]] = {
    kind.__name__: kind for kind in (StartNode, EndNode, Opened, Failed, Begun, NodeStarted, Up, Gone)
}


def encode(message: Order | News) -> bytes:
    return json.dumps({"kind": type(message).__name__, **asdict(message)}).encode() + b"\n"


def decode(line: bytes | str) -> Order | News:
    fields = json.loads(line)
    kind = _KINDS.get(fields.pop("kind", ""))
    if kind is None:
        raise InvariantError(f"between driver and supervisor: {line!r}, expected one of {', '.join(_KINDS)}")
    return kind(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    )


_LOGGER = logging.getLogger("elastune.ray")
MISLEADING = frozenset(
    {"RAY_ADDRESS", "RAY_AUTH_TOKEN", "RAY_GCS_SERVER_PORT", "RAY_REDIS_ADDRESS", "RAY_RUNTIME_ENV_HOOK"}
)
"""Settings for another cluster of the user, which would override ours."""

_PATIENT = {"RAY_gcs_rpc_server_reconnect_timeout_s": "600"}
"""For the driver alone: when the head is gone Ray ends the process, after a minute by default. The run
decides instead, which sees its nodes lost at once."""


WORKER_NICENESS = 5
"""Of training, relative to the driver, which it must not starve. Ray's own is 15: beside four busy programs
on two cores that is 2% of a core, and a node takes minutes to boot."""


def ray_environment(
    folder: FleetFolder, base: Mapping[str, str], *, is_shared: bool = False
) -> dict[str, str]:
    """The environment of every process of a fleet, and of the driver while it is connected. `is_shared`:
    other machines have nodes of it."""
    kept = {name: value for name, value in base.items() if name not in MISLEADING}
    stay = {} if is_shared else {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # despite its name: on 127.0.0.1
    return (
        kept
        | stay
        | {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(folder.token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_gcs_rpc_server_reconnect_timeout_s": "5",  # a head that is gone does not come back
            "RAY_enable_pipe_based_agent_to_parent_health_check": "1",
            "RAY_worker_niceness": str(WORKER_NICENESS),
        }
    )


class Connection:
    """Connects on creation. `close` restores all that was changed for it."""

    def __init__(self, folder: FleetFolder, address: str, host: str | None = None) -> None:
        """`host`: the address of this machine, where other machines have nodes of the cluster."""
        from ray._private import ray_constants  # noqa: PLC0415 - heavy

        self._undo = contextlib.ExitStack()
        self._undo.callback(_forget_token)
        self._undo.callback(_replace_environment, dict(os.environ))
        is_shared = host is not None
        _replace_environment(ray_environment(folder, os.environ, is_shared=is_shared) | _PATIENT)
        # Ray may have been imported before the environment was set; without this it replaces 127.0.0.1.
        self._undo.callback(setattr, ray_constants, "ENABLE_RAY_CLUSTER", ray_constants.ENABLE_RAY_CLUSTER)
        ray_constants.ENABLE_RAY_CLUSTER = is_shared
        try:
            _forget_token()
            self._undo.enter_context(connected_quietly(address, host))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._undo.close()


@contextlib.contextmanager
def connected_quietly(address: str, host: str | None = None) -> Iterator[None]:
    """This process as Ray's driver, without Ray's output: its messages are logged from before the first one
    can come until its threads have ended. `host`: the address of this machine; None: Ray finds it."""
    import ray  # noqa: PLC0415

    with _ray_output_logged():
        try:
            _connect(address, host)
            yield
        finally:
            ray.shutdown()


@contextlib.contextmanager
def _ray_output_logged() -> Iterator[None]:
    """Ray prints messages of its nodes on standard output, where the run's own output goes: log them."""
    from ray._private import worker  # noqa: PLC0415 - heavy

    printing = worker.print_to_stdstream
    worker.print_to_stdstream = lambda data, **_: _LOGGER.info("%s", "\n".join(data.get("lines", ())))
    try:
        yield
    finally:
        worker.print_to_stdstream = printing


def _connect(address: str, host: str | None) -> None:
    """`ray.init` without its output, and without its handler for SIGTERM: that signal is the run's."""
    import ray  # noqa: PLC0415

    in_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM) if in_main else None
    try:
        ray.init(
            address=address,
            namespace="elastune",
            log_to_driver=False,
            configure_logging=False,
            logging_level=logging.ERROR,
            **({} if host is None else {"_node_ip_address": host}),
        )
    finally:
        if handler is not None:
            signal.signal(signal.SIGTERM, handler)


def _replace_environment(wanted: Mapping[str, str]) -> None:
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update(wanted)


def _forget_token() -> None:
    """Ray keeps mode and token for the life of the process; the next fleet has another token."""
    from ray._raylet import AuthenticationTokenLoader, Config  # noqa: PLC0415

    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


_PATIENCE_S = 10.0


class SupervisorLink:
    """A supervisor process; a thread passes its messages to `on_news`.

    `on_end` is called once, after its last message, with the last line of its log. By then all it owned has
    ended.
    """

    def __init__(
        self,
        task: SupervisorTask,
        folder: FleetFolder,
        *,
        on_news: Callable[[News], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._on_news = on_news
        self._on_end = on_end
        with folder.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-P", "-m", "elastune.providers.local.supervisor", json.dumps(asdict(task))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={
                    **ray_environment(folder, os.environ, is_shared=task.host is not None),
                    **KEEP_READABLE,
                    FLEET: task.folder,
                },
                start_new_session=True,
            )
        self._listener = threading.Thread(target=self._listen, name="elastune-supervisor", daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, order: Order) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):  # it is gone: `on_end` reports that
            self._process.stdin.write(encode(order))
            self._process.stdin.flush()

    def close(self) -> None:
        """End the supervisor and with it the fleet."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        kill_all(FLEET, str(self._folder.path))
        self._listener.join(_PATIENCE_S)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                match decode(line):
                    case StartNode() | EndNode():
                        raise InvariantError(f"the supervisor sent an order: {line!r}")
                    case news:
                        self._on_news(news)
        last_line = self._last_log_line()
        # If it was killed, what it owned ends with it; the rest is ended here.
        self._process.wait()
        kill_all(FLEET, str(self._folder.path))
        self._on_end(last_line)

    def _last_log_line(self) -> str:
        try:
            lines = self._folder.log.read_text(errors="replace").split("\n")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
