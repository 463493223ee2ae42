"""Draws live.svg: the screen of `elastune run` in the middle of a simulated run in which a node was lost.

python docs/images/live.py
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich.console import Console

import elastune
from elastune.journal.codec import event_of
from elastune.journal.records import Entry, RunId
from elastune.journal.store import Journal
from elastune.runs.quotes.policy_quote import predict
from elastune.runs.reopening import setup_of
from elastune.views.live.panel import LivePanel
from elastune.views.live.spectator import Opening, View

JOB = {
    "name": "synthetic",
    "trainable": "synthetic:hypersched",
    "metric": "score",
    "search": {"algorithm": "sha", "trials": 64, "min_iterations": 5, "max_iterations": 400, "eta": 2},
    "deadline": "9m",
    "budget": 8,
    "profile": {
        "iteration": {"mean": 2.0, "sd": 0.1},
        "spread": 0.05,
        "speedup": {1: 1.0, 2: 1.89, 4: 3.63, 8: 6.67},
        "startup": 2.0,
        "save": 1.0,
    },
    "cluster": {
        "slots_per_node": 4,
        "max_nodes": 16,
        "price_per_hour": 12.24,
        "queue": 15.0,
        "init": {"mean": 15.0, "sd": 3.0},
    },
}
FAULTS = "lost_per_hour=6"
SEED = 1
AT_S = 262.0
WIDTH, HEIGHT = 118, 36
_WEB_FONTS = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


class Unfinished:
    """A journal, read as if the run were still going on."""

    def __init__(self, journal: Journal, run: RunId) -> None:
        self.journal = journal
        self.run = run
        self.events = 0

    def read(self, _: RunId, *, after: int = 0) -> Iterator[Entry]:
        return (entry for entry in self.journal.read(self.run, after=after) if entry.number <= self.events)


def draw(path: Path) -> str:
    elastune.simulate(JOB, journal=path, faults=FAULTS, seed=SEED)
    journal = Journal.open(path, read_only=True)
    record = journal.runs()[0]
    setup, so_far, now_s = setup_of(record, journal), Unfinished(journal, record.run), 0.0
    core = setup.make_core(record.seed)
    opening = Opening(
        record=replace(record, run=RunId("3fa2c1")),
        setup=setup,
        predicted=predict(setup),
        journal=so_far,
        policy=core.policy,
    )
    view = View(opening, lambda: now_s)
    for entry in journal.read(record.run):
        event = event_of(entry)
        if event.at_s > AT_S:
            break
        if event.at_s > now_s + 1.0:
            now_s += 1.0
            view.look(core.state)
        core.handle(event)
        so_far.events, now_s = entry.number, event.at_s
    now_s = AT_S
    console = Console(width=WIDTH, height=HEIGHT, record=True, force_terminal=True, file=io.StringIO())
    console.print(LivePanel(view.look(core.state)))
    svg = console.export_svg(title="elastune run job.yaml", unique_id="live")
    # The page is to be read without a network, too.
    return _WEB_FONTS.sub("", svg).replace("Fira Code", "DejaVu Sans Mono, Menlo, Consolas")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        picture = draw(Path(folder) / "journal.sqlite")
    Path(__file__).with_suffix(".svg").write_text(picture, encoding="utf-8")
