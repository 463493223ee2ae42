"""Pods of the stand-in made real: each that runs becomes a node of Ray on an address of its own, as the
container that KubeRay starts, and ends with its pod."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from elastune.providers.local.processes import KEEP_READABLE, kill_all
from elastune.runtime.ray.agent import MACHINE
from tests.clouds.hypervisor import NO_SPARE_WORKERS, Head
from tests.providers.kubernetes.stand_in import GROUP, StandIn

POD = "ELASTUNE_TEST_POD"
"""In the environment of all processes of a pod: its folder."""
_LOOK_S = 0.2
_STORE_BYTES = 100_000_000


class PodMachines:
    def __init__(self, stand_in: StandIn, head: Head, cpus: int) -> None:
        self._stand_in, self._head, self._cpus = stand_in, head, cpus
        self._folders: dict[str, Path] = {}
        self._containers: list[subprocess.Popen[bytes]] = []
        self._ends = threading.Event()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._serve, name="pods")
        thread.start()
        try:
            yield
        finally:
            self._ends.set()
            thread.join()
            for name in tuple(self._folders):
                self._end(name)
            for container in self._containers:
                container.wait()

    def _serve(self) -> None:
        while not self._ends.wait(_LOOK_S):
            wanted = set(self._stand_in.alive())
            with self._stand_in.lock:
                addresses = {
                    name: pod["status"]["podIP"]
                    for name, pod in self._stand_in.pods.items()
                    if pod["group"] == GROUP and pod["status"]["phase"] == "Running" and name in wanted
                }
            for name in self._folders.keys() - addresses.keys():
                self._end(name)
            for name in addresses.keys() - self._folders.keys():
                self._start(name, addresses[name])

    def _start(self, name: str, address: str) -> None:
        folder = self._folders[name] = Path(tempfile.mkdtemp(prefix="pod-", dir="/tmp"))
        own = {POD: str(folder), MACHINE: name, **KEEP_READABLE, **NO_SPARE_WORKERS, **self._head.environment}
        with (folder / "log").open("wb") as log:
            container = subprocess.Popen(
                [
                    *(sys.executable, "-m", "elastune.providers.ray_start", "--block"),
                    *(f"--address={self._head.address}", f"--node-ip-address={address}"),
                    *(f"--num-cpus={self._cpus}", f"--object-store-memory={_STORE_BYTES}"),
                    *("--disable-usage-stats", f"--temp-dir={folder}/ray"),
                ],
                env={**os.environ, **own},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._containers.append(container)

    def _end(self, name: str) -> None:
        folder = self._folders.pop(name)
        kill_all(POD, str(folder))
        shutil.rmtree(folder, ignore_errors=True)
