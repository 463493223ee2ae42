"""A machine as a node of a run: the program that runs on it, starts a Ray node, and ends it when it should.

It ends when its lease passes, when it cannot reach the head for a while, when its Ray node ends, on SIGTERM,
and, if it is fed by a pipe, when that closes. So a driver that is killed, stopped or cut off leaves nothing.
SIGUSR1 is a notice: the machine will be taken away. The Ray node is drained, which tells the driver.

It is started as `python -m elastune.providers.remote.node FILE`, or `-` for a first line on its standard
input; both are a `NodeSpec` as JSON. It prints what happens, and exits with one of the codes below.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from elastune.providers.local.link import MISLEADING, WORKER_NICENESS
from elastune.providers.local.processes import KEEP_READABLE, NODE, kill_all
from elastune.providers.ray_cluster import INSTANCE_LABEL

if TYPE_CHECKING:
    from elastune.providers.local.head import JoinedRay

NAMESPACE = b"elastune"
LEASE_KEY = b"elastune-lease"
ENDED, FAILED, UNREACHABLE, EXPIRED = 0, 1, 70, 71
"""Exit codes: as asked; Ray did not come up or broke; the head cannot be reached; the lease has passed."""

PREFIX, ENTRY = "elastune-node-", "node.json"
"""Of the folder of a node in /tmp, and the file in it that says what it is."""

_TICK_S = 1.0
_CALL_S = 3.0
_LINGER_S = 3.0
_KNOCKS = 5
_WEDGED_S = 30.0
_PREEMPTION = 2
"""Ray's reason of a drain: DRAIN_NODE_REASON_PREEMPTION."""
_LAST_LINES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """What a machine has to know to become a node."""

    head: str
    """host:port of the run's Ray head."""
    token: str
    """What Ray asks of every connection."""
    node: str
    """Its name at the provider."""
    provider: str = ""
    run: str = ""
    job: str = ""
    """The name of the job, for people."""
    cpus: int
    gpus: int
    lease_s: float = 300.0
    """Until the first lease is read."""
    lost_head_s: float = 60.0
    """It ends when it cannot reach the head for so long."""
    notice_s: float = 60.0
    """From a notice to the end of the machine."""
    preempted: str = ""
    """A shell command that prints how many seconds are left after a signal that is only a notice, else
    fails."""
    ports: tuple[int, int] | None = None
    """The range in which Ray listens on this machine; None: any."""

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str, **changes: str) -> Self:
        fields = {**json.loads(text), **changes}
        if fields.get("ports") is not None:
            fields["ports"] = tuple(fields["ports"])
        return cls(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredNode:
    """What a node says about itself in its folder."""

    node: str
    provider: str
    run: str
    job: str
    tag: str
    """In the environment of its processes, but for the program itself."""
    pid: int
    """Of the program."""
    until: float
    """The end of its lease, by the monotonic clock of this machine."""


def address_towards(head: str) -> str:
    """The own address from which packets to the head leave, which is the one the head can reach."""
    host = head.rpartition(":")[0]
    if host.startswith("127."):
        return host  # a node on the head's own machine
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))
        return str(probe.getsockname()[0])


class LeaseClock:
    """Counts the seconds of a lease by the clock of this machine, from when another text was read."""

    def __init__(self, now: float, left_s: float) -> None:
        self.until = now + left_s
        self.ahead_s = 0.0
        """What to add to the time of this machine to get that of the driver."""
        self._number = 0

    def read(self, text: bytes | None, now: float, wall: float) -> bool:
        """Whether it was another text."""
        lease = json.loads(text) if text else {"number": self._number}
        if lease["number"] == self._number:
            return False
        self._number, self.until = lease["number"], now + lease["left_s"]
        self.ahead_s = lease["wall"] - wall
        return True


class RemoteNode:
    """The Ray node of this machine, and when it has to end."""

    def __init__(self, spec: NodeSpec, feed: int | None = None) -> None:
        """`feed`: a pipe whose end is the end of the driver."""
        self._spec = spec
        self._feed = feed
        self._tag = f"{spec.node}-{secrets.token_hex(3)}"
        self._folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir="/tmp"))
        self._ray: JoinedRay | None = None
        self._client: Any = None
        self._lease = LeaseClock(time.monotonic(), spec.lease_s)
        self._reached = time.monotonic()
        self._is_drained = False
        self._wake, self._waker = os.pipe()
        for end in (self._wake, self._waker):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        for heard in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            signal.signal(heard, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._register()

    def serve(self) -> int:
        """Until it ends; returns the exit code."""
        try:
            if not self._finds_head():
                say(f"failed: the head {self._spec.head} does not answer; its run may have ended")
                return UNREACHABLE
            joined = threading.Event()
            threading.Thread(target=self._guard, args=(joined,), name="elastune-guard", daemon=True).start()
            try:
                self._start()
            except Exception as error:  # noqa: BLE001  whatever Ray's private parts raise
                say(f"failed: Ray did not start: {type(error).__name__}: {error}; {self._last_words()}")
                return FAILED
            finally:
                joined.set()
            while True:
                code = self._hear(_TICK_S)
                code = self._check() if code is None else code
                if code is not None:
                    return code
        finally:
            self._end()

    def _register(self) -> None:
        """For `remote/listing.py`, which another process on this machine calls."""
        spec = self._spec
        entry = RegisteredNode(
            node=spec.node,
            provider=spec.provider,
            run=spec.run,
            job=spec.job,
            tag=self._tag,
            pid=os.getpid(),
            until=self._lease.until,
        )
        new = self._folder / f"{ENTRY}.new"
        with contextlib.suppress(OSError):  # a full disk: the node works without
            new.write_text(json.dumps(asdict(entry)), encoding="utf-8")
            new.replace(self._folder / ENTRY)

    def _finds_head(self) -> bool:
        """Ray would try for minutes to reach the head of a run that is over."""
        for attempt in range(_KNOCKS):
            if attempt and self._hear(_TICK_S) is not None:
                return False
            if self._knock():
                return True
        return False

    def _knock(self) -> bool:
        host, _, port = self._spec.head.rpartition(":")
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), _CALL_S):
            return True
        return False

    def _guard(self, joined: threading.Event) -> None:
        """While Ray starts: without a head it blocks, measured for 11 minutes and more, and hears no signal.
        Later, if a call to Ray does not return although lease and head are long gone."""
        reached = time.monotonic()
        watched = [self._wake, *([] if self._feed is None else [self._feed])]
        while not joined.wait(_TICK_S):
            if self._knock():
                reached = time.monotonic()
            is_told = bool(select.select(watched, [], [], 0.0)[0])
            is_lost = time.monotonic() - reached >= self._spec.lost_head_s
            if (is_told or is_lost) and not joined.is_set():
                say("told to end" if is_told else f"failed: the head {self._spec.head} cannot be reached")
                kill_all(NODE, self._tag)
                shutil.rmtree(self._folder, ignore_errors=True)
                os._exit(ENDED if is_told else UNREACHABLE)
        while True:  # the main thread checks the same every second, unless Ray holds it
            time.sleep(_WEDGED_S)
            now = time.monotonic()
            if now > max(self._lease.until, self._reached + self._spec.lost_head_s) + _WEDGED_S:
                kill_all(NODE, self._tag)
                os._exit(EXPIRED)

    def _start(self) -> None:
        spec, token = self._spec, self._folder / "token"
        token.touch(0o600)
        token.write_text(spec.token, encoding="ascii")
        os.environ.update(self._environment(token))
        for name in MISLEADING & os.environ.keys():
            del os.environ[name]
        say(f"joining {spec.head} as {spec.node}")
        from elastune.providers.local.head import JoinedRay  # noqa: PLC0415  Ray, which reads the environment

        self._ray = JoinedRay(
            address=spec.head,
            host=address_towards(spec.head),
            home=self._folder / "ray",
            cpus=spec.cpus,
            gpus=spec.gpus,
            labels={INSTANCE_LABEL: spec.node},
            ports=spec.ports,
        )

    def _environment(self, token: Path) -> Mapping[str, str]:
        return {
            **KEEP_READABLE,
            NODE: self._tag,
            "RAY_enable_pipe_based_agent_to_parent_health_check": "1",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_gcs_rpc_server_reconnect_timeout_s": str(round(self._spec.lost_head_s)),
            "RAY_worker_niceness": str(WORKER_NICENESS),
            "RAY_USAGE_STATS_ENABLED": "0",
        }

    def _hear(self, most_s: float) -> int | None:
        """Signals and the pipe, whichever comes first."""
        watched = [self._wake, *([] if self._feed is None else [self._feed])]
        ready, _, _ = select.select(watched, [], [], most_s)
        if self._feed in ready and not os.read(self._feed, 4096):
            say("the driver has closed the connection")
            return ENDED
        if self._wake not in ready:
            return None
        heard = os.read(self._wake, 4096)
        is_told = signal.SIGTERM in heard or signal.SIGINT in heard
        if is_told or signal.SIGUSR1 in heard:
            left_s = self._seconds_left()
            if is_told and left_s is None:
                say("told to end")
                return ENDED
            self._notice(self._spec.notice_s if left_s is None else left_s)
        return None

    def _check(self) -> int | None:
        assert self._ray is not None
        if self._ray.code is not None:
            if self._is_drained:
                say("the Ray node has left")
                return ENDED
            say(f"failed: Ray ended with code {self._ray.code}: {self._last_words()}")
            return FAILED
        self._read_lease()
        now = time.monotonic()
        if now >= self._lease.until:
            say("the lease has passed")
            return EXPIRED
        if now - self._reached >= self._spec.lost_head_s:
            say(f"failed: the head {self._spec.head} cannot be reached for {self._spec.lost_head_s:.0f} s")
            return UNREACHABLE
        return None

    def _read_lease(self) -> None:
        from ray._raylet import GcsClient  # noqa: PLC0415 - heavy

        asked = time.monotonic()
        if self._client is None and not self._knock():  # a new client would wait for a head that is gone
            return
        try:
            if self._client is None:
                self._client = GcsClient(address=self._spec.head)
            text = self._client.internal_kv_get(LEASE_KEY, NAMESPACE, timeout=_CALL_S)
        except Exception:  # noqa: BLE001  whatever Ray raises when the head does not answer
            self._client = None
            return
        self._reached = asked
        if self._lease.read(text, asked, time.time()):
            self._register()

    def _seconds_left(self) -> float | None:
        if not self._spec.preempted:
            return None
        try:
            done = subprocess.run(  # noqa: S602  the provider's own command
                self._spec.preempted, shell=True, capture_output=True, text=True, timeout=10.0, check=True
            )
            return float(done.stdout)
        except (OSError, subprocess.SubprocessError, ValueError):
            return None

    def _notice(self, left_s: float) -> None:
        """Ray informs the driver. A node that has not joined yet ends instead when it is taken away."""
        say(f"noticed: this machine is taken away in {left_s:.0f} s")
        until = time.time() + self._lease.ahead_s + left_s
        with contextlib.suppress(Exception):  # the driver sees the loss instead
            for node, info in self._client.get_all_node_info(timeout=_CALL_S).items():
                if info.state == 0 and info.labels.get(INSTANCE_LABEL) == self._spec.node:
                    reason = "the machine is taken away"
                    self._client.drain_node(node.hex(), _PREEMPTION, reason, int(until * 1000))
                    self._is_drained = True

    def _last_words(self) -> str:
        lines: list[str] = []
        for path in sorted(self._folder.glob("ray/session/logs/raylet.*")):
            lines += path.read_text(errors="replace").strip().splitlines()[-_LAST_LINES:]
        return " | ".join(line.strip() for line in lines) or "no output"

    def _end(self) -> None:
        if self._ray is not None:
            self._ray.end(_LINGER_S)
        kill_all(NODE, self._tag)
        shutil.rmtree(self._folder, ignore_errors=True)


def say(text: str) -> None:
    with contextlib.suppress(OSError):  # the reader is gone
        sys.stdout.write(f"elastune: {text}\n")
        sys.stdout.flush()


def main() -> None:
    source = sys.argv[1]
    if source == "-":
        spec, feed = NodeSpec.decode(sys.stdin.buffer.readline().decode()), sys.stdin.fileno()
    else:
        changes = dict(word.split("=", 1) for word in sys.argv[2:])
        spec, feed = NodeSpec.decode(Path(source).read_text(encoding="utf-8"), **changes), None
    sys.exit(RemoteNode(spec, feed).serve())


if __name__ == "__main__":
    main()
