"""Where slots work on a machine that is not the driver's: a folder of their own with the user's code in it.

It is made once per agent. Agents are killed, not asked to end, so the folder is removed by somebody who
outlives them: a shell that waits for the agent's end of a pipe to close.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from elastune.bodies.ray.messages import Manual, Parcel, Script

_PREFIX = "elastune-work-"
# A child of a worker would be ended with it by Ray; a grandchild is not. What runs in the background reads
# from nowhere unless it is told to by another number. What still writes there gets a second.
_JANITOR = 'exec 3<&0; { read -r _ <&3; rm -rf -- "$0" || { sleep 1; rm -rf -- "$0"; }; } >/dev/null 2>&1 &'


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """`moved`: the folders of the driver that lie here now, and where; the first is the working folder."""

    folder: str
    moved: tuple[tuple[str, str], ...]

    @property
    def home(self) -> str:
        return self.moved[0][1] if self.moved else self.folder

    @property
    def logs(self) -> str:
        return str(Path(self.folder) / "logs")

    def furnish(self, manual: Manual) -> Manual:
        """The manual, as it reads from here."""
        return replace(
            manual,
            script=self._moved_script(manual.script),
            paths=tuple(dict.fromkeys(self._place(path) for path in manual.paths)),
            logs=None if manual.logs is None else self.logs,
        )

    def _moved_script(self, script: Script) -> Script:
        if script.reference is None or script.source is None:
            return script
        home, _, name = script.reference.rpartition(":")
        return replace(script, reference=f"{self._place(home)}:{name}")

    def _place(self, path: str) -> str:
        for origin, here in self.moved:
            if Path(path).is_relative_to(origin):
                return str(Path(here) / Path(path).relative_to(origin))
        return path


def set_up(parcels: Sequence[Parcel]) -> Workplace:
    """On this machine, for as long as this process lives."""
    import ray  # noqa: PLC0415

    from elastune.providers.packing import unpack  # noqa: PLC0415  slots have no use for it

    folder = tempfile.mkdtemp(prefix=_PREFIX)
    _remove_when_we_are_gone(folder)
    moved = []
    for number, parcel in enumerate(parcels):
        here = Path(folder) / f"{number}-{Path(parcel.origin).name}"
        here.mkdir()
        unpack(ray.get(parcel.data), here)
        moved.append((parcel.origin, str(here)))
    place = Workplace(folder=folder, moved=tuple(moved))
    Path(place.logs).mkdir()
    return place


def _remove_when_we_are_gone(folder: str) -> None:
    """The writing end of the pipe stays open in this process alone, and closes with it."""
    reading, writing = os.pipe()
    try:
        janitor = ["/bin/sh", "-c", _JANITOR, folder]
        subprocess.run(janitor, stdin=reading, check=True, start_new_session=True)  # noqa: S603
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    _held.append(writing)


_held: list[int] = []
"""Never closed by us."""
