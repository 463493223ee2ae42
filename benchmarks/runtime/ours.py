"""Elastune's side: each function carries out one real run on the Ray of this process and measures it."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.runtime.journals import Timeline
from benchmarks.runtime.pace import Numbers, pace
from benchmarks.runtime.seesaw import with_see_saw
from elastune.api.running import carry_out_run
from elastune.api.tuning import prepare_to_run, tune

HERE = Path(__file__).parent
TICK = f"{HERE / 'trainables.py'}:tick"
WEIGHTY = f"{HERE / 'weights.py'}:weighty"
_STEP_S = 0.01


def trials(trials: int, slots: int) -> Numbers:
    """Wall time of the whole, and from the moment when all slots were ready to the end of the run."""
    wall_s, timeline = _tune(_random_job(trials, 1, slots))
    return {"wall_s": wall_s, "warm_s": timeline.ended_s - timeline.ready_s}


def reports(trials: int, slots: int, iterations: int) -> Numbers:
    """Rows per second at the driver, from the first to the last; every row is in the journal."""
    _, timeline = _tune(_random_job(trials, iterations, slots))
    told = timeline.reports
    rows, seconds = sum(len(report.rows) for report in told), told[-1].at_s - told[0].at_s
    return {"per_s": rows / seconds, "rows": rows, "seconds": seconds}


def long(trials: int, slots: int, part: int) -> Numbers:
    """Seconds per trial in the first, the middle and the last `part` of the trials."""
    _, timeline = _tune(_random_job(trials, 1, slots))
    return pace(timeline.lease_ends(), part)


def resizes(sizes: list[int], gangs: int, slots: int) -> Numbers:
    """One trial without torch of its own."""
    return _resize({"trainable": TICK, "space": {"x": 0.5, "sleep": _STEP_S}}, sizes, gangs, slots)


def resizes_with_weights(sizes: list[int], gangs: int, slots: int, megabytes: int) -> Numbers:
    space = {"x": 0.5, "sleep": _STEP_S, "megabytes": megabytes}
    return _resize({"trainable": WEIGHTY, "space": space}, sizes, gangs, slots)


def _random_job(trials: int, iterations: int, slots: int) -> dict[str, object]:
    """A trial has one worker, as the peer's have; so no worker needs torch, by which gangs talk."""
    search = {"algorithm": "random", "trials": trials, "max_iterations": iterations, "max_slots_per_trial": 1}
    return {
        "trainable": TICK,
        "space": {"x": {"float": [0.0, 1.0]}},
        "metric": "score",
        "search": search,
        "profile": {"iteration": 0.01},
        "cluster": {"slots_per_node": slots, "nodes": 1, "price_per_hour": 1.0},
    }


def _tune(job: Mapping[str, object]) -> tuple[float, Timeline]:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        tune(job, address="auto", folder=folder)
        wall_s = time.perf_counter() - start
        return wall_s, Timeline.read(Path(folder))


def _resize(what: Mapping[str, object], sizes: list[int], gangs: int, slots: int) -> Numbers:
    job = {
        **what,
        "metric": "score",
        "search": {"algorithm": "random", "trials": 1, "max_iterations": 1_000_000},
        "profile": {"iteration": _STEP_S},
        "cluster": {"slots_per_node": slots, "nodes": 1, "price_per_hour": 1.0},
    }
    with tempfile.TemporaryDirectory() as folder:
        offer = prepare_to_run(job, address="auto")
        carry_out_run(with_see_saw(offer, tuple(sizes), gangs=gangs, iterations=5), folder=folder)
        found = Timeline.read(Path(folder)).resizes()
    return {
        "gap_s": statistics.median(each.gap_s for each in found),
        "first_gap_s": found[0].gap_s,
        "worst_gap_s": max(each.gap_s for each in found[1:]),
        "still_s": statistics.median(each.still_s for each in found),
        "order_s": statistics.median(each.order_s for each in found),
        "resizes": len(found),
    }
