"""`elastune run` in a process of its own. Its trainings stand still at an iteration until the test lets them
go on: the run cannot end before it is killed or interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml

from elastune.core import events as ev
from elastune.core.events import AnyEvent
from elastune.errors import ElastuneError
from elastune.journal.codec import event_of
from elastune.journal.store import Journal
from tests.runtime.real.runs import job_of
from tests.waiting import PATIENCE_S, wait_until

T = TypeVar("T")


class Driver:
    """`held_at`: the first iteration that waits for `let_go`. The usual one comes after a checkpoint."""

    def __init__(self, folder: Path, *, held_at: int = 3, **changes: Any) -> None:
        self.runs = folder / "runs"
        self._gate = folder / "go"
        self._errors = folder / "driver.err"
        space = {"x": {"float": [0.0, 1.0]}, **changes.pop("space", {})}
        held = {"gate": {"choice": [str(self._gate)]}, "held_at": {"choice": [held_at]}}
        job = job_of(space={**space, **held}, hang_after="1h", **changes)
        self.job = job
        path = folder / "job.yaml"
        path.write_text(yaml.safe_dump(job.to_dict(), sort_keys=False))
        command = [
            sys.executable,
            "-m",
            "elastune",
            "run",
            str(path),
            "--no-check",
            "--json",
            "--runs-folder",
            str(self.runs),
        ]
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
            )

    def wait_for(self, holds: Callable[[], T], what: str) -> T:
        """As long as the process lives."""

        def holds_or_ended() -> T:
            assert self.process.poll() is None, f"{what}: the run is over: {self._errors.read_text()}"
            return holds()

        return wait_until(holds_or_ended, what)

    def wait_for_checkpoint(self) -> Path:
        """The folder of the run, once a checkpoint is there."""
        found = self.wait_for(lambda: list(self.runs.glob("*/checkpoints/*/*.ckpt")), "no checkpoint came")
        return found[0].parents[2]

    def wait_for_event(self, kind: type[AnyEvent]) -> None:
        """Until it is in the journal."""
        self.wait_for(lambda: has_happened(kind, self.runs), f"no {kind.__name__}")

    def let_go(self) -> None:
        self._gate.touch()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def interrupt(self) -> str:
        """Ctrl-C, and what the command says at its end. The trainings go on once the run has heard of it."""
        self.process.send_signal(signal.SIGINT)
        self.wait_for_event(ev.RestAsked)
        return self.end()

    def end(self) -> str:
        """What the command says at its end."""
        self.let_go()
        return self.process.communicate(timeout=PATIENCE_S)[0]


def has_happened(kind: type[AnyEvent], runs: Path) -> bool:
    """Whether the journal of a run in that folder has such an event."""
    for path in runs.glob("*/journal.sqlite"):
        try:
            journal = Journal.open(path, read_only=True)
            lines = [entry for record in journal.runs() for entry in journal.read(record.run)]
        except ElastuneError:  # its tables are not there yet
            continue
        if any(isinstance(event_of(line), kind) for line in lines):
            return True
    return False
