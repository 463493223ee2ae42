"""How all figures look: one colour and one marker per planner (Okabe and Ito's colour-blind-safe palette)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

INK = "#333333"
FAINT = "#d9d9d9"
Share = Literal["none", "all", "row", "col"]


@dataclass(frozen=True, slots=True)
class Look:
    """How the line of one planner is drawn. A halo is hollow and large: what lies below stays visible."""

    label: str
    colour: str
    marker: str
    halo: bool = False


LOOKS = {
    "static-letter": Look("static, the paper's letter", "#F0A070", "x"),
    "static": Look("static", "#D55E00", "s"),
    "naive-elastic": Look("naive elastic", "#CC79A7", "D"),
    "greedy-letter": Look("greedy, the paper's letter", "#E69F00", "v", halo=True),
    "greedy": Look("greedy (ours)", "#0072B2", "^", halo=True),
    "exact": Look("exact (ours)", "#009E73", "o"),
}


def grid_of_axes(
    rows: int,
    columns: int,
    *,
    width: float = 9.0,
    height: float = 3.6,
    share_y: Literal["none", "all", "row", "col"] = "none",
) -> tuple[Figure, npt.NDArray[np.object_]]:
    """A figure and its axes, always as a matrix."""
    figure = Figure(figsize=(width, height), dpi=100, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharey=share_y)
    for each in axes.flat:
        _tidy(each)
    return figure, axes


def draw_planner(axes: Axes, planner: str, x: Sequence[float], y: Sequence[float | None]) -> None:
    """The line of a planner; where there is no plan there is no point."""
    draw_series(axes, (x, y), look=LOOKS[planner])


def draw_series(
    axes: Axes,
    points: tuple[Sequence[float], Sequence[float | None]],
    *,
    look: Look,
    dashed: bool = False,
    label: str | None = None,
) -> None:
    x, y = points
    hollow = dashed or look.halo
    axes.plot(
        x,
        [np.nan if value is None else value for value in y],
        color=look.colour,
        marker=look.marker,
        markersize=8.5 if look.halo else 4.5,
        linewidth=1.1 if look.halo else 1.6,
        linestyle="--" if dashed else "-",
        markerfacecolor="none" if hollow else look.colour,
        zorder=3 if look.halo else 2,
        label=label or look.label,
    )


def dollars(axes: Axes) -> None:
    """Whole dollars along the cost axis, also where it is logarithmic."""
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"${value:,.0f}"))


def from_zero(axes: Axes, values: Iterable[float | None]) -> None:
    """The cost axis from zero to a little above the largest value (shared axes do not find it themselves)."""
    axes.set_ylim(0, 1.08 * max((value for value in values if value is not None), default=1.0))


def log_dollars(axes: Axes, ticks: Sequence[float]) -> None:
    """A logarithmic cost axis with exactly these ticks."""
    axes.set_yscale("log")
    axes.set_yticks(ticks, [f"${tick:,.0f}" for tick in ticks])
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="y", which="minor", length=0)


def times(axes: Axes) -> None:
    """Ratios: 1x, 1.5x, 2x."""
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def entitle(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=10, color=INK)


def plain_ticks(axes: Axes, values: Sequence[float]) -> None:
    """Exactly these ticks along x, written out, also where the axis is logarithmic."""
    axes.set_xticks(values, [f"{value:,g}" for value in values])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="x", which="minor", length=0)


def legend_below(figure: Figure, axes: Axes, *, columns: int) -> None:
    """One legend for all panels, outside of them."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)


def _tidy(axes: Axes) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(INK)
    axes.grid(axis="y", color=FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, labelsize=9)
    axes.xaxis.label.set_fontsize(9)
    axes.yaxis.label.set_fontsize(9)
