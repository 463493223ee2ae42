"""How a training scales, as a picture: every iteration that was measured, and the speed-up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from elastune.errors import JobError
from elastune.runs.profiling import Profiled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BLUE, _GREY = "#0072B2", "#999999"


def save_profile_plot(taken: Profiled, path: Path) -> None:
    """As .png or .svg, by the file's ending."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    typical = taken.measurements.typical()
    sizes = list(typical)
    left.boxplot(
        list(typical.values()), positions=range(len(sizes)), widths=0.5, medianprops={"color": _BLUE}
    )
    left.set_xticks(range(len(sizes)), [str(slots) for slots in sizes])
    left.set_ylim(bottom=0.0)
    _name(left, "seconds per iteration", "How long an iteration takes")
    right.plot(sizes, sizes, "--", color=_GREY, label="ideal")
    right.plot(
        sizes, [taken.profile.speedup.at(slots) for slots in sizes], "o-", color=_BLUE, label="measured"
    )
    right.set_xscale("log", base=2)
    right.set_yscale("log", base=2)
    right.set_xticks(sizes, [str(slots) for slots in sizes])
    right.set_yticks(sizes, [str(slots) for slots in sizes])
    right.legend(frameon=False)
    _name(right, "speed-up", "What more slots bring")
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise JobError(f"--plot is '{path}'; cannot write there: {error}") from None


def _name(axes: Axes, what: str, title: str) -> None:
    axes.set_xlabel("slots")
    axes.set_ylabel(what)
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
