"""Job size (section 6.1.3, Figure 11): what more trials cost, by both ways of billing.

SHA(k, 4, 508), ResNet-50, 20 minutes. The paper does not repeat the latency; ours is the 4 s of its section
6.1.1. At 4 s the deadline is loose (the longest chain of iterations takes 6 minutes on 8 slots), so the same
is done for 10 minutes too.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from benchmarks.paper.setting import (
    PLANNER_NAMES,
    RESNET50,
    Point,
    ask_all,
    cost_table,
    of_group,
    p3_8xlarge,
    problem_of,
    sha,
)
from benchmarks.plotting import draw_planner, entitle, grid_of_axes, legend_below, plain_ticks, times
from benchmarks.reporting import Report, Track, silently
from elastune.model.cluster import Billing
from elastune.model.distributions import Constant
from elastune.model.profile import Profile

TRIALS = (8, 16, 32, 64, 128, 256, 512)
DEADLINES_MIN = (20, 10)
MAX_NODES = 256


def measure(
    track: Track = silently, *, trials: Sequence[int] = TRIALS, deadlines_min: Sequence[int] = DEADLINES_MIN
) -> list[Point]:
    """Group: deadline, billing; x: trials."""
    profile = Profile(iteration=Constant(4.0), speedup=RESNET50)
    steps = [(deadline, billing, k) for deadline in deadlines_min for billing in Billing for k in trials]
    return [
        Point(
            group=(f"{deadline} min", billing.value),
            x=k,
            answers=ask_all(
                problem_of(
                    sha(k, 4, 508),
                    profile,
                    p3_8xlarge(max_nodes=MAX_NODES, billing=billing),
                    deadline_min=deadline,
                )
            ),
        )
        for deadline, billing, k in track(steps)
    ]


def run(track: Track = silently) -> Report:
    points = measure(track)
    table = cost_table(
        "job-size",
        "Job size (Figure 11): SHA(k,4,508)",
        ("deadline", "billed per", "trials k"),
        points,
        "20 minutes as in the paper, 10 minutes as a deadline that binds.",
    )
    return Report(tables=(table,), figures={"job-size": _draw(points)})


def _draw(points: Sequence[Point]) -> Figure:
    figure, axes = grid_of_axes(2, 2, height=5.6, share_y="row")
    for row, deadline in zip(axes, DEADLINES_MIN, strict=True):
        for panel, billing in zip(row, Billing, strict=True):
            line = of_group(points, f"{deadline} min", billing.value)
            for planner in PLANNER_NAMES:
                draw_planner(panel, planner, [p.x for p in line], [p.ratio(planner) for p in line])
            panel.set_xscale("log", base=2)
            plain_ticks(panel, TRIALS)
            entitle(panel, f"{deadline} minutes, billed per {billing.value}")
            times(panel)
        row[0].set_ylabel("cost / cost of exact")
    for panel in axes[1]:
        panel.set_xlabel("trials k")
    legend_below(figure, axes[0, 0], columns=4)
    return figure
