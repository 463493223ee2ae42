"""Machines that are reached by SSH, as a pool: a Ray node runs on each that the plan wants, while it does.

The machines need an SSH server, a login without a password, and Python with Elastune and Ray. Nothing is
installed, and nothing stays.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from elastune.errors import ExecutionError
from elastune.model.ids import NodeId
from elastune.providers.protocol import ProviderSetting
from elastune.providers.ray_cluster import RayLink
from elastune.providers.remote.head import RemoteHead, own_address
from elastune.providers.remote.node import NodeSpec
from elastune.providers.remote.pool import PoolProvider
from elastune.providers.ssh.inventory import write_note
from elastune.providers.ssh.options import SshOptions, host_name, ssh_command


class SshProvider(PoolProvider):
    """`ray_link` is for tests."""

    def __init__(
        self,
        setting: ProviderSetting,
        *,
        slot_cpus: int = 1,
        slot_gpus: int = 0,
        ray_link: RayLink | None = None,
    ) -> None:
        super().__init__(setting, slot_cpus, slot_gpus, ray_link=ray_link)
        self._options = SshOptions.parse(setting.options)
        self._note: Path | None = None

    @property
    def places(self) -> Sequence[str]:
        return self._options.hosts

    def open(self) -> None:
        if shutil.which("ssh") is None:
            raise ExecutionError("there is no ssh on this machine; expected OpenSSH's client")
        super().open()
        self._note = write_note(self._setting.run, self._options)

    def close(self) -> None:
        super().close()
        check = self.final_check()
        if self._note is not None and check is not None and not check.left:
            self._note.unlink(missing_ok=True)

    def command_of(self, place: str) -> Sequence[str]:
        return ssh_command(self._options, place, "elastune.providers.remote.node", "-")

    def spec_of(self, node: NodeId, place: str) -> NodeSpec:
        usual = super().spec_of(node, place)
        return replace(
            usual, provider="ssh", lost_head_s=self._options.lost_head_after, ports=self._options.ports
        )

    def make_head(self) -> RemoteHead:
        first = host_name(self._options, self.places[0])
        return RemoteHead(self._setting, own_address(self._options.address, first), self._options.ports)
