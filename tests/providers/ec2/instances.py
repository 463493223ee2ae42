"""This machine as an EC2 instance: a node's script runs for real; metadata and switch are fakes.

The real `shutdown` is out of reach twice over: `ELASTUNE_SHUTDOWN` names a script that only takes notes, and
another of that name comes first in PATH.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from elastune.providers.ec2.boot import BootScript, render
from elastune.providers.ec2.calls import EXPIRY
from elastune.providers.local.processes import KEEP_READABLE, kill_all
from tests.providers.ec2.fake_imds import FakeImds
from tests.waiting import PATIENCE_S, wait_until

INSTANCE = "i-0123456789abcdef0"
LEASE = f"tags/instance/{EXPIRY}"
CLOCK = """#!/bin/bash
# The time of day and the time since the start are what the test says; all else is up to the real command.
case "$(basename "$0") $*" in
  "date +%s") cat {folder}/now ;;
  "cut -d. -f1 /proc/uptime") cat {folder}/uptime ;;
  *) PATH=${{PATH#*:}} exec "$(basename "$0")" "$@" ;;
esac
"""
NOTES = '#!/bin/bash\necho "$@" >>{notes}\n'

END = "--no-wall -P now"


def a_boot(**changes: object) -> BootScript:
    """Of an image that has everything, on a cluster without a token."""
    usual: dict[str, object] = {
        "head": "127.0.0.1:1",
        "cpus": 2,
        "gpus": 0,
        "region": "us-east-1",
        "expires": time.time() + 3600.0,
        "ray": "2.60.0",
        "elastune": "elastune[aws]==0.1.0",
        "python": sys.executable,
        "preinstalled": True,
    }
    return BootScript(**(usual | changes))  # type: ignore[arg-type]


class FakeInstance:
    """Everything that the script touches lies in one folder, and everything it starts ends with the test."""

    def __init__(self, folder: Path, imds: FakeImds) -> None:
        self.folder = folder
        self.imds = imds
        self.state = folder / "state"
        self._notes = folder / "shutdown.txt"
        self._started: list[subprocess.Popen[str]] = []
        (folder / "per-boot").mkdir()
        switch = self.command("shutdown", NOTES.format(notes=self._notes))
        for name in ("date", "cut"):
            self.command(name, CLOCK.format(folder=folder))
        self.began = int(time.time())
        self.pass_time(0)
        self.environment = os.environ | {
            "PATH": f"{switch.parent}:{os.environ['PATH']}",
            "ELASTUNE_SHUTDOWN": str(switch),
            "ELASTUNE_IMDS": imds.url,
            "ELASTUNE_STATE": str(self.state),
            "ELASTUNE_MOST_LEASE": "86400",
            "ELASTUNE_PER_BOOT": str(folder / "per-boot"),
            "ELASTUNE_SYSTEMD_RUN": "false",
            "ELASTUNE_TICK": "0.05",
            "ELASTUNE_MARGIN": "0",
            **KEEP_READABLE,
        }
        imds.data |= {"instance-id": INSTANCE, "local-ipv4": "127.0.0.3"}

    def command(self, name: str, text: str) -> Path:
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o700)
        return path

    @property
    def switched(self) -> list[str]:
        """The shutdown commands of the machine so far."""
        return self._notes.read_text().splitlines() if self._notes.exists() else []

    @property
    def ended(self) -> bool:
        return END in self.switched

    def boot(self, boot: BootScript) -> subprocess.CompletedProcess[str]:
        """To its end. The watchdog goes on."""
        command = ["bash", str(self._script(boot))]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )

    def watch(self, boot: BootScript) -> subprocess.Popen[str]:
        """The watchdog alone."""
        self.state.mkdir(exist_ok=True)
        command: Sequence[str] = ["bash", str(self._script(boot)), "watch"]
        with (self.state / "watch.log").open("a") as log:
            process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, text=True)
        self._started.append(process)
        return process

    def log(self, name: str) -> str:
        return (self.state / f"{name}.log").read_text()

    def pass_time(self, to_s: float) -> None:
        """On the clocks of the machine, which stand still otherwise: so long after its start."""
        for name, seconds in (("now", self.began + to_s), ("uptime", to_s)):
            whole = self.folder / f"{name}.new"
            whole.write_text(f"{seconds:.0f}\n")
            whole.rename(self.folder / name)

    def ticks(self, count: int = 2) -> None:
        """Wait until the watchdog has gone round so many times more, from beginning to end."""
        enough = self.imds.asked[LEASE] + count + 1
        wait_until(lambda: self.imds.asked[LEASE] >= enough, "the watchdog stands still")

    def ticks_in_silence(self, count: int = 2) -> None:
        """The same while the metadata service does not answer."""
        enough = self.imds.tokens + 4 * (count + 1)  # the lease, the instance, two kinds of notice
        wait_until(lambda: self.imds.tokens >= enough, "the watchdog stands still")

    def close(self) -> None:
        kill_all("ELASTUNE_STATE", str(self.state))
        for process in self._started:
            process.wait()

    def _script(self, boot: BootScript) -> Path:
        path = self.folder / "user-data"
        path.write_text(render(boot))
        return path


@contextmanager
def fake_instance(folder: Path) -> Iterator[FakeInstance]:
    with FakeImds().running() as imds:
        instance = FakeInstance(folder, imds)
        try:
            yield instance
        finally:
            instance.close()


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[FakeInstance]:
    with fake_instance(tmp_path) as made:
        yield made
