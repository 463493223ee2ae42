"""Table 2 executed: static against elastic, in real processes that train a real network on this machine.

The paper tunes ResNet-101 on CIFAR-10 on rented p3.8xlarge; here the network of `examples/digits.py` learns
scikit-learn's handwritten digits on local Ray nodes, 2 slots each, which boot and are released as planned.
Time is real; the price of a node is made up ($12.24 an hour, by the second). An iteration trains for real and
then sleeps up to its `pace`, because eight slots on two cores would only be in each other's way. The job is
measured once, for all quotes. Every planner has the same seeds, so the same configurations.

`python -m benchmarks.paper real --seeds 1` is the short version. Figures to cite need an idle machine.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from benchmarks.reporting import Cell, Report, Table, Track, silently
from benchmarks.runtime.promises import DIGITS, unmeasured
from elastune.api.profiling import profile, with_measurements
from elastune.api.running import carry_out_run
from elastune.api.tuning import prepare_to_run
from elastune.errors import InfeasibleError
from elastune.job.job import Job, load_job
from elastune.planning.quote import Quote
from elastune.runs.prepared_run import PreparedRun

PLANNERS = ("static", "exact")
DEADLINES_S = (80.0, 120.0)
SEEDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RealRow:
    """One run: what was quoted, and what came. Without a plan there is no run."""

    deadline_s: float
    planner: str
    seed: int
    quote: Quote | None
    jct_s: float = 0.0
    usd: float = 0.0
    accuracy: float = 0.0


def measure(
    track: Track = silently,
    *,
    seeds: int = SEEDS,
    deadlines_s: Sequence[float] = DEADLINES_S,
    planners: Sequence[str] = PLANNERS,
) -> list[RealRow]:
    """Runs of one seed are next to each other, so that other work on the machine meets all planners alike."""
    steps = [
        (seed, deadline_s, planner)
        for seed in range(seeds)
        for deadline_s in deadlines_s
        for planner in planners
    ]
    with tempfile.TemporaryDirectory() as folder:
        job = unmeasured(load_job(DIGITS))
        measured = with_measurements(job, profile(job, folder=folder).path)
        return [
            _run(measured, deadline_s, planner, seed, Path(folder))
            for seed, deadline_s, planner in track(steps)
        ]


def _run(job: Job, deadline_s: float, planner: str, seed: int, folder: Path) -> RealRow:
    limited = job.model_copy(update={"deadline": deadline_s, "seed": seed})
    row = RealRow(deadline_s=deadline_s, planner=planner, seed=seed, quote=None)
    try:
        prepared: PreparedRun = prepare_to_run(limited, planner=planner)
    except InfeasibleError:
        return row
    result = carry_out_run(prepared, folder=folder / f"{seed}-{deadline_s:g}-{planner}").result
    quote = prepared.quote
    assert isinstance(quote, Quote), "a declared search has a plan"
    return RealRow(
        deadline_s=deadline_s,
        planner=planner,
        seed=seed,
        quote=quote,
        jct_s=result.actual.jct_seconds,
        usd=result.actual.cost,
        accuracy=0.0 if result.best is None else result.best.metric,
    )


def run(track: Track = silently, *, seeds: int = SEEDS) -> Report:
    rows = measure(track, seeds=seeds)
    return Report(tables=(summary_table(rows, seeds), _runs(rows)))


def summary_table(rows: Sequence[RealRow], seeds: int) -> Table:
    cells: list[tuple[Cell, ...]] = []
    for deadline_s, planner in dict.fromkeys((row.deadline_s, row.planner) for row in rows):
        ran = [row for row in rows if (row.deadline_s, row.planner) == (deadline_s, planner)]
        quote = ran[0].quote
        if quote is None:
            cells.append((int(deadline_s), planner, *("no plan",) * 7))
            continue
        cells.append(
            (
                int(deadline_s),
                planner,
                ", ".join(str(stage.nodes_held) for stage in quote.stages),
                f"{quote.jct_seconds:.1f} (95 %: {quote.jct_quantile_seconds:.1f})",
                f"{quote.cost:.3f} (95 %: {quote.cost_quantile:.3f})",
                _mean([row.jct_s for row in ran], 1),
                _mean([row.usd for row in ran], 3),
                _mean([100 * row.accuracy for row in ran], 1),
                f"{sum(row.jct_s <= deadline_s for row in ran)} of {len(ran)}",
            )
        )
    return Table(
        name="table-2-real",
        title="Table 2, executed: a network for handwritten digits, SHA(32,1,55,2), local nodes of 2 slots",
        header=(
            "max time s",
            "planner",
            "nodes by stage",
            "JCT s (quoted)",
            "cost $ (quoted)",
            "JCT s (real)",
            "cost $ (real)",
            "accuracy %",
            "in time",
        ),
        rows=tuple(cells),
        note=f"{seeds} seed(s), mean ± standard deviation; one profile for all, measured before. Load of the "
        f"machine at the end {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.",
    )


def _mean(values: Sequence[float], digits: int) -> str:
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{fmean(values):.{digits}f}{spread}"


def _runs(rows: Sequence[RealRow]) -> Table:
    return Table(
        name="table-2-real-runs",
        title="Table 2, executed: every run",
        header=("seed", "max time s", "planner", "quoted s", "took s", "quoted $", "cost $", "accuracy"),
        rows=tuple(
            (
                row.seed,
                int(row.deadline_s),
                row.planner,
                row.quote.jct_seconds,
                row.jct_s,
                row.quote.cost,
                row.usd,
                row.accuracy,
            )
            for row in rows
            if row.quote is not None
        ),
    )
