"""Ray's head and the raylets of the nodes. Only this module and `ray_start` use Ray's private process API.

The head is the global control store and a raylet without slots, to which the driver connects. Ray composes
that raylet's command line; the command of a node is the head's with other names and resources. Started by
Ray, a node has two Python agents (metrics, environments) and one prestarted worker per CPU: 1-2 s and 200 MB.
Here both agents are a `cat`, which ends with the raylet's pipe, and all nodes share one agent for
environments: 0.1-0.3 s (with several at once often 1.2 s) and 30 MB.
Measured with Ray 2.60. A Ray with other flags fails to start with an error.
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import ray
from ray._private import node as ray_node
from ray._private import services, utils
from ray._private.parameter import RayParams

from elastune.model.ids import NodeId
from elastune.providers.local.processes import NODE, SESSION, FleetFolder, dying_with_parent
from elastune.providers.ray_start import patience

_LEAST_STORE_BYTES = 256 * 2**20
_STORE_PART = 0.25
_SYSTEM: Mapping[str, object] = {
    # A raylet that was killed refuses the connection at once: dead after 5 checks, 2.5 s. One that only lacks
    # CPU time has 5 x 5 s to answer. The supervisor sees the end of a process at once in any case.
    "health_check_initial_delay_ms": 2000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 5000,
    "health_check_failure_threshold": 5,
    # How long a raylet waits for an object of a node that has died before it asks again where the object is.
    "object_manager_pull_timeout_ms": 500,
}
_SHARED_SYSTEM: Mapping[str, object] = {**_SYSTEM, "health_check_period_ms": 2000}
"""A network may be slow for a moment: a node is dead after 5 checks, 10 s if it refuses the connection, 35 s
if it cannot be reached."""
_ALIVE = 0
_LEAST_FREE = 20
"""Ports of a range: fewer are not enough for a node and its workers."""

# Of its dashboard and of the agents on the nodes; Ray refuses to start if another port is one of these.
_RAY_PORTS = frozenset({6379, 8265, 10001, 52365})


def _store_bytes() -> int:
    """Of every node's object store: a part of the free memory, taken only when models of other nodes come."""
    free = min(utils.estimate_available_memory(), utils.get_shared_memory_bytes())
    return max(_LEAST_STORE_BYTES, int(free * _STORE_PART))


class _QuietNode(ray_node.Node):  # type: ignore[misc]
    """A head without the web server, which Ray starts even without a dashboard."""

    def start_api_server(self, **_: Any) -> None:
        self._webui_url = None


class RayHead:
    """A running head."""

    def __init__(
        self, folder: FleetFolder, host: str | None = None, ports: tuple[int, int] | None = None
    ) -> None:
        """`host`: the address at which nodes on other machines reach it; None: there are none. `ports`: the
        range in which it listens."""
        # A folder in the folder: Ray makes its own writable for all users.
        home = folder.path / "ray"
        self._sockets = home / SESSION / "sockets"
        self._logs = folder.ray_logs
        self._bind = dying_with_parent()
        with _listening(host, ports, "gcs_server_port") as chosen:
            self._start(host, home, chosen)

    def _start(self, host: str | None, home: Path, ports: Mapping[str, int]) -> None:
        parameters = RayParams(
            num_cpus=0,
            num_gpus=0,
            object_store_memory=_store_bytes(),
            node_ip_address=host,
            **ports,
            # Chosen beforehand, so no raylet waits for the agent to report its port.
            runtime_env_agent_port=_free_port(),
            temp_dir=str(home),
            session_name=SESSION,
            include_log_monitor=False,
            include_dashboard=False,
            no_monitor=True,
            _system_config=dict(_SYSTEM if host is None else _SHARED_SYSTEM),
        )
        with patience(), _captured_raylet() as captured:
            # Ray itself makes its children end with us.
            self._node = _QuietNode(parameters, head=True, shutdown_at_exit=False, spawn_reaper=True)
        ((self._command, agent),) = captured
        self.address: str = self._node.gcs_address
        raylet = self._node.all_processes["raylet"][0].process.pid
        self._agent = _start_agent(agent, raylet, self._logs / "agent.log", self._bind)
        started = {info.process.pid for infos in self._node.all_processes.values() for info in infos}
        self.pids = frozenset({*started, self._agent.pid})

    def start_node(self, node: NodeId, *, cpus: float, gpus: float) -> tuple[int, str]:
        """Its process, and Ray's id for it."""
        name: str = ray.NodeID.from_random().hex()
        process = subprocess.Popen(  # noqa: S603
            self._command_of(node, name, cpus=cpus, gpus=gpus),
            env={**os.environ, NODE: node},
            preexec_fn=self._bind,  # noqa: PLW1509 - as Ray does it
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return process.pid, name

    def alive(self) -> frozenset[str]:
        """Ray's ids of the nodes on which it answers; none while the head is too busy to list them."""
        try:
            found = self._node.get_gcs_client().get_all_node_info(timeout=5.0)
        except (ray.exceptions.RayError, RuntimeError):
            return frozenset()
        return frozenset(name.hex() for name, info in found.items() if info.state == _ALIVE)

    def _command_of(self, node: NodeId, name: str, *, cpus: float, gpus: float) -> list[str]:
        renamed = {
            self._node.node_id: name,
            self._node.raylet_socket_name: str(self._sockets / f"{node}.r"),
            self._node.plasma_store_socket_name: str(self._sockets / f"{node}.p"),
        }
        resources = _flag(self._command, "static_resource_list")
        flags = {
            "static_resource_list": _resources(resources, cpus=cpus, gpus=gpus),
            "maximum_startup_concurrency": str(max(1, min(os.cpu_count() or 1, int(cpus)))),
            "stdout_filepath": str(self._logs / f"raylet-{node}.out"),
            "stderr_filepath": str(self._logs / f"raylet-{node}.err"),
        }
        command = [_renamed(part, renamed) for part in self._command if part != "--head"]
        return _with_flags(command, flags)


class JoinedRay:
    """A Ray node of this machine in a cluster whose head is on another, as light as those of a local fleet.
    It ends with the thread that made it."""

    def __init__(
        self,
        *,
        address: str,
        host: str,
        home: Path,
        cpus: float,
        gpus: float,
        labels: Mapping[str, str],
        ports: tuple[int, int] | None = None,
    ) -> None:
        """`host`: the address of this machine as the others reach it; `ports`: where it listens."""
        with _listening(host, ports) as chosen:
            parameters = RayParams(
                gcs_address=address,
                node_ip_address=host,
                num_cpus=cpus,
                num_gpus=gpus,
                labels=dict(labels),
                object_store_memory=_store_bytes(),
                **chosen,
                runtime_env_agent_port=_free_port(),
                temp_dir=str(home),
                include_log_monitor=False,
                include_dashboard=False,
            )
            with patience(), _captured_raylet() as captured:
                self._node = _QuietNode(parameters, head=False, shutdown_at_exit=False, spawn_reaper=True)
        ((_, agent),) = captured
        self._raylet = self._node.all_processes["raylet"][0].process
        log = Path(self._node.get_logs_dir_path()) / "agent.log"
        self._agent = _start_agent(agent, self._raylet.pid, log, dying_with_parent())

    @property
    def code(self) -> int | None:
        """The exit code of the raylet; None: it lives."""
        code: int | None = self._raylet.poll()
        return code

    def end(self, patience_s: float) -> None:
        """The raylet leaves the cluster, if it can in that time."""
        self._raylet.terminate()
        try:
            self._raylet.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._raylet.kill()
            self._raylet.wait()
        self._agent.kill()
        self._agent.wait()


def _start_agent(command: str, raylet: int, log: Path, bind: Callable[[], None]) -> subprocess.Popen[bytes]:
    """The one agent for environments. As a child of a raylet it would outlive us by a minute."""
    with log.open("ab") as file:
        return subprocess.Popen(  # noqa: S603
            shlex.split(command),
            env={**os.environ, "RAY_RAYLET_PID": str(raylet)},
            preexec_fn=bind,  # noqa: PLW1509
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
        )


@contextmanager
def _captured_raylet() -> Iterator[list[tuple[list[str], str]]]:
    """Make the raylet that Ray starts meanwhile a light one; capture its command and that of its agent."""
    start = services.start_ray_process
    captured: list[tuple[list[str], str]] = []

    def start_light(command: list[str], process_type: str, *rest: Any, **options: Any) -> Any:
        if process_type == "raylet":
            agent = _flag(command, "runtime_env_agent_command")
            command = _with_flags(command, _light())
            captured.append((command, agent))
        return start(command, process_type, *rest, **options)

    services.start_ray_process = start_light
    try:
        yield captured
    finally:
        services.start_ray_process = start


def _light() -> dict[str, str]:
    # An agent that does nothing: it reads from the pipe that ends with its raylet.
    idler = shutil.which("cat") or "/bin/cat"
    return {
        "num_prestart_python_workers": "0",
        "dashboard_agent_command": idler,
        "runtime_env_agent_command": idler,
        # Not in use. With 0 the raylet would wait for the agent to report its port.
        "metrics-agent-port": "-1",
        "metrics_export_port": "-1",
        "dashboard_agent_listen_port": "-1",
    }


def _flag(command: list[str], name: str) -> str:
    return next(part.partition("=")[2] for part in command if part.startswith(f"--{name}="))


def _with_flags(command: list[str], flags: Mapping[str, str]) -> list[str]:
    kept = [part for part in command if part.partition("=")[0].removeprefix("--") not in flags]
    return kept + [f"--{name}={value}" for name, value in flags.items()]


def _renamed(part: str, names: Mapping[str, str]) -> str:
    """All at once, whole words only: the head's socket `.../raylet` is also the beginning of other paths."""
    pattern = "|".join(rf"{re.escape(name)}(?![\w./-])" for name in names)
    return re.sub(pattern, lambda found: names[found[0]], part)


def _resources(of_head: str, *, cpus: float, gpus: float) -> str:
    """`name,amount,name,amount`: logical resources, whatever the machine has."""
    words = of_head.split(",")
    amounts = dict(zip(words[::2], words[1::2], strict=True))
    amounts.pop("node:__internal_head__", None)
    amounts |= {name: str(amount) for name, amount in (("CPU", cpus), ("GPU", gpus)) if amount}
    return ",".join(f"{name},{amount}" for name, amount in amounts.items())


@contextmanager
def _listening(host: str | None, ports: tuple[int, int] | None, *more: str) -> Iterator[dict[str, int]]:
    """Where a node of Ray listens, as arguments of `RayParams`; without a range, anywhere. Several nodes of a
    user may start on one machine: each chooses once the one before listens."""
    if ports is None:
        yield {"node_manager_port": 0, "min_worker_port": 0, "max_worker_port": 0}
        return
    first, last = ports
    names = ("node_manager_port", "object_manager_port", *more)
    with ExitStack() as undo:
        with suppress(OSError):  # without the lock it nearly always works, too
            flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW
            lock = os.open(f"/tmp/elastune-ports-{os.getuid()}", flags, 0o600)  # noqa: S108
            undo.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX)
        free = [port for port in range(first, last + 1) if _is_free(host or "", port)]
        if len(free) < _LEAST_FREE:
            raise OSError(f"only {len(free)} ports from {first} to {last} are free on this machine")
        chosen = dict(zip(names, free, strict=False))
        yield {**chosen, "min_worker_port": free[len(names)], "max_worker_port": last}


def _is_free(host: str, port: int) -> bool:
    with suppress(OSError), socket.socket() as probe:
        probe.bind((host, port))
        return True
    return False


def _free_port() -> int:
    """A port that is free and none of those that Ray keeps for itself, in use or not."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port not in _RAY_PORTS:
            return port
