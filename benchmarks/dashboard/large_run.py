"""A recorded run that is as large as runs get: some thousand trials, each with a hundred rows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import yaml

from elastune.job.job import Job
from elastune.journal.records import RunId, RunRecord, RuntimeKind
from elastune.journal.run_folders import FoundRun, RunFolder
from elastune.journal.store import Journal
from elastune.runs.simulation import Simulation
from elastune.setup.run_setup import prepare
from elastune.views.page.kept_pages import keep_at_end

_DAY = datetime(2026, 11, 16, tzinfo=UTC)


def job_with(trials: int, iterations: int) -> Job:
    return Job.from_dict(
        {
            "name": f"{trials}-trials",
            "trainable": "synthetic:hypersched",
            "search": {"algorithm": "random", "trials": trials, "max_iterations": iterations},
            "profile": {"iteration": {"mean": 2.0, "sd": 0.1}, "spread": 0.05, "startup": 2.0, "save": 1.0},
            "cluster": {
                "slots_per_node": 4,
                "nodes": 64,
                "price_per_hour": 12.24,
                "queue": 15.0,
                "init": 15.0,
            },
        }
    )


def record_run(root: Path, *, trials: int, iterations: int, run: str, keeps_page: bool = True) -> RunId:
    """Simulated without a quote, which would simulate it several times. Without `keeps_page` as a run whose
    process died at the very end leaves it."""
    job, number = job_with(trials, iterations), RunId(run)
    folder = RunFolder.create(root, name=job.name, now_utc=_DAY, run=number)
    folder.job.write_text(yaml.safe_dump(job.to_dict(), sort_keys=False), encoding="utf-8")
    record = RunRecord(
        run=number, name=job.name, created_utc=_DAY, body=RuntimeKind.SIMULATED, policy="random", seed=0
    )
    journal = Journal.open(folder.journal, durable=False)
    simulation = Simulation(prepare(job), seed=0, journal=journal, record=record)
    simulation.run()
    if keeps_page:
        keep_at_end(FoundRun(folder=folder, journal=folder.journal, record=record), simulation.core)
    return number
