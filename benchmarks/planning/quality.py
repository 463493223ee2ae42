"""How much dearer than the optimum the planners' plans are, on random jobs with constant latencies.

With constant latencies `exact` is proven optimal (and the run checks that it says so), so a ratio to its cost
is a distance to the optimum.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from benchmarks.planning.contestants import CONTESTANTS, fresh_case
from benchmarks.planning.random_jobs import draw_jobs
from benchmarks.plotting import LOOKS, entitle, grid_of_axes, legend_below, plain_ticks
from benchmarks.reporting import Cell, Report, Table, Track, silently
from elastune.model.cluster import Billing

JOBS = 150
SEED = 2021
Ratios = Mapping[str, list[float]]


def measure(
    track: Track = silently, *, jobs: int = JOBS, seed: int = SEED, billing: Billing = Billing.INSTANCE
) -> Ratios:
    """Cost of each planner's plan over the optimum, by planner; inf where it finds none."""
    ratios: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    for problem in track(list(draw_jobs(jobs, seed=seed, billing=billing))):
        case = fresh_case(problem)
        found = {name: solve(case) for name, solve in CONTESTANTS.items()}
        best = found["exact"]
        if best is None or not best.optimal:
            raise AssertionError(f"no proven optimum for {problem}")
        for name, solution in found.items():
            cost = np.inf if solution is None else solution.outcome.mean_cost_usd
            ratios[name].append(cost / best.outcome.mean_cost_usd)
    return ratios


def run(track: Track = silently) -> Report:
    measured = {billing: measure(track, billing=billing) for billing in Billing}
    return Report(tables=(_table(measured),), figures={"quality": _draw(measured)})


def _table(measured: Mapping[Billing, Ratios]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for billing, ratios in measured.items():
        for name, values in ratios.items():
            found = np.array(values)
            none = int(np.isinf(found).sum())
            median, ninth, worst = np.quantile(found, (0.5, 0.9, 1.0), method="inverted_cdf")
            optimal = float((found < 1.0005).mean())
            numbers = (float(n) if np.isfinite(n) else None for n in (median, ninth, worst))
            rows.append((billing.value, name, *numbers, f"{optimal:.0%}", none))
    return Table(
        name="quality",
        title=f"Cost over the optimum on {JOBS} random jobs, constant latencies",
        header=("billed per", "planner", "median", "90th percentile", "worst", "optimal", "no plan"),
        rows=tuple(rows),
        note="optimal: within 0.05 %. A dash stands where the planner found no plan for that many jobs.",
    )


def _draw(measured: Mapping[Billing, Ratios]) -> Figure:
    """For every ratio the share of jobs whose plan is no dearer than that."""
    figure, axes = grid_of_axes(1, 2, share_y="all")
    for panel, (billing, ratios) in zip(axes[0], measured.items(), strict=True):
        for name, values in ratios.items():
            shares = 100 * np.arange(1, len(values) + 1) / len(values)
            look = LOOKS[name]
            panel.step(
                sorted(values), shares, where="post", color=look.colour, linewidth=1.8, label=look.label
            )
        panel.set_xscale("log")
        plain_ticks(panel, (1, 1.5, 2, 3, 5, 10))
        panel.set_xlim(0.97, 12)
        panel.set_ylim(0, 103)
        entitle(panel, f"billed per {billing.value}")
        panel.set_xlabel("cost / optimal cost (log scale)")
    axes[0, 0].set_ylabel("jobs [%]")
    legend_below(figure, axes[0, 0], columns=5)
    return figure
