"""Do quotes hold where configurations differ in speed? Simulated searches against their own quote.

Recorded curves with seconds, made here: 400 networks whose time per iteration grows with their width. In one
table speed has nothing to do with quality, in the other the slower networks are the better ones. The quote
knows only the spread of the speeds.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.reporting import Cell, Report, Table, Track, silently
from elastune.api.arguments import as_job
from elastune.core.commands import Ending
from elastune.job.job import Job
from elastune.journal.writer import MemoryJournal
from elastune.runs.simulation import Simulation, unnamed
from elastune.setup.run_setup import RunSetup, prepare

SEEDS = 200
DEADLINES = ("15m", "25m")
CONFIGURATIONS, ITERATIONS, ITERATION_S = 400, 80, 20.0


def write_curves(path: Path, *, slower_is_better: bool, seed: int = 3) -> float:
    """A table of curves; returns the spread of the speeds."""
    rng = np.random.default_rng(seed)
    width = np.exp(rng.uniform(np.log(16), np.log(256), CONFIGURATIONS))
    rate = 10 ** rng.uniform(-4, -1, CONFIGURATIONS)
    factor = width**0.68 * np.exp(rng.normal(0.0, 0.12, CONFIGURATIONS))
    factor /= factor.mean()
    noise = np.exp(rng.normal(0.0, 0.03, (CONFIGURATIONS, ITERATIONS)))
    talent = np.log(factor) if slower_is_better else rng.normal(size=CONFIGURATIONS)
    talent = (talent - talent.mean()) / talent.std()
    limit = 0.8 + 0.05 * talent - 0.02 * np.abs(np.log10(rate) + 2.5)
    learned = 1 - np.exp(-np.arange(1, ITERATIONS + 1) / 8)
    accuracy = limit[:, None] * learned + rng.normal(0.0, 0.004, (CONFIGURATIONS, ITERATIONS))
    np.savez(
        path,
        accuracy=accuracy,
        seconds=ITERATION_S * factor[:, None] * noise,
        hp=np.column_stack([width, rate]),
        hp_names=np.array(["width", "rate"]),
    )
    return float(factor.std())


def job_for(curves: Path, deadline: str, spread: float) -> Job:
    return as_job(
        {
            "trainable": str(curves),
            "metric": "accuracy",
            "mode": "max",
            "search": {
                "algorithm": "sha",
                "trials": 27,
                "min_iterations": 2,
                "max_iterations": ITERATIONS,
                "eta": 3,
            },
            "profile": {
                "iteration": {"mean": ITERATION_S, "sd": 0.03 * ITERATION_S},
                "spread": spread,
                "speedup": {2: 1.9, 4: 3.5, 8: 6.0, 16: 9.0},
                "startup": 2,
                "save": 1,
            },
            "cluster": {
                "provider": "simulated",
                "slots_per_node": 4,
                "max_nodes": 16,
                "price_per_hour": 12.24,
                "init": 20,
                "queue": 5,
            },
            "deadline": deadline,
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """How many of the runs ended complete, and within the quoted cost; what they took."""

    setup: RunSetup
    complete: float
    within_cost: float
    seconds: float
    usd: float


def checked_run(setup: RunSetup, seeds: int) -> Kept:
    """The same job with so many seeds: other configurations, other survivors."""
    if setup.quote is None:
        raise AssertionError("a declared search has a quote")
    runs = []
    for seed in range(seeds):
        run = Simulation(setup, seed=seed, journal=MemoryJournal(), record=unnamed(setup))
        run.run()
        state = run.core.state
        spent = state.ledger.spent_usd(state.now_s)
        runs.append((state.ended is Ending.COMPLETE, spent <= setup.quote.cost_quantile, state.now_s, spent))
    complete, within, seconds, usd = np.array(runs, dtype=np.float64).mean(axis=0).tolist()
    return Kept(setup=setup, complete=complete, within_cost=within, seconds=seconds, usd=usd)


def run(track: Track = silently, *, seeds: int = SEEDS) -> Report:
    rows: list[tuple[Cell, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        settings = [(related, deadline) for related in (False, True) for deadline in DEADLINES]
        for related, deadline in track(settings):
            path = Path(folder) / f"{'related' if related else 'unrelated'}.npz"
            spread = write_curves(path, slower_is_better=related)
            kept = checked_run(prepare(job_for(path, deadline, spread)), seeds)
            quote = kept.setup.quote
            if quote is None or quote.speeds is None:
                raise AssertionError("the quote knows that speeds differ")
            rows.append(
                (
                    "slower is better" if related else "unrelated",
                    deadline,
                    f"{kept.complete:.1%}",
                    f"{kept.within_cost:.1%}",
                    quote.cost_quantile,
                    quote.speeds.cost_quantile,
                    quote.cost,
                    kept.usd,
                )
            )
    table = Table(
        name="unequal",
        title=f"SHA(27, 2, 80, 3) where configurations differ in speed, {seeds} seeds, 95 % quoted",
        header=(
            "speed and quality",
            "deadline",
            "complete",
            "within 95 % cost",
            "95 % cost $",
            "95 % cost if unrelated $",
            "quoted mean $",
            "paid on average $",
        ),
        rows=tuple(rows),
        note="'if unrelated' is what the same plan would be quoted if survivors were no slower than others.",
    )
    return Report(tables=(table,))
