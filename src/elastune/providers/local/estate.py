"""The nodes of this machine, whoever started them: fleets of processes, found by their environment."""

from __future__ import annotations

import getpass
import time
from collections.abc import Collection
from pathlib import Path

from elastune.providers.estate import Sighting, UnseenError
from elastune.providers.local.folder import is_held, run_of
from elastune.providers.local.processes import FLEET, NODE, can_look, fleets, kill_all, started
from elastune.units import plural

_HEAD = "head"


class LocalEstate:
    """A node is a group of processes. The head of a fleet, with whatever belongs to no node, is one, too."""

    def sightings(self) -> tuple[Sighting, ...]:
        if not can_look():
            raise UnseenError("processes cannot be looked into on this system", is_absent=True)
        return tuple(
            self._sighting(folder, node, pids)
            for folder, processes in sorted(fleets().items())
            for node, pids in _by_node(processes).items()
        )

    def end(self, nodes: Collection[str]) -> None:
        """The head of a fleet takes all its nodes along."""
        for name in nodes:
            fleet, _, node = name.rpartition("/")
            if node == _HEAD:
                kill_all(FLEET, fleet)
            else:
                kill_all(NODE, node)

    def _sighting(self, folder: str, node: str, pids: Collection[int]) -> Sighting:
        path = Path(folder)
        return Sighting(
            provider="local",
            node=f"{folder}/{node}",
            run=run_of(path),
            owner=getpass.getuser(),
            kind=plural(len(pids), "process").replace("processs", "processes"),
            state="running",
            since=min((at for pid in pids if (at := started(pid)) is not None), default=time.time()),
            is_kept=path.exists() and is_held(path),
        )


def _by_node(processes: dict[int, str | None]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for pid, node in sorted(processes.items()):
        found.setdefault(node or _HEAD, []).append(pid)
    return dict(sorted(found.items(), key=lambda item: (item[0] != _HEAD, item[0])))
