"""Several hosts on one machine: network namespaces with addresses of their own, joined by `wire.py`.

Each has its own name, network and shared memory, and an SSH server. Links can be cut, delayed and slowed. The
files of the machine are those of all hosts, as in a shared folder. Only root can make namespaces.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from elastune.providers.local.processes import dying_with_parent, tagged
from tests.providers.ssh.server import SshServer, find, why_not

HOSTS = "ELASTUNE_HOSTS"
"""In the environment of all that runs on the hosts: the folder of the rig."""
_ENTER = 'hostname "$0" && mount -t tmpfs -o size=2g none /dev/shm && exec "$@"'


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Hosts:
    """h1, h2, ... at 10.77.0.1, 10.77.0.2, ..."""

    def __init__(self, folder: Path, count: int = 3) -> None:
        self.folder = folder
        self.mark = f"el{os.getpid() % 100000}"
        self.names = tuple(f"h{number}" for number in range(1, count + 1))
        self.processes: list[subprocess.Popen[bytes]] = []
        self.server = SshServer(folder, ("127.0.0.1",))
        self.server.port = 2222
        self._wire: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        for name in self.names:
            _ip("netns", "add", self._space(name))
        self._wire = subprocess.Popen(
            [sys.executable, "-u", "-m", "tests.hosts.wire", *map(self._space, self.names)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=dying_with_parent(),  # noqa: PLW1509
        )
        assert self._wire.stdout is not None
        if self._wire.stdout.readline() != b"up\n":
            pytest.skip("this kernel has no TAP devices")
        for name in self.names:
            self._inside(name, "ip", "address", "add", f"{self.address(name)}/24", "dev", "eth0")
            for each in ("lo", "eth0"):
                self._inside(name, "ip", "link", "set", each, "up")
        for key in ("host", "user"):
            path = str(self.folder / key)
            subprocess.run(
                [find("ssh-keygen") or "", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True
            )
        for name in self.names:
            self._start_sshd(name)

    def address(self, name: str) -> str:
        return f"10.77.0.{name.removeprefix('h')}"

    @property
    def options(self) -> dict[str, object]:
        """Of a job: all hosts as machines. The driver is on one of them."""
        hosts = [f"{self.address(name)}:{self.server.port}" for name in self.names]
        options = {key: value for key, value in self.server.options.items() if key != "address"}
        return {**options, "hosts": hosts}

    def command(self, name: str, *command: str) -> list[str]:
        """Runs a command on a host."""
        inside = ["unshare", "--uts", "--mount", "sh", "-c", _ENTER, name, *command]
        return ["ip", "netns", "exec", self._space(name), *inside]

    def popen(
        self, name: str, *command: str, log: Path, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        with log.open("ab") as file:
            process = subprocess.Popen(
                self.command(name, *command),
                env={**os.environ, HOSTS: str(self.folder), **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=dying_with_parent(),  # noqa: PLW1509
            )
        self.processes.append(process)
        return process

    def cut(self, name: str) -> None:
        """The host lives, but cannot be reached, nor reach others."""
        self._order(f"cut {self._space(name)}")

    def mend(self, name: str) -> None:
        self._order(f"mend {self._space(name)}")

    def slow(self, *, delay_s: float, bits_per_s: float = math.inf, loss: float = 0.0) -> None:
        """All links; the delay is that of each way."""
        for line in (f"delay {delay_s}", f"rate {bits_per_s}", f"loss {loss}"):
            self._order(line)

    def _order(self, line: str) -> None:
        assert self._wire is not None
        assert self._wire.stdin is not None
        self._wire.stdin.write(f"{line}\n".encode())
        self._wire.stdin.flush()

    def stop(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        for pid in tagged(HOSTS, str(self.folder)):
            if pid != os.getpid():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)
        if self._wire is not None:
            self._wire.kill()
            self._wire.communicate()
        for name in self.names:
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "del", self._space(name))

    def _start_sshd(self, name: str) -> None:
        config = self.folder / f"sshd-{name}"
        text = [
            f"ListenAddress {self.address(name)}",
            f"Port {self.server.port}",
            f"HostKey {self.folder}/host",
            f"AuthorizedKeysFile {self.folder}/user.pub",
            "PidFile none",
            "UsePAM no",
            "StrictModes no",
            "PermitRootLogin yes",
            f"SetEnv {HOSTS}={self.folder}",
        ]
        config.write_text("\n".join([*text, ""]), encoding="utf-8")
        Path("/run/sshd").mkdir(exist_ok=True)
        self.popen(
            name, find("sshd") or "", "-D", "-e", "-f", str(config), log=self.folder / f"sshd-{name}.log"
        )

    def _space(self, name: str) -> str:
        return f"{self.mark}-{name}"

    def _inside(self, name: str, *command: str) -> None:
        done = subprocess.run(
            ["ip", "netns", "exec", self._space(name), *command], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"


@contextlib.contextmanager
def several_hosts(count: int = 3) -> Iterator[Hosts]:
    reason = why_not()
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("unshare") is None:
        reason = "only root can make network namespaces (Debian: iproute2)"
    if reason is not None:
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="elastune-hosts-", dir="/tmp"))
    hosts = Hosts(folder, count)
    try:
        try:
            hosts.start()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
        yield hosts
    finally:
        hosts.stop()
        shutil.rmtree(folder, ignore_errors=True)
