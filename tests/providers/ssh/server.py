"""Real SSH servers on loopback addresses, with configuration, keys and port of their own."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastune.providers.local.processes import dying_with_parent
from tests.waiting import wait_until

_CONFIGURATION = """
ListenAddress {addresses}
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PermitRootLogin yes
StrictModes no
AcceptEnv *
MaxStartups 100
"""


def why_not() -> str | None:
    missing = [name for name in ("sshd", "ssh", "ssh-keygen") if find(name) is None]
    return f"{', '.join(missing)} not installed (Debian: openssh-server)" if missing else None


def find(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin")


class SshServer:
    """Machines that are addresses of one server. `options` are those of a job."""

    def __init__(self, folder: Path, addresses: tuple[str, ...]) -> None:
        self.folder = folder
        self.addresses = addresses
        with socket.socket() as probe:
            probe.bind((addresses[0], 0))
            self.port: int = probe.getsockname()[1]
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def options(self) -> dict[str, object]:
        return {
            "hosts": [f"{address}:{self.port}" for address in self.addresses],
            "key": str(self.folder / "user"),
            "ssh_options": [
                "-o StrictHostKeyChecking=no",
                f"-o UserKnownHostsFile={self.folder}/known",
                "-o LogLevel=ERROR",
                "-F none",
            ],
            "address": "127.0.0.2",
        }

    def start(self) -> None:
        for name in ("host", "user"):
            if not (self.folder / name).exists():
                command = [
                    find("ssh-keygen") or "",
                    "-q",
                    "-t",
                    "ed25519",
                    "-N",
                    "",
                    "-f",
                    str(self.folder / name),
                ]
                subprocess.run(command, check=True)
        text = _CONFIGURATION.format(
            addresses="\nListenAddress ".join(self.addresses), port=self.port, folder=self.folder
        )
        (self.folder / "sshd_config").write_text(text, encoding="utf-8")
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd insists on this folder
        with (self.folder / "sshd.log").open("ab") as log:
            self.process = subprocess.Popen(
                [find("sshd") or "", "-D", "-e", "-f", str(self.folder / "sshd_config")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=dying_with_parent(),  # noqa: PLW1509
            )
        wait_until(self._answers, (self.folder / "sshd.log").read_text)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((self.addresses[0], self.port), 1.0):
            return True
        return False


@contextlib.contextmanager
def running_server(machines: int = 4) -> Iterator[SshServer]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    if os.geteuid() != 0:
        pytest.skip("only root can start an SSH server for itself")
    folder = Path(tempfile.mkdtemp(prefix="elastune-ssh-", dir="/tmp"))
    server = SshServer(folder, tuple(f"127.0.0.{number}" for number in range(11, 11 + machines)))
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
