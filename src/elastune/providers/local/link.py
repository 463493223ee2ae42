"""What driver and keeper say to each other: one JSON object per line, named by its kind.

This process as a driver of Ray: how to get into a guarded cluster, and to leave without a trace.

The driver's end of the line to its keeper.
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
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Any

from elastune.errors import InvariantError
from elastune.providers.local.processes import FLEET, KEEP_READABLE, FleetFolder, kill_all


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorTask:
    """All that a keeper is told when it starts."""

    folder: str
    driver: int
    """The process that the fleet must not outlive."""
    cpus: float
    gpus: float
    """What every node offers to Ray."""
    expires_s: float | None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> SupervisorTask:
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class StartNode:
    """To the supervisor: start these nodes. One `NodeStarted` answers, so no request is ever half known."""

    token: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndNode:
    """To the keeper: end exactly these."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The head is up."""

    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The head did not come up, or broke. It is the last that a keeper says."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The nodes of this request are being started, from now on."""

    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStarted:
    """These nodes boot; the others of the request will not come, for this reason."""

    token: str
    nodes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """Ray answers on this node, which it calls `ray_node`."""

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
        raise InvariantError(f"driver and keeper do not understand each other: {line!r}")
    return kind(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    )


_LOGGER = logging.getLogger("elastune.ray")
_MISLEADING = frozenset(
    {"RAY_ADDRESS", "RAY_AUTH_TOKEN", "RAY_GCS_SERVER_PORT", "RAY_REDIS_ADDRESS", "RAY_RUNTIME_ENV_HOOK"}
)
"""Settings for some other cluster of the user's, which would win over ours."""

_PATIENT = {"RAY_gcs_rpc_server_reconnect_timeout_s": "600"}
"""For the driver alone: when the head is gone Ray ends the process, after a minute by default. That is for
the run to decide, which sees its nodes lost at once."""


def ray_environment(folder: FleetFolder, base: Mapping[str, str]) -> dict[str, str]:
    """The environment in which every process of a fleet runs, and the driver while it is connected."""
    kept = {name: value for name, value in base.items() if name not in _MISLEADING}
    return kept | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(folder.token),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # which means, of all things: stay on 127.0.0.1
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_gcs_rpc_server_reconnect_timeout_s": "5",  # a head that is gone does not come back
        "RAY_enable_pipe_based_agent_to_parent_health_check": "1",
    }


class Connection:
    """Connects on creation. `close` puts back all that was changed for it."""

    def __init__(self, folder: FleetFolder, address: str) -> None:
        from ray._private import ray_constants, worker  # noqa: PLC0415 - heavy

        self._undo = contextlib.ExitStack()
        self._undo.callback(_forget_token)
        self._undo.callback(_replace_environment, dict(os.environ))
        _replace_environment(ray_environment(folder, os.environ) | _PATIENT)
        # Ray prints what its nodes complain about on standard output, where the run's own output goes.
        self._set(worker, "print_to_stdstream", _log)
        # Ray may have been imported before the environment said so: 127.0.0.1 is meant as it stands.
        self._set(ray_constants, "ENABLE_RAY_CLUSTER", False)
        try:
            _forget_token()
            connect_quietly(address)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        import ray  # noqa: PLC0415

        ray.shutdown()
        self._undo.close()

    def _set(self, where: ModuleType, name: str, value: object) -> None:
        self._undo.callback(setattr, where, name, getattr(where, name))
        setattr(where, name, value)


def connect_quietly(address: str) -> None:
    """`ray.init` without its output, and without its handler for SIGTERM, which is not its to take."""
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
        )
    finally:
        if handler is not None:
            signal.signal(signal.SIGTERM, handler)


def _log(data: Mapping[str, Any], **_: Any) -> None:
    _LOGGER.info("%s", "\n".join(data.get("lines", ())))


def _replace_environment(wanted: Mapping[str, str]) -> None:
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update(wanted)


def _forget_token() -> None:
    """Ray remembers mode and token for the life of the process; the next fleet has another one."""
    from ray._raylet import AuthenticationTokenLoader, Config  # noqa: PLC0415

    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


_PATIENCE_S = 10.0


class SupervisorLink:
    """A keeper process; what it says is handed on as it comes, by a thread of its own.

    `on_end` is called once, when it says no more, with the end of its log. By then all it owned is dead.
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
                [sys.executable, "-P", "-m", "elastune.providers.local.supervisor", task.to_json()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=ray_environment(folder, os.environ) | KEEP_READABLE | {FLEET: task.folder},
                start_new_session=True,
            )
        self._listener = threading.Thread(target=self._listen, name="elastune-keeper", daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, order: Order) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):  # it is gone, as `on_end` tells
            self._process.stdin.write(encode(order))
            self._process.stdin.flush()

    def close(self) -> None:
        """End the keeper and with it the fleet."""
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
                        raise InvariantError(f"the keeper sent an order: {line!r}")
                    case news:
                        self._on_news(news)
        last_words = self._last_words()
        # If it was killed, those that it owned die with it; what does not is ended here.
        self._process.wait()
        kill_all(FLEET, str(self._folder.path))
        self._on_end(last_words)

    def _last_words(self) -> str:
        try:
            lines = self._folder.log.read_text(errors="replace").split("\n")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
