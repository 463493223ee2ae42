"""How long policies take to decide, and a simulated run with them: processor time.

Each run is made several times with the same seed, so with the same decisions; of each decision the shortest
time counts, because the longer ones are the machine's. A decision is what `Policy.start` or `Policy.handle`
takes; all else of a run is the core's and the simulator's. Python's collector of cycles is off: one full
collection takes about 0.1 s in a run of this size, and meets whoever is at work. The synthetic function of
the HyperSched paper, 64 slots, iterations of a minute with noise, starts and saves.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.policies.simulating import JobDict, unrecorded
from benchmarks.reporting import Cell, Report, Table, Track, silently
from elastune.core.events import AnyEvent
from elastune.core.policy import Policy, Vetoed
from elastune.core.state import State
from elastune.core.wishes import Advice
from elastune.job.job import Job
from elastune.setup.run_setup import prepare

SIZES = (200, 1000)
_SLOTS = 64
_RUNGS = {"min_iterations": 1, "max_iterations": 64, "eta": 4}
# Slot minutes per trial, so that about as many trials start as are wanted.
SLOT_MINUTES = {"forecast": 4.0, "seer": 6.5, "hypersched": 4.0, "e-hyperband": 6.0, "e-grid": 6.0}
FIXED = ("asha", "bohb", "pbt", "random")
POLICIES = (*SLOT_MINUTES, "sha", *FIXED)


def job_of(policy: str, trials: int) -> JobDict:
    """About so many trials."""
    search: dict[str, object] = {"algorithm": policy}
    cluster: dict[str, object] = {"slots_per_node": 4, "price_per_hour": 4.0, "max_nodes": 64}
    limits: dict[str, object] = {}
    if policy in SLOT_MINUTES:
        minutes = SLOT_MINUTES[policy] * trials / _SLOTS
        limits = {"deadline": 60.0 * minutes, "budget": minutes / 60.0 * _SLOTS}
    if policy == "sha":
        search |= {"trials": trials, **_RUNGS}
        limits = {"deadline": 60.0 * 24.0 * trials / _SLOTS + 7200.0}
    if policy in FIXED or policy == "hypersched":
        cluster = {"slots_per_node": 4, "price_per_hour": 4.0, "nodes": _SLOTS // 4}
        limits.pop("budget", None)
    if policy in FIXED:
        search |= {"trials": trials, "max_iterations": 4} | ({"interval": 1} if policy == "pbt" else {})
    if policy in ("asha", "hypersched"):
        search |= _RUNGS
    if policy == "forecast":
        search |= {"max_iterations": _RUNGS["max_iterations"]}
    if policy == "bohb":
        search = {"algorithm": "bohb", **_RUNGS, "repeat": True}
        limits = {"deadline": 60.0 * 20.0 * trials / _SLOTS}
    return {
        "trainable": "synthetic:hypersched",
        "search": search,
        "profile": {
            "iteration": {"mean": 60.0, "sd": 3.0},
            "speedup": {2: 1.9, 4: 3.6, 8: 6.5},
            "startup": 2.0,
            "save": 1.0,
        },
        "cluster": cluster,
        **limits,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Of one run."""

    trials: int
    seconds: float
    decisions: Sequence[float]


class StopwatchPolicy(Policy):
    """Another policy, and what each of its decisions has taken."""

    def __init__(self, inner: Policy) -> None:
        self.inner = inner
        self.seconds: list[float] = []

    def start(self, state: State) -> Advice:
        begun_s = time.thread_time()
        advice = self.inner.start(state)
        self.seconds.append(time.thread_time() - begun_s)
        return advice

    def handle(self, event: AnyEvent | Vetoed, state: State) -> Advice | None:
        begun_s = time.thread_time()
        advice = self.inner.handle(event, state)
        self.seconds.append(time.thread_time() - begun_s)
        return advice


def measure(policy: str, trials: int, *, repeats: int) -> Timing:
    """The run is the same each time."""
    setup, runs = prepare(Job.from_dict(job_of(policy, trials))), list[Timing]()
    for _ in range(repeats):
        gc.collect()
        gc.disable()
        begun_s = time.thread_time()
        simulation = unrecorded(setup, 0)
        simulation.core.policy = timed = StopwatchPolicy(simulation.core.policy)
        simulation.start()
        while simulation.step():
            pass
        seconds, count = time.thread_time() - begun_s, len(simulation.core.state.trials)
        runs.append(Timing(trials=count, seconds=seconds, decisions=timed.seconds))
        gc.enable()
        simulation.writer.close()
    return Timing(
        trials=runs[0].trials,
        seconds=min(each.seconds for each in runs),
        decisions=[min(same) for same in zip(*(each.decisions for each in runs), strict=True)],
    )


def run(track: Track = silently, *, repeats: int, policies: Sequence[str] = POLICIES) -> Report:
    rows: list[tuple[Cell, ...]] = []
    for policy in track(policies):
        few, many = (measure(policy, size, repeats=repeats) for size in SIZES)
        mean_ms, longest_ms = 1000.0 * fmean(many.decisions), 1000.0 * max(many.decisions)
        times = (few.trials, round(few.seconds, 2), many.trials, round(many.seconds, 2))
        rows.append((policy, *times, len(many.decisions), round(mean_ms, 3), round(longest_ms, 1)))
    table = Table(
        name="decisions",
        title="What policies take to decide",
        header=(
            "policy",
            "trials, short run",
            "it takes s",
            "trials, long run",
            "it takes, s",
            "its decisions",
            "mean ms",
            "longest ms",
        ),
        rows=tuple(rows),
        note=f"Processor time; the least of {repeats} equal runs, of each decision on its own.",
    )
    return Report(tables=(table,))
