"""How the figures of this benchmark look: an idea switched on and off, and one colour per policy."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from benchmarks.plotting import Look
from benchmarks.policies.averages import Average

ON = Look("with", "#0072B2", "o")
OFF = Look("without", "#D55E00", "s")


def draw_scores(
    axes: Axes, x: Sequence[float], scores: Sequence[Average], *, look: Look, label: str | None = None
) -> None:
    """A line of means with bars of one standard error."""
    axes.errorbar(
        x,
        [score.mean for score in scores],
        yerr=[score.se for score in scores],
        color=look.colour,
        marker=look.marker,
        markersize=4.5,
        linewidth=1.6,
        elinewidth=1.0,
        capsize=2.5,
        label=label or look.label,
    )
