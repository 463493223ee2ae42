"""`elastune run` on other machines, in a process of its own; and what it did, by its journal."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import yaml

from elastune.checkpoints.store import load_checkpoint
from elastune.core.events import AnyEvent
from elastune.errors import ElastuneError
from elastune.journal.codec import event_of
from elastune.journal.store import Journal
from tests.waiting import SLOW_BOOT_S, wait_until

TRAINING = f"{Path(__file__).with_name('training.py')}:train"
E = TypeVar("E", bound=AnyEvent)


class ClusterRun:
    """`cluster` and `changes` are sections of the job. Every worker leaves its marks in `traces`."""

    def __init__(self, folder: Path, cluster: dict[str, Any], pause: float = 0.1, **changes: Any) -> None:
        self.folder = folder
        self.traces = folder / "traces"
        self.traces.mkdir()
        self.cluster = cluster
        self.pause = pause
        self.changes = changes

    def job(self, cluster: Mapping[str, Any], store: str) -> dict[str, Any]:
        search = {"algorithm": "sha", "trials": 4, "min_iterations": 3, "max_iterations": 12, "eta": 2}
        made: dict[str, Any] = {
            "name": "hosts",
            "trainable": TRAINING,
            "metric": "score",
            "mode": "max",
            "space": {"x": {"float": [0.05, 0.5]}, "pause": {"choice": [self.pause]}},
            "seed": 3,
            "search": {**search, "min_slots_per_trial": 2, "max_slots_per_trial": 2},
            "profile": {"iteration": "1s", "startup": "5s", "save": "0.1s"},
            "checkpoint_every": "1s",
            "slot": {"cpus": 1},
            "storage": str(self.folder / store),
            **self.changes,
            "cluster": {
                "slots_per_node": 1,
                "nodes": 3,
                "price_per_hour": 0,
                "init": f"{SLOW_BOOT_S:.0f}s",
                **cluster,
            },
        }
        return {key: value for key, value in made.items() if value is not None}

    def write(self) -> tuple[str, ...]:
        """The job; returns the command that runs it."""
        job = self.folder / "job.yaml"
        job.write_text(yaml.safe_dump(self.job(self.cluster, "store")), encoding="utf-8")
        return self.command("run", str(job), "--no-check")

    def command(self, *words: str) -> tuple[str, ...]:
        runs = ("--runs-folder", str(self.folder / "runs"))
        return (sys.executable, "-m", "elastune", *words, "--yes", "--json", *runs)

    def launch(self, command: tuple[str, ...]) -> subprocess.Popen[bytes]:
        with (self.folder / "run.log").open("ab") as log:
            return subprocess.Popen(
                command,
                env={**os.environ, "TRACES": str(self.traces)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def start(self) -> subprocess.Popen[bytes]:
        self.process = self.launch(self.write())
        return self.process

    def resume(self) -> subprocess.Popen[bytes]:
        (self.folder / "run.log").unlink()
        self.process = self.launch(self.command("resume", "last"))
        return self.process

    def stop(self) -> None:
        """A test that failed leaves its driver: interrupted, it ends its nodes."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            wait_until(lambda: self.process.poll() is not None, self.said)

    def result(self) -> dict[str, Any]:
        wait_until(lambda: self.process.poll() is not None, self.said)
        text = self.said()
        assert self.process.returncode == 0, text
        found: dict[str, Any] = json.loads(text[text.index("\n{") if "\n{" in text else text.index("{") :])
        return found

    def said(self) -> str:
        return (self.folder / "run.log").read_text(errors="replace")

    def until(self, holds: Any, what: str) -> Any:
        """As long as the driver lives."""

        def holds_or_ended() -> Any:
            assert self.process.poll() is None, f"{what}: the run is over: {self.said()}"
            return holds()

        return wait_until(holds_or_ended, lambda: f"{what}: {self.said()}")

    def marks(self) -> list[list[str]]:
        """Host, iteration, rank and size of every iteration of every worker."""
        return [line.split() for path in self.traces.iterdir() for line in path.read_text().splitlines()]

    def events(self, kind: type[E]) -> list[E]:
        found: list[E] = []
        with contextlib.suppress(ElastuneError):  # its tables are not there yet
            for path in (self.folder / "runs").glob("*/journal.sqlite"):
                journal = Journal.open(path, read_only=True)
                for record in journal.runs():
                    events = map(event_of, journal.read(record.run))
                    found += [event for event in events if isinstance(event, kind)]
        return found

    def weights(self, store: str, result: Mapping[str, Any]) -> Any:
        best = result["best"]
        checkpoint = f"*/trial-{best['trial']:05}/iteration-{best['iterations']:06}.ckpt"
        (path,) = (self.folder / store).glob(checkpoint)
        return np.asarray(load_checkpoint(path)["weights"])


def run_here(run: ClusterRun) -> dict[str, Any]:
    """The same job on local nodes."""
    job = run.folder / "local.yaml"
    job.write_text(yaml.safe_dump(run.job({"provider": "local"}, "local")), encoding="utf-8")
    command = [sys.executable, "-m", "elastune", "run", str(job), "--yes", "--no-check", "--json"]
    done = subprocess.run(command, cwd=run.folder, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def assert_same_as_here(run: ClusterRun, there: dict[str, Any]) -> None:
    here = run_here(run)
    assert there["best"]["trial"] == here["best"]["trial"]
    assert np.array_equal(run.weights("store", there), run.weights("local", here))
