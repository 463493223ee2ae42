"""What a user does: measure, get a quote, run. Nothing is known beforehand but the code and the job.

One job really trains (the digits of the demo, its profile taken away). The others sleep by a known law, so
that what is left to go wrong is Elastune's own: one for a quarter of an hour, two at the pace of each
configuration. For these two it is unknown before the run whether slow or quick trials survive, so one run
differs from its quote by luck, too: they run with several seeds, beside simulations that know the scores.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reporting import Cell, Report, Table, Track, silently
from benchmarks.runtime.calibration import SLOTS_PER_NODE, TRAINABLE
from benchmarks.runtime.journals import Timeline
from benchmarks.runtime.trainables import curve
from elastune.api.profiling import profile, with_measurements
from elastune.api.running import carry_out_run
from elastune.api.simulating import simulate
from elastune.api.tuning import prepare_to_run
from elastune.history.result import Estimate
from elastune.job.job import Job, load_job
from elastune.planning.quote import Quote

SEEDS = (0, 1, 2, 3)
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
    return _compared("differing", _DIFFERING, track)


def differing_fixed(track: Track = silently) -> Report:
    return _compared("differing-fixed", _DIFFERING_FIXED, track)


def unmeasured(job: Job) -> Job:
    told = job.to_dict()
    cluster = told["cluster"]
    assert isinstance(cluster, dict)
    kept = {key: value for key, value in cluster.items() if key not in {"init", "queue"}}
    return Job.from_dict({**{key: value for key, value in told.items() if key != "profile"}, "cluster": kept})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Promise:
    """One job: measured, quoted, run."""

    job: Job
    """With what was measured."""
    measuring_s: float
    nodes: str
    quoted: Estimate
    usual_s: tuple[float, float] | None
    """In which nine of ten simulated runs are; None: none were simulated."""
    came: Estimate

    @classmethod
    def of(cls, job: Job) -> _Promise:
        with tempfile.TemporaryDirectory() as folder:
            measured = profile(job, folder=folder)
            whole = with_measurements(job, measured.path)
            prepared = prepare_to_run(whole)
            quote = prepared.quote
            replanned = quote.replanned if isinstance(quote, Quote) else None
            finished = carry_out_run(prepared, folder=Path(folder) / "run")
            return cls(
                job=whole,
                measuring_s=measured.took.jct_seconds,
                nodes=Timeline.read(Path(folder) / "run").nodes(),
                quoted=finished.result.predicted,
                usual_s=None if replanned is None else replanned.jct_seconds_range,
                came=finished.result.actual,
            )


def _report(name: str, job: Job, track: Track) -> Report:
    (promise,) = (_Promise.of(job) for _ in track([name]))
    quoted, came = promise.quoted, promise.came
    row = (
        name,
        promise.measuring_s,
        promise.nodes,
        quoted.jct_seconds,
        came.jct_seconds,
        _percent(came.jct_seconds, quoted.jct_seconds),
        quoted.cost,
        came.cost,
        _percent(came.cost, quoted.cost),
    )
    header = ("job", "measuring, s", "nodes up", "quoted, s", "took, s", "time off by")
    money = ("quoted, $", "cost, $", "cost off by")
    return Report(tables=(_table(name, (*header, *money), [row], "One run each"),))


def _compared(name: str, keys: Mapping[str, object], track: Track) -> Report:
    """With several seeds: other configurations, other survivors."""
    rows: list[tuple[Cell, ...]] = []
    ratios: list[tuple[float, ...]] = []
    for seed in track(list(SEEDS)):
        promise = _Promise.of(Job.from_dict({**keys, "seed": seed}))
        quoted, came = promise.quoted, promise.came
        simulated = simulate({**promise.job.to_dict(), "trainable": curve}).actual
        ratio = (
            came.jct_seconds / quoted.jct_seconds,
            came.jct_seconds / simulated.jct_seconds,
            came.cost / quoted.cost,
            came.cost / simulated.cost,
        )
        low_s, high_s = promise.usual_s or (quoted.jct_seconds,) * 2
        usual = f"{low_s:.0f} to {high_s:.0f}"
        seconds = (quoted.jct_seconds, usual, simulated.jct_seconds, came.jct_seconds)
        usd = (quoted.cost, simulated.cost, came.cost)
        off = [_percent(value, 1.0) for value in ratio]
        rows.append((seed, promise.nodes, *seconds, off[0], off[1], *usd, off[2], off[3]))
        ratios.append(ratio)
    time, known_time, cost, known_cost = (
        _percent(statistics.mean(values), 1.0) for values in zip(*ratios, strict=True)
    )
    rows.append(("mean", "", "", "", "", "", time, known_time, "", "", "", cost, known_cost))
    header = (
        "seed",
        "nodes up",
        "quoted, s",
        "nine of ten, s",
        "simulated, s",
        "took, s",
        "off the quote",
        "off the simulation",
        "quoted, $",
        "simulated, $",
        "cost, $",
        "off the quote, $",
        "off the simulation, $",
    )
    note = "The quote does not know which trials survive; the simulation knows their scores. One run each"
    return Report(tables=(_table(name, header, rows, note),))


def _percent(value: float, of: float) -> str:
    return f"{(value / of - 1) * 100:+.1f} %"


def _table(name: str, header: Sequence[str], rows: Sequence[tuple[Cell, ...]], note: str) -> Table:
    return Table(
        name=f"promises-{name}",
        title="Measured, quoted, run",
        header=tuple(header),
        rows=tuple(rows),
        note=f"{note}; load of the machine at the end {os.getloadavg()[0]:.1f}.",
    )
