"""Simulated runs to look at, taken in from their journals event by event: a test can stop anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

import elastune
from elastune.core.core import Core
from elastune.core.state import State
from elastune.journal.codec import event_of
from elastune.journal.records import Entry, RunId
from elastune.journal.store import Journal
from elastune.runs.quotes.quoting import predict
from elastune.runs.reopening import setup_of
from elastune.views.live.panel import LivePanel
from elastune.views.live.snapshot import Snapshot
from elastune.views.live.spectator import Opening, View

SHA: dict[str, object] = {
    "name": "sphere",
    "trainable": "synthetic:hypersched",
    "search": {"algorithm": "sha", "trials": 16, "min_iterations": 1, "max_iterations": 30, "eta": 2},
    "deadline": "100s",
    "profile": {"iteration": 2.0, "startup": 1.0, "save": 1.0, "speedup": {1: 1.0, 2: 1.8, 4: 3.2}},
    "cluster": {
        "slots_per_node": 2,
        "max_nodes": 8,
        "price_per_hour": 3.6,
        "minimum_charge": 0,
        "queue": 5,
        "init": 10,
    },
}


class Stage:
    """A run on which time can be moved forward; `clock` is what whoever looks takes for the machine's."""

    def __init__(self, folder: Path, job: dict[str, object], policy: str | None = None, faults: str = "none"):
        path = folder / f"{policy}.sqlite"
        elastune.simulate(job, policy=policy, faults=faults, journal=path)
        self._journal = Journal.open(path, read_only=True)
        self.record = self._journal.runs()[0]
        self.setup = setup_of(self.record, self._journal)
        self.core: Core = self.setup.make_core(self.record.seed)
        self._entries = list(self._journal.read(self.record.run))
        self.now_s = 0.0
        self.view = View(self.opening, self.clock)

    @property
    def state(self) -> State:
        return self.core.state

    @property
    def opening(self) -> Opening:
        return Opening(
            record=self.record,
            setup=self.setup,
            predicted=predict(self.setup),
            journal=self,
            policy=self.core.policy,
        )

    def clock(self) -> float:
        return self.now_s

    def read(self, run: RunId, *, after: int = 0) -> Iterator[Entry]:
        """Nobody reads what has not happened yet."""
        assert run == self.record.run
        return iter(self._entries[after : self.state.events])

    def steps(self) -> Iterator[float]:
        """The times of events, each taken in."""
        for entry in self._entries[self.state.events :]:
            event = event_of(entry)
            self.core.handle(event)
            self.now_s = event.at_s
            yield event.at_s

    def until(self, at_s: float) -> None:
        for entry in self._entries[self.state.events :]:
            event = event_of(entry)
            if event.at_s > at_s:
                break
            self.core.handle(event)
        self.now_s = at_s


def scene_at(stage: Stage, at_s: float) -> Snapshot:
    """As somebody sees it who has looked on from the beginning, every other second."""
    while stage.now_s < at_s:
        stage.view.look(stage.state)
        stage.until(min(at_s, stage.now_s + 2.0))
    return stage.view.look(stage.state)


def drawn(snapshot: Snapshot, width: int = 120, height: int = 40) -> list[str]:
    console = Console(width=width, height=height, color_system=None)
    with console.capture() as capture:
        console.print(LivePanel(snapshot))
    return capture.get().splitlines()
