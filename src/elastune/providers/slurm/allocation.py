"""The machines of the Slurm allocation in which this process runs, as nodes at hand: no job is submitted.

A node is a job step (`srun`), which ends with its driver or with the allocation.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

from elastune.errors import ExecutionError
from elastune.model.ids import NodeId
from elastune.providers.protocol import ProviderSetting
from elastune.providers.ray_cluster import RayLink
from elastune.providers.remote.head import RemoteHead, own_address
from elastune.providers.remote.node import NodeSpec
from elastune.providers.remote.pool import PoolProvider
from elastune.providers.slurm.options import SlurmOptions


class AllocationProvider(PoolProvider):
    """Each machine of the allocation is one node. This process shares the first of them with a node."""

    def __init__(
        self,
        setting: ProviderSetting,
        *,
        slot_cpus: int = 1,
        slot_gpus: int = 0,
        ray_link: RayLink | None = None,
    ) -> None:
        super().__init__(setting, slot_cpus, slot_gpus, ray_link=ray_link)
        self._options = SlurmOptions.parse(setting.options)
        self._job = os.environ["SLURM_JOB_ID"]
        self._places: tuple[str, ...] = ()

    @property
    def places(self) -> Sequence[str]:
        if not self._places:
            self._places = hosts_of(os.environ.get("SLURM_JOB_NODELIST", ""))
        return self._places

    def command_of(self, place: str) -> Sequence[str]:
        python = self._options.python or sys.executable
        program = [python, "-u", "-m", "elastune.providers.remote.node", "-"]
        return [
            *("srun", f"--jobid={self._job}", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={place}"),
            *("--cpu-bind=none", "--kill-on-bad-exit=0", "--quiet", "--input=all"),
            *program,
        ]

    def spec_of(self, node: NodeId, place: str) -> NodeSpec:
        usual, options = super().spec_of(node, place), self._options
        return replace(usual, lost_head_s=options.lost_head_after, ports=options.ports)

    def make_head(self) -> RemoteHead:
        towards = self.places[-1]
        host = own_address(self._options.address, _address_of(towards))
        return RemoteHead(self._setting, host, self._options.ports)


def hosts_of(nodelist: str) -> tuple[str, ...]:
    """From `gpu[01-03]`."""
    try:
        found = _scontrol("show", "hostnames", nodelist).split()
    except (OSError, subprocess.SubprocessError) as error:
        raise ExecutionError(
            f"the machines of this allocation, {nodelist!r}, are not known: {error}"
        ) from None
    return tuple(found)


def _address_of(host: str) -> str:
    """As Slurm reaches it; its name may be known to Slurm alone."""
    words = _scontrol("show", "node", host).split()
    found = next((word.partition("=")[2] for word in words if word.startswith("NodeAddr=")), host)
    return found or socket.gethostname()


def _scontrol(*arguments: str) -> str:
    program = shutil.which("scontrol") or "scontrol"
    done = subprocess.run(  # noqa: S603
        [program, *arguments], capture_output=True, text=True, timeout=60.0, check=True
    )
    return done.stdout
