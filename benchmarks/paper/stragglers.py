"""Stragglers (section 6.1.1, Figure 9): what noise costs when nodes, or only busy slots, are billed.

SHA(64, 4, 508), ResNet-50, iteration latency normal with mean 4 s and sigma 1 to 10, no initialisation
latency. The paper names no deadline; ours is 20 minutes, as in its section 6.1.3.

The latency is clipped at zero, so at sigma 10 its mean is 6.3 s, not 4: all costs rise with sigma. What
stragglers add is the ratio between the two ways of billing. The noise of many iterations averages out,
therefore a second kind: one factor per trial and stage (log-normal, mean 1, standard deviation sigma/4).
Whether the deadline has to hold in the median or with 95 % changes the ratio much, so both are run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from matplotlib.figure import Figure

from benchmarks.paper.setting import (
    CONFIDENCE,
    PLANNER_NAMES,
    RESNET50,
    Point,
    ask_all,
    of_group,
    p3_8xlarge,
    problem_of,
    sha,
)
from benchmarks.plotting import LOOKS, dollars, draw_series, entitle, from_zero, grid_of_axes, legend_below
from benchmarks.reporting import Cell, Report, Table, Track, silently
from elastune.model.cluster import Billing
from elastune.model.distributions import Constant, Normal
from elastune.model.profile import Profile

MEAN_S = 4.0
DEADLINE_MIN = 20.0
MAX_NODES = 64
SURE = 0.95
SIGMAS = tuple(range(1, 11))
PER_ITERATION, PER_TRIAL = "per iteration", "per trial"


def profile_with(noise: str, sigma_s: float) -> Profile:
    """ResNet-50 with the noise in every iteration, or in one factor per trial."""
    if noise == PER_ITERATION:
        return Profile(iteration=Normal(MEAN_S, sigma_s), speedup=RESNET50)
    return Profile(iteration=Constant(MEAN_S), speedup=RESNET50, spread=sigma_s / MEAN_S)


def measure(
    track: Track = silently,
    *,
    sigmas: Sequence[int] = SIGMAS,
    noises: Sequence[str] = (PER_ITERATION, PER_TRIAL),
    confidence: float = CONFIDENCE,
) -> list[Point]:
    """Group: kind of noise, billing; x: sigma in seconds."""
    spec = sha(64, 4, 508)
    steps = [(noise, billing, sigma) for noise in noises for billing in Billing for sigma in sigmas]
    return [
        Point(
            group=(noise, billing.value),
            x=sigma,
            answers=ask_all(
                replace(
                    problem_of(
                        spec,
                        profile_with(noise, sigma),
                        p3_8xlarge(max_nodes=MAX_NODES, billing=billing),
                        deadline_min=DEADLINE_MIN,
                        confidence=confidence,
                    ),
                    worst_case=False,  # the paper does not ask who survives
                )
            ),
        )
        for noise, billing, sigma in track(steps)
    ]


def run(track: Track = silently) -> Report:
    points = measure(track)
    sure = measure(track, confidence=SURE)
    tables = (
        _table("stragglers", "deadline kept in the median", points),
        _table("stragglers-95", "deadline kept with 95 %", sure),
    )
    return Report(tables=tables, figures={"stragglers": _draw(points)})


def _table(name: str, kept: str, points: Sequence[Point]) -> Table:
    """Both ways of billing in one row, and how many times dearer the nodes are."""
    shown = [planner for planner in PLANNER_NAMES if planner != "naive-elastic"]
    by_function = {(p.group[0], p.x): p for p in points if p.group[1] == Billing.FUNCTION.value}
    rows: list[tuple[Cell, ...]] = []
    for point in points:
        if point.group[1] != Billing.INSTANCE.value:
            continue
        other = by_function[point.group[0], point.x]
        rows.append(
            (
                point.group[0],
                int(point.x),
                profile_with(point.group[0], point.x).iteration.mean,
                *(point.usd(planner) for planner in shown),
                *(other.usd(planner) for planner in shown),
                *(_times(point.usd(planner), other.usd(planner)) for planner in ("static", "exact")),
            )
        )
    return Table(
        name=name,
        title=f"Stragglers (Figure 9): cost by billing, SHA(64,4,508), 20 minutes, {kept}",
        header=(
            "noise",
            "sigma s",
            "mean s",
            *(f"{planner} $/instance" for planner in shown),
            *(f"{planner} $/function" for planner in shown),
            "static inst./func.",
            "exact inst./func.",
        ),
        rows=tuple(rows),
        note="'mean s' is the mean of the latency after clipping at zero.",
    )


def _times(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one / other


def _draw(points: Sequence[Point]) -> Figure:
    figure, axes = grid_of_axes(1, 2, share_y="all")
    titles = {
        PER_ITERATION: "noise in every iteration (normal)",
        PER_TRIAL: "one factor per trial (log-normal)",
    }
    for panel, (noise, title) in zip(axes[0], titles.items(), strict=True):
        for planner in ("static", "exact"):
            for billing in Billing:
                line = of_group(points, noise, billing.value)
                draw_series(
                    panel,
                    ([p.x for p in line], [p.usd(planner) for p in line]),
                    look=LOOKS[planner],
                    dashed=billing is Billing.FUNCTION,
                    label=f"{LOOKS[planner].label}, billed per {billing.value}",
                )
        entitle(panel, title)
        panel.set_xlabel("standard deviation σ [s], mean latency 4 s before clipping")
        from_zero(panel, [p.usd("static") for p in points])
        dollars(panel)
    axes[0, 0].set_ylabel("expected cost")
    legend_below(figure, axes[0, 0], columns=2)
    return figure
