"""What one large simulated run would ask of every part of a real one: rates, and bytes of its journal."""

from __future__ import annotations

import resource
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.reporting import Report, Table, Track, silently
from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import AnyCommand
from elastune.core.core import Core
from elastune.core.events import AnyEvent
from elastune.job.job import Job
from elastune.journal.store import Journal
from elastune.journal.writer import Writer
from elastune.runs.simulation import Driver, Simulation, unnamed
from elastune.setup.run_setup import prepare

TRIALS, NODES = 250_000, 10_000
_KB_PER_GB = 1e6


def run(track: Track = silently) -> Report:
    return Report(tables=tuple(measure() for _ in track(["large-run"])))


def measure(*, trials: int = TRIALS, nodes: int = NODES) -> Table:
    began = time.process_time()
    setup = prepare(_job(trials, nodes))
    planned_s = time.process_time() - began
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.sqlite"
        journal = Journal.open(path, durable=False)
        simulation = Simulation(setup, seed=0, journal=journal, record=unnamed(setup))
        counting = simulation.driver = CountingDriver(simulation.core, simulation.writer)
        began = time.process_time()
        simulation.run()
        simulated_s = time.process_time() - began
        journal_bytes = path.stat().st_size
    state, seen = simulation.core.state, counting.total
    events, hours = state.events, state.now_s / 3600.0
    rows: list[tuple[str, float | int | str]] = [
        ("trials", len(state.trials)),
        ("nodes at once", max(stage.peak_nodes for stage in state.ledger.stages)),
        ("virtual hours", hours),
        ("node hours paid", state.ledger.accrued_usd(state.now_s)),
        ("processor seconds to plan", planned_s),
        ("processor seconds to simulate", simulated_s),
        ("of an event, µs", simulated_s / events * 1e6),
        ("memory, GB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KB_PER_GB),
        ("journal, MB", journal_bytes / 1e6),
        ("of an event, bytes", journal_bytes / events),
    ]
    for what in ("events", "requests for nodes", "nodes requested", "releases", "nodes released", *_TRIALS):
        rows += [(f"{what}, all", seen[what]), (f"{what}, most in one second", counting.most(what))]
    return Table(
        name="large-run",
        title=f"Successive Halving of {trials} trials on up to {nodes} nodes of four slots, simulated",
        header=("what", "value"),
        rows=tuple(rows),
        note="An iteration takes 60 s, plus or minus 6 s; nodes boot in 30 s; a node costs $1 an hour.",
    )


_TRIALS = ("starts of gangs", "rows", "checkpoints")


class CountingDriver(Driver):
    """Counts what happens and is ordered, by whole seconds of the run."""

    def __init__(self, core: Core, writer: Writer) -> None:
        super().__init__(core, writer)
        self.total: Counter[str] = Counter()
        self._by_second: dict[str, Counter[int]] = {}

    def __call__(self, event: AnyEvent) -> Sequence[AnyCommand]:
        commands = super().__call__(event)
        second = int(event.at_s)
        self._count("events", second, 1)
        if isinstance(event, ev.GangStarted):
            self._count("starts of gangs", second, 1)
        elif isinstance(event, ev.Progressed):
            self._count("rows", second, len(event.rows))
            self._count("checkpoints", second, len(event.saved))
        elif isinstance(event, ev.TrialPaused):
            self._count("checkpoints", second, 1)
        for command in commands:
            if isinstance(command, do.RequestNodes):
                self._count("requests for nodes", second, 1)
                self._count("nodes requested", second, command.count)
            elif isinstance(command, do.ReleaseNodes):
                self._count("releases", second, 1)
                self._count("nodes released", second, len(command.nodes))
        return commands

    def most(self, what: str) -> int:
        return max(self._by_second.get(what, {0: 0}).values())

    def _count(self, what: str, second: int, number: int) -> None:
        self.total[what] += number
        self._by_second.setdefault(what, Counter())[second] += number


def _job(trials: int, nodes: int) -> Job:
    """A deadline for which most of the nodes are needed."""
    hours = 0.034 * trials / (nodes * 4) + 0.42
    return Job.from_dict(
        {
            "trainable": "synthetic:hypersched",
            "search": {
                "algorithm": "sha",
                "trials": trials,
                "min_iterations": 1,
                "max_iterations": 64,
                "eta": 4,
                "max_slots_per_trial": 4,
            },
            "deadline": f"{hours:.2f}h",
            "profile": {
                "iteration": {"mean": 60.0, "sd": 6.0},
                "startup": 2.0,
                "save": 1.0,
                "speedup": {1: 1.0, 2: 1.89, 4: 3.63},
            },
            "cluster": {
                "slots_per_node": 4,
                "max_nodes": nodes,
                "price_per_hour": 1.0,
                "queue": 15.0,
                "init": 15.0,
            },
        }
    )
