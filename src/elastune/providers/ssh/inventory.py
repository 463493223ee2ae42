"""Lists and ends nodes on machines that are reached by SSH.

A run notes its machines in a file of its user, and removes it once all its nodes have ended. So the machines
that are asked are those of runs that live, or whose driver was killed. A node outlives a killed driver by the
end of its lease at most; the note is forgotten some time after that.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elastune.errors import JobError
from elastune.providers.local.processes import started
from elastune.providers.protocol import LiveInstance, UnseenError
from elastune.providers.remote.head import LEASE_S
from elastune.providers.remote.listing import PresentNode
from elastune.providers.ssh.options import SshOptions, ssh_command
from elastune.user_home import user_home

_CALL_S = 40.0
_MOST_AT_ONCE = 16
_FORGET_S = 2.0 * LEASE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineNote:
    """The machines of a run, and the process that drives it."""

    run: str
    options: SshOptions
    host: str
    pid: int
    began: float

    @property
    def has_driver(self) -> bool | None:
        """None: it is on another machine."""
        if self.host != platform.node():
            return None
        since = started(self.pid)
        return since is not None and since <= self.began + 2.0


def note_folder() -> Path | None:
    home = user_home()
    return None if home is None else home / "ssh"


def write_note(run: str, options: SshOptions) -> Path | None:
    """None: the user has no home, or it cannot be written; the nodes of this run are not listed then."""
    folder = note_folder()
    if folder is None:
        return None
    text = json.dumps(
        {
            "run": run,
            "options": options.model_dump(mode="json", exclude_none=True),
            "host": platform.node(),
            "pid": os.getpid(),
            "began": time.time(),
        }
    )
    path = folder / f"{run}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = path.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError:
        return None
    return path


def read_notes() -> dict[Path, MachineNote]:
    folder = note_folder()
    found: dict[Path, MachineNote] = {}
    for path in [] if folder is None else sorted(folder.glob("*.json")):
        try:
            values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            found[path] = MachineNote(**{**values, "options": SshOptions.parse(values["options"])})
        except (OSError, ValueError, KeyError, TypeError, JobError):
            continue
    return found


Machine = tuple[SshOptions, str]


class SshInventory:
    def __init__(self) -> None:
        self._machines: dict[str, Machine] = {}
        """By the name of a node: where it was seen."""

    def instances(self) -> tuple[LiveInstance, ...]:
        """A machine that does not answer is listed itself: there may be a node on it."""
        notes = read_notes()
        if not notes:
            raise UnseenError("no run of this user has machines by SSH", is_absent=True)
        answers = _ask_all({(note.options, host) for note in notes.values() for host in note.options.hosts})
        found: dict[str, LiveInstance] = {}
        for path, note in notes.items():
            if _is_over(path, note, [answers[note.options, host] for host in note.options.hosts]):
                path.unlink(missing_ok=True)
                continue
            for host in note.options.hosts:
                for each in _read(host, note, answers[note.options, host]):
                    found.setdefault(each.node, each)
                    self._machines.setdefault(each.node, (note.options, host))
        return tuple(sorted(found.values(), key=lambda each: (each.since, each.node)))

    def end(self, nodes: Collection[str]) -> None:
        wanted: dict[Machine, list[str]] = {}
        for node in nodes:
            if node in self._machines:
                wanted.setdefault(self._machines[node], []).append(node)
        failed = [
            answer for machine, names in wanted.items() if isinstance(answer := _ask(machine, names), str)
        ]
        if failed:
            raise UnseenError("; ".join(failed))


Answer = tuple[PresentNode, ...] | str
"""Of a machine: its nodes, or why they are not known."""


def _ask_all(machines: Collection[Machine]) -> dict[Machine, Answer]:
    with ThreadPoolExecutor(_MOST_AT_ONCE) as pool:
        return dict(zip(machines, pool.map(_ask, machines), strict=True))


def _ask(machine: Machine, ended: Sequence[str] = ()) -> Answer:
    """Without names, lists the nodes of the machine; with names, ends these."""
    options, host = machine
    command = ssh_command(options, host, "elastune.providers.remote.listing", *ended)
    try:
        done = subprocess.run(  # noqa: S603
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_CALL_S, check=False
        )
        if done.returncode == 0:
            last = done.stdout.strip().splitlines()[-1:] or ["[]"]
            present = () if ended else tuple(PresentNode(**each) for each in json.loads(last[0]))
            return tuple(node for node in present if node.provider == "ssh")
        said = done.stderr.strip().splitlines()[-1:] or [f"ssh ended with code {done.returncode}"]
    except subprocess.TimeoutExpired:
        said = [f"no answer for {_CALL_S:.0f} s"]
    except (OSError, ValueError, TypeError) as error:
        said = [f"{type(error).__name__}: {error}"]
    return f"{host}: {said[0]}"


def _is_over(path: Path, note: MachineNote, answers: Collection[Answer]) -> bool:
    """Nothing of the run can be alive: its driver is gone, for long or without any node."""
    if note.has_driver is not False:
        return False
    if all(isinstance(answer, tuple) and note.run not in {each.run for each in answer} for answer in answers):
        return True
    mark = path.with_suffix(".gone")  # since when it is known that there is no driver
    mark.touch() if not mark.exists() else None
    if time.time() - mark.stat().st_mtime < _FORGET_S:
        return False
    mark.unlink()
    return not any(note.run == each.run for answer in answers if isinstance(answer, tuple) for each in answer)


def _read(host: str, note: MachineNote, answer: Answer) -> Iterator[LiveInstance]:
    now = time.time()
    if isinstance(answer, str):
        yield LiveInstance(
            provider="ssh",
            node=host,
            run=note.run,
            kind=answer,
            state="not seen",
            since=note.began,
            is_kept=True,
        )
        return
    for each in answer:
        yield LiveInstance(
            provider="ssh",
            node=each.node,
            run=each.run or None,
            job=each.job or None,
            kind=host,
            state="running" if each.left_s is not None else "left over",
            since=now - each.age_s,
            expires=None if each.left_s is None else now + each.left_s,
        )
