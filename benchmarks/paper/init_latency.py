"""Initialisation latency against deadline (section 6.1.4, Figure 12): 512 trials on up to 256 nodes.

SHA(512, 4, 4096), ResNet-50, 12 s per iteration, INIT of 1, 10 and 100 s, billed per instance. The paper
sweeps deadlines from 90 to 160 minutes. But the winner trains 4096 iterations of 12 s one after the other: at
a speed-up of 5.60, the largest measured one, that alone takes 146 minutes. So there are two runs:

- *flat*: no speed-up beyond 8 slots, as everywhere in Elastune, and the deadlines that can be met;
- *extrapolated*: the speed-up goes on beyond 8 slots by Amdahl's law through the point at 8, and the paper's
  deadlines. Those speed-ups were not measured; a real job may not scale like that.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from benchmarks.paper.setting import (
    MINUTE,
    RESNET50,
    Point,
    ask_all,
    cost_table,
    of_group,
    p3_8xlarge,
    problem_of,
    sha,
)
from benchmarks.planning.contestants import LETTER
from benchmarks.plotting import (
    dollars,
    draw_planner,
    entitle,
    from_zero,
    grid_of_axes,
    legend_below,
    log_dollars,
    plain_ticks,
)
from benchmarks.reporting import Report, Table, Track, silently
from elastune.model.distributions import Constant
from elastune.model.limits import Objective
from elastune.model.profile import Profile, Speedup
from elastune.planning.problem import Problem
from elastune.planning.quoting import QuoteRequest, make_quote

INITS_S = (1, 10, 100)
ITERATION_S = 12.0
MAX_NODES = 256
FLAT, EXTRAPOLATED = "flat", "extrapolated"
DEADLINES_MIN = {
    FLAT: (147, 148, 149, 150, 152, 154, 156, 158, 160),
    EXTRAPOLATED: (90, 100, 110, 120, 130, 140, 150, 160),
}
TITLES = {FLAT: "flat beyond 8 GPUs", EXTRAPOLATED: "extrapolated"}
TICKS_MIN = {FLAT: (148, 152, 156, 160), EXTRAPOLATED: (90, 110, 130, 150)}


def extrapolate(speedup: Speedup, slots: Sequence[int]) -> Speedup:
    """By Amdahl's law through the last measured point."""
    largest, best = speedup.points[-1]
    serial = (largest / best - 1) / (largest - 1)
    return Speedup.of({**dict(speedup.points), **{n: 1 / (serial + (1 - serial) / n) for n in slots}})


SPEEDUPS = {FLAT: RESNET50, EXTRAPOLATED: extrapolate(RESNET50, (16, 32, 64))}


def problem_with(law: str, init_s: float, deadline_min: float) -> Problem:
    """The experiment's job under one scaling law."""
    return problem_of(
        sha(512, 4, 4096),
        Profile(iteration=Constant(ITERATION_S), speedup=SPEEDUPS[law]),
        p3_8xlarge(max_nodes=MAX_NODES, init_s=init_s),
        deadline_min=deadline_min,
    )


def fastest_min(law: str, init_s: float) -> float:
    """Minutes of the fastest plan, whatever it costs."""
    quote = make_quote(problem_with(law, init_s, 1000.0), QuoteRequest(objective=Objective.TIME))
    return quote.jct_seconds / MINUTE


def measure(
    track: Track = silently,
    *,
    laws: Sequence[str] = (FLAT, EXTRAPOLATED),
    inits_s: Sequence[int] = INITS_S,
    deadlines_min: Sequence[int] | None = None,
) -> list[Point]:
    """Group: scaling law, INIT; x: deadline in minutes."""
    steps = [
        (law, init, deadline)
        for law in laws
        for init in inits_s
        for deadline in deadlines_min or DEADLINES_MIN[law]
    ]
    return [
        Point(
            group=(law, f"{init} s"),
            x=deadline,
            answers=ask_all(problem_with(law, init, deadline)),
        )
        for law, init, deadline in track(steps)
    ]


def run(track: Track = silently) -> Report:
    points = measure(track)
    table = cost_table(
        "init-latency",
        "Initialisation latency against deadline (Figure 12): SHA(512,4,4096), up to 256 nodes",
        ("scaling law", "INIT", "deadline min"),
        points,
        "flat: no speed-up beyond 8 slots. extrapolated: Amdahl's law beyond 8 slots, not measured.",
    )
    return Report(tables=(table, _feasible()), figures={"init-latency": _draw(points)})


def _feasible() -> Table:
    """What no plan can beat: the winner's iterations, and the fastest plan on 256 nodes."""
    rows = []
    for law, speedup in SPEEDUPS.items():
        chain = 4096 * ITERATION_S / speedup.at(speedup.largest) / MINUTE
        rows += [(law, f"{init} s", speedup.largest, chain, fastest_min(law, init)) for init in INITS_S]
    return Table(
        name="init-latency-fastest",
        title="Figure 12: what is possible at all",
        header=("scaling law", "INIT", "largest gang", "winner alone min", "fastest plan min"),
        rows=tuple(rows),
        note="If flat, no deadline from 90 to 140 minutes can be met by any plan.",
    )


def _draw(points: Sequence[Point]) -> Figure:
    figure, axes = grid_of_axes(2, 3, width=10.0, height=5.8, share_y="row")
    for row, (law, deadlines) in zip(axes, DEADLINES_MIN.items(), strict=True):
        for panel, init in zip(row, INITS_S, strict=True):
            line = of_group(points, law, f"{init} s")
            for planner in ("static", LETTER, "greedy", "exact"):
                draw_planner(panel, planner, [p.x for p in line], [p.usd(planner) for p in line])
            margin = 0.05 * (deadlines[-1] - deadlines[0])
            panel.set_xlim(deadlines[0] - margin, deadlines[-1] + margin)
            entitle(panel, f"INIT {init} s, {TITLES[law]}")
            if law == FLAT:
                log_dollars(panel, (250, 500, 1000, 2000, 4000, 8000))
            else:
                from_zero(panel, [p.usd("static") for p in points if p.group[0] == law])
                dollars(panel)
            plain_ticks(panel, TICKS_MIN[law])
        row[0].set_ylabel("cost (log scale)" if law == FLAT else "cost")
    for panel in axes[1]:
        panel.set_xlabel("deadline [min]")
    legend_below(figure, axes[0, 0], columns=3)
    return figure
