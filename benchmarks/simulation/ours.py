"""Our simulator by the way a job takes: prepared, then run with its journal in an SQLite file."""

from __future__ import annotations

import gc
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.simulation.curves import METRIC
from benchmarks.simulation.measurement import EPOCH_S, ETA, NODES, SLOTS_PER_NODE, Measurement, Search
from elastune.errors import InvariantError
from elastune.job.job import Job
from elastune.journal.records import RunId, RunRecord, RuntimeKind
from elastune.journal.store import Journal
from elastune.runs.simulation import Simulation
from elastune.setup.run_setup import RunSetup, forget_plans, prepare


def asha_job(table: Path, search: Search) -> Job:
    return Job.from_dict(
        {
            "trainable": {"curves": str(table)},
            "metric": METRIC,
            "mode": "min",
            "search": {
                "algorithm": "asha",
                "trials": search.trials,
                "min_iterations": 1,
                "max_iterations": search.max_epochs,
                "eta": ETA,
                "sampler": {"kind": "table", "replace": search.replace},
            },
            "profile": {"iteration": EPOCH_S},
            "cluster": {"slots_per_node": SLOTS_PER_NODE, "nodes": NODES, "price_per_hour": 1.0},
        }
    )


def simulate(setup: RunSetup, seed: int, folder: Path) -> Simulation:
    """To the end, journal closed."""
    record = RunRecord(
        run=RunId("0"),
        name=setup.job.name,
        created_utc=datetime(2026, 11, 16, tzinfo=UTC),
        body=RuntimeKind.SIMULATED,
        policy=setup.policy,
        seed=seed,
    )
    journal = Journal.open(folder / "journal.sqlite", durable=False)
    simulation = Simulation(setup, seed=seed, journal=journal, record=record)
    simulation.run()
    return simulation


def measure(job: Job, seed: int) -> tuple[Measurement, Simulation]:
    """The search's time has everything after `prepare` in it, the making of the journal's file too."""
    forget_plans()
    start = time.process_time()
    setup = prepare(job)
    prepare_s = time.process_time() - start
    gc.collect()
    with tempfile.TemporaryDirectory() as folder:
        wall, processor = time.perf_counter(), time.process_time()
        simulation = simulate(setup, seed, Path(folder))
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
    state = simulation.core.state
    if state.best is None:
        raise InvariantError("the search ended without a best trial")
    measured = Measurement(
        trials=len(state.trials),
        epochs=state.iterations,
        prepare_s=prepare_s,
        wall_s=wall,
        processor_s=processor,
        best=state.best.metric,
    )
    return measured, simulation
