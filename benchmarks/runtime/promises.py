"""What a user does: measure, get a quote, run. Nothing is known beforehand but the code and the job.

One job really trains (the digits of the demo, its profile taken away). The others sleep by a known law, so
that what is left to go wrong is Elastune's own: one for a quarter of an hour, two at the pace of each
configuration.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from benchmarks.reporting import Cell, Report, Table, Track, silently
from benchmarks.runtime.calibration import SLOTS_PER_NODE, TRAINABLE
from benchmarks.runtime.journals import Timeline
from elastune.api.profiling import profile, with_measurements
from elastune.api.running import carry_out_run
from elastune.api.tuning import prepare_to_run
from elastune.job.job import Job, load_job

DIGITS = Path(__file__).parents[2] / "examples" / "digits.yaml"
_SLEEPING = {
    "trainable": TRAINABLE,
    "space": {"x": {"float": [0.0, 1.0]}, "sleep": 2.0, "scaling": 0.9},
    "metric": "score",
    "search": {"algorithm": "sha", "trials": 16, "min_iterations": 20, "max_iterations": 450, "eta": 2},
    "deadline": "16m",
    "cluster": {
        "slots_per_node": SLOTS_PER_NODE,
        "max_nodes": 4,
        "price_per_hour": 3.6,
        "minimum_charge": 5,
    },
}
# Iterations take from 0.7 to 1.4 s, by a hyperparameter that says nothing about the score.
_DIFFERING = {
    **_SLEEPING,
    "space": {"x": {"float": [0.0, 1.0]}, "sleep": {"float": [0.7, 1.4]}, "scaling": 0.9},
    "search": {
        "algorithm": "stages",
        "stages": [
            {"trials": 16, "iterations": 20},
            {"trials": 8, "iterations": 30},
            {"trials": 4, "iterations": 40},
        ],
    },
    "deadline": "4m",
}
# On a fixed cluster nothing can be saved by planning again, which makes elastic runs later than their mean.
_DIFFERING_FIXED = {
    **_DIFFERING,
    "cluster": {
        "slots_per_node": SLOTS_PER_NODE,
        "nodes": 2,
        "price_per_hour": 3.6,
        "minimum_charge": 5,
    },
    "deadline": "8m",
}


def digits(track: Track = silently) -> Report:
    return _report("digits", unmeasured(load_job(DIGITS)), track)


def sleeping(track: Track = silently) -> Report:
    return _report("sleeping", Job.from_dict(_SLEEPING), track)


def differing(track: Track = silently) -> Report:
    return _report("differing", Job.from_dict(_DIFFERING), track)


def differing_fixed(track: Track = silently) -> Report:
    return _report("differing-fixed", Job.from_dict(_DIFFERING_FIXED), track)


def unmeasured(job: Job) -> Job:
    told = job.to_dict()
    cluster = told["cluster"]
    assert isinstance(cluster, dict)
    kept = {key: value for key, value in cluster.items() if key not in {"init", "queue"}}
    return Job.from_dict({**{key: value for key, value in told.items() if key != "profile"}, "cluster": kept})


def _report(name: str, job: Job, track: Track) -> Report:
    (row,) = (_row(name, job) for _ in track([name]))
    return Report(tables=(_table(name, row),))


def _row(name: str, job: Job) -> tuple[Cell, ...]:
    with tempfile.TemporaryDirectory() as folder:
        measured = profile(job, folder=folder)
        offer = prepare_to_run(with_measurements(job, measured.path))
        finished = carry_out_run(offer, folder=Path(folder) / "run")
        nodes = Timeline.read(Path(folder) / "run").nodes()
    promised, came = finished.result.predicted, finished.result.actual
    return (
        name,
        measured.took.jct_seconds,
        nodes,
        promised.jct_seconds,
        came.jct_seconds,
        _percent(came.jct_seconds, promised.jct_seconds),
        promised.cost,
        came.cost,
        _percent(came.cost, promised.cost),
    )


def _percent(value: float, of: float) -> str:
    return f"{(value / of - 1) * 100:+.1f} %"


def _table(name: str, row: tuple[Cell, ...]) -> Table:
    return Table(
        name=f"promises-{name}",
        title="Measured, quoted, run",
        header=(
            "job",
            "measuring, s",
            "nodes up",
            "quoted, s",
            "took, s",
            "time off by",
            "quoted, $",
            "cost, $",
            "cost off by",
        ),
        rows=(row,),
        note=f"One run each; load of the machine at the end {os.getloadavg()[0]:.1f}.",
    )
