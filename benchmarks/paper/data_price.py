"""Data price (section 6.1.2, Figure 10): when every new node first downloads the data set, and pays for it.

SHA(64, 4, 508), ResNet-50, 4 s per iteration. The paper names neither deadline nor initialisation latency;
ours are 20 minutes (its section 6.1.3) and none. Because the gain depends on the deadline more than on
anything else here, a second sweep shows how.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from benchmarks.paper.setting import (
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
    Look,
    dollars,
    draw_planner,
    draw_series,
    entitle,
    from_zero,
    grid_of_axes,
    legend_below,
    plain_ticks,
    times,
)
from benchmarks.reporting import Report, Track, silently
from elastune.model.distributions import Constant
from elastune.model.profile import Profile
from elastune.planning.problem import Problem

DATASETS_GB = {"ImageNet, 150 GB": 150.0, "CIFAR-10, 150 MB": 0.15}
PRICES = tuple(cents / 100 for cents in range(0, 17, 2))
DEADLINE_MIN = 20.0
DEADLINES_MIN = (7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 14.0, 16.0, 18.0, 20.0)
# One case of each: data that cost next to nothing, and data that cost more than the computing.
FIXED_PRICES = {"ImageNet, 150 GB": 0.01, "CIFAR-10, 150 MB": 0.16}
MAX_NODES = 64


def problem_with(gigabytes: float, usd_per_gb: float, deadline_min: float) -> Problem:
    """The experiment's job with one data set at one price."""
    return problem_of(
        sha(64, 4, 508),
        Profile(iteration=Constant(4.0), speedup=RESNET50),
        p3_8xlarge(max_nodes=MAX_NODES, data_usd_per_node=gigabytes * usd_per_gb),
        deadline_min=deadline_min,
    )


def measure(track: Track = silently, *, prices: Sequence[float] = PRICES) -> list[Point]:
    """Group: data set; x: dollars per GB."""
    steps = [(name, price) for name in DATASETS_GB for price in prices]
    return [
        Point(group=(name,), x=price, answers=ask_all(problem_with(DATASETS_GB[name], price, DEADLINE_MIN)))
        for name, price in track(steps)
    ]


def measure_deadlines(
    track: Track = silently, *, deadlines_min: Sequence[float] = DEADLINES_MIN
) -> list[Point]:
    """Group: data set (at its fixed price); x: deadline in minutes."""
    steps = [(name, deadline) for name in DATASETS_GB for deadline in deadlines_min]
    return [
        Point(
            group=(name,),
            x=deadline,
            answers=ask_all(problem_with(DATASETS_GB[name], FIXED_PRICES[name], deadline)),
        )
        for name, deadline in track(steps)
    ]


def run(track: Track = silently) -> Report:
    points, by_deadline = measure(track), measure_deadlines(track)
    tables = (
        cost_table(
            "data-price",
            "Data price (Figure 10): SHA(64,4,508), 20 minute deadline",
            ("data set", "$ per GB"),
            points,
            "Every node that is started downloads the data set once.",
        ),
        cost_table(
            "data-price-deadline",
            "Data price: the same job against the deadline",
            ("data set", "deadline min"),
            by_deadline,
            "CIFAR-10 at $0.16 per GB, ImageNet at $0.01 per GB.",
        ),
    )
    return Report(tables=tables, figures={"data-price": _draw(points, by_deadline)})


def _draw(points: Sequence[Point], by_deadline: Sequence[Point]) -> Figure:
    figure, axes = grid_of_axes(1, 3, width=10.5)
    for panel, name in zip(axes[0], DATASETS_GB, strict=False):
        line = of_group(points, name)
        for planner in ("static", LETTER, "greedy", "exact"):
            draw_planner(panel, planner, [p.x for p in line], [p.usd(planner) for p in line])
        entitle(panel, f"{name}, 20 minutes")
        panel.set_xlabel("data price [$ per GB]")
        from_zero(panel, [p.usd("static") for p in line])
        dollars(panel)
    axes[0, 0].set_ylabel("expected cost")
    ratios = axes[0, 2]
    looks = (Look("", "#E69F00", "P"), Look("", "#333333", "X"))
    for look, name in zip(looks, DATASETS_GB, strict=True):
        line = of_group(by_deadline, name)
        label = f"{name.split(',')[0]}, ${FIXED_PRICES[name]:.2f} per GB"
        draw_series(ratios, ([p.x for p in line], [p.ratio("static") for p in line]), look=look, label=label)
    entitle(ratios, "static / exact")
    ratios.set_xlabel("deadline [min]")
    ratios.set_ylim(bottom=0.9)
    plain_ticks(ratios, (8, 10, 12, 14, 16, 18, 20))
    ratios.legend(frameon=False, fontsize=8)
    times(ratios)
    legend_below(figure, axes[0, 0], columns=3)
    return figure
