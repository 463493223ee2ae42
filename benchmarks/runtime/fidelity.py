"""Whether a real run keeps to its quote: iterations that sleep by a known law, on nodes that come and go.

What the machine takes for a boot, a start and a save is measured first and put into the job, as a user's
profile would have it. What is left to go wrong is ours: the time between decisions and deeds.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.reporting import Cell, Report, Table, Track, silently
from benchmarks.runtime.calibration import SLOTS_PER_NODE, TRAINABLE, Calibration, calibrate, empirical
from benchmarks.runtime.journals import Timeline
from benchmarks.runtime.trainables import curve
from elastune.api.simulating import simulate
from elastune.api.tuning import prepare_to_run, tune
from elastune.planning.quote import Quote

SCALING = 0.9
PRICE_PER_HOUR = 3.6
# Other boots may make for another plan, with other boots.
_PASSES = 3
SPEEDUP = {str(slots): slots**SCALING for slots in (1, 2, 4, 8)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A job without its measured part. `at_once`: how many nodes it probably asks for at a time."""

    name: str
    iteration_s: float
    keys: Mapping[str, object]
    at_once: tuple[int, ...]
    cluster: Mapping[str, object] = field(default_factory=lambda: {"max_nodes": 4})

    def job(self, measured: Calibration) -> dict[str, object]:
        return {
            **self.keys,
            "trainable": TRAINABLE,
            "space": {"x": {"float": [0.0, 1.0]}, "sleep": self.iteration_s, "scaling": SCALING},
            "metric": "score",
            "profile": {
                "iteration": self.iteration_s,
                "speedup": SPEEDUP,
                "startup": empirical(measured.startup),
                "save": empirical(measured.save),
            },
            "cluster": {
                **self.cluster,
                "slots_per_node": SLOTS_PER_NODE,
                "price_per_hour": PRICE_PER_HOUR,
                "minimum_charge": 5,
                "queue": empirical(measured.queue),
                "init": empirical(measured.init),
            },
        }


SHA = {"algorithm": "sha", "trials": 10, "min_iterations": 7, "max_iterations": 170, "eta": 2}
ASHA = {"algorithm": "asha", "trials": 20, "min_iterations": 6, "max_iterations": 54, "eta": 3}
CASES = (
    Case(name="SHA, elastic", iteration_s=1.0, keys={"search": SHA, "deadline": 155}, at_once=(1, 2)),
    Case(
        name="ASHA, two nodes",
        iteration_s=1.5,
        keys={"search": ASHA},
        at_once=(2,),
        cluster={"nodes": 2},
    ),
    Case(
        name="ASHA, until the deadline",
        iteration_s=1.5,
        keys={"search": {"algorithm": "asha", "min_iterations": 6, "max_iterations": 54}, "deadline": 140},
        at_once=(2,),
        cluster={"nodes": 2},
    ),
    Case(
        name="SEER, elastic",
        iteration_s=0.5,
        keys={"search": {"algorithm": "seer", "min_round": 8}, "deadline": 140, "budget": 0.40},
        at_once=(4,),
    ),
)


def run(track: Track = silently) -> Report:
    return measure(track)


def measure(track: Track = silently, *, cases: Sequence[Case] = CASES, repeats: int = 2) -> Report:
    """`repeats`: of the calibration."""
    known: dict[tuple[int, ...], Calibration] = {}
    rows = [_row(case, _fair_job(case, known, repeats)) for case in track(list(cases))]
    return Report(tables=(_table(rows), _calibrated(known)))


def _fair_job(case: Case, known: dict[tuple[int, ...], Calibration], repeats: int) -> dict[str, object]:
    """With boots as they are when as many nodes boot at once as the plan asks for."""
    at_once = case.at_once
    for _ in range(_PASSES):
        if at_once not in known:
            known[at_once] = calibrate(at_once, repeats=repeats)
        job = case.job(known[at_once])
        quote = prepare_to_run(job).quote
        asked = _asked(quote) if isinstance(quote, Quote) else at_once
        if asked == at_once:
            break
        at_once = asked
    return job


def _asked(quote: Quote) -> tuple[int, ...]:
    held = [0, *(stage.nodes_held for stage in quote.stages)]
    return tuple(sorted({after - before for before, after in itertools.pairwise(held) if after > before}))


def _row(case: Case, job: Mapping[str, object]) -> tuple[Cell, ...]:
    """A policy that decides while it runs is quoted without knowing the curves; a simulation knows them."""
    simulated = simulate({**job, "trainable": curve}).actual
    with tempfile.TemporaryDirectory() as folder:
        result, nodes = tune(job, folder=folder), Timeline.read(Path(folder)).nodes()
    promised, came = result.predicted, result.actual
    return (
        case.name,
        nodes,
        result.trials,
        promised.jct_seconds,
        simulated.jct_seconds,
        came.jct_seconds,
        _percent(came.jct_seconds, promised.jct_seconds),
        _percent(came.jct_seconds, simulated.jct_seconds),
        promised.cost,
        simulated.cost,
        came.cost,
        _percent(came.cost, promised.cost),
        _percent(came.cost, simulated.cost),
    )


def _percent(actual: float, promised: float) -> str:
    return f"{100.0 * (actual / promised - 1.0):+.1f} %"


def _table(rows: Sequence[tuple[Cell, ...]]) -> Table:
    return Table(
        name="fidelity",
        title="Real runs against their quotes, iterations that sleep",
        header=(
            "job",
            "nodes up",
            "trials",
            "quoted, s",
            "simulated, s",
            "took, s",
            "off the quote",
            "off the simulation",
            "quoted, $",
            "simulated, $",
            "cost, $",
            "off the quote, $",
            "off the simulation, $",
        ),
        rows=tuple(rows),
        note=f"One run each, on nodes of {SLOTS_PER_NODE} slots of this machine; its load at the end "
        f"{os.getloadavg()[0]:.1f}.",
    )


def _calibrated(known: Mapping[tuple[int, ...], Calibration]) -> Table:
    return Table(
        name="fidelity-measured",
        title="What was measured before and put into the jobs, mean seconds",
        header=("nodes at once", "queue", "init", "init from to", "start-up of a gang", "save"),
        rows=tuple(
            (
                " and ".join(map(str, at_once)),
                _mean(found.queue),
                _mean(found.init),
                f"{min(found.init):.2f} to {max(found.init):.2f}",
                _mean(found.startup),
                _mean(found.save),
            )
            for at_once, found in known.items()
        ),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
