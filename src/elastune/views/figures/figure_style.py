"""The look of all figures (colours safe for colour-blind readers, quiet axes), and how they become files.

On pages, ink, paper and lines take the colours of the page, light or dark.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elastune.errors import JobError
from elastune.wording import format_duration, format_usd

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


# Okabe and Ito's palette, ordered so that neighbours differ in lightness too.
PALETTE = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00",
    "#999933", "#7F5BA8", "#882255", "#44AA99", "#8A6D3B", "#6B7A8F",
)  # fmt: skip
BLUE, ORANGE, GREEN, PINK, SKY, VERMILION = PALETTE[:6]
# Each has one purpose, so that a page can replace it.
INK, MUTED, RULE, PAPER, LIMIT, HELD = "#24292F", "#68707A", "#DADFE4", "#FFFFFE", "#B3261E", "#E9ECEF"
_IN_PAGES = {
    INK: "var(--ink)", MUTED: "var(--muted)", RULE: "var(--rule)", PAPER: "var(--paper)",
    LIMIT: "var(--limit)", HELD: "var(--held)", BLUE: "var(--blue)",
}  # fmt: skip
ACTIVITY_COLOURS = {
    "booting": "#C9A227", "starting": "#56B4E9", "training": "#0072B2", "saving": "#7F5BA8", "idle": "#C8CDD3"
}  # fmt: skip
WIDTH = 10.0
_NEAR = 1.4
_DPI = 150
_REFERENCE = re.compile(r'(\bid="|url\(#|xlink:href="#|\bhref="#)')


def check_matplotlib(what: str) -> None:
    """Called before anything is read."""
    if importlib.util.find_spec("matplotlib") is None:
        raise JobError(f"{what} needs matplotlib: pip install 'elastune[plot]'")


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Everything drawn inside has the look. Texts of users are plain: a dollar sign starts no formula."""
    import matplotlib as mpl  # noqa: PLC0415

    look: dict[Any, Any] = {
        "axes.edgecolor": MUTED, "axes.facecolor": "none", "axes.grid": True, "axes.axisbelow": True,
        "axes.labelcolor": INK, "axes.linewidth": 0.8, "axes.spines.right": False, "axes.spines.top": False,
        "axes.titlecolor": INK, "axes.titlelocation": "left", "axes.titlesize": 10.5,
        "axes.titleweight": "bold", "axes.titlepad": 9.0,
        "figure.facecolor": PAPER, "savefig.facecolor": PAPER,
        "font.size": 9.5, "grid.color": RULE, "grid.linewidth": 0.6, "hatch.linewidth": 0.6,
        "legend.frameon": False, "path.simplify": True, "svg.fonttype": "none", "svg.hashsalt": "elastune",
        "text.color": INK, "text.parse_math": False,
        "xtick.color": MUTED, "ytick.color": MUTED, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
    }  # fmt: skip
    with mpl.rc_context(look), warnings.catch_warnings():
        # The name of a metric may have letters that no font has; a box is drawn for them.
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        yield


def new_figure(height: float, width: float = WIDTH) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415

    return Figure(figsize=(width, height), layout="constrained")


def to_png(figure: Figure) -> bytes:
    """The same figure gives the same bytes."""
    file = io.BytesIO()
    with drawing():
        figure.savefig(file, format="png", dpi=_DPI, metadata={"Software": None})
    return file.getvalue()


def to_svg(figure: Figure, name: str) -> str:
    """An element for a page. `name` is a prefix for its ids, which must differ between figures."""
    file = io.StringIO()
    with drawing():
        figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
    text = file.getvalue()
    svg = text[text.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # A page needs no namespaces, and they look like links.
    svg = re.sub(r'\sxmlns(:xlink)?="[^"]*"', "", svg).replace("xlink:href", "href")
    svg = _REFERENCE.sub(rf"\g<1>{name}-", svg)
    for colour, variable in _IN_PAGES.items():
        svg = re.sub(re.escape(colour), variable, svg, flags=re.IGNORECASE)
    return svg


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeAxis:
    """Time in a unit that makes the longest time readable."""

    unit: str
    seconds: float
    until_s: float  # the right edge of the figure

    def __call__(self, at_s: float) -> float:
        return at_s / self.seconds

    def label(self, axes: Axes, *, text: str = "time since the start") -> None:
        axes.set_xlabel(f"{text} ({self.unit})")

    def frame(self, axes: Axes) -> None:
        axes.set_xlim(0, self(self.until_s))
        self.label(axes)


def time_axis(end_s: float, *others_s: float | None) -> TimeAxis:
    """From 0 to the last of these times, with a margin.

    Times long after the end of the run stay outside: they would compress the run.
    """
    near_s = [other for other in others_s if other is not None and other <= _NEAR * max(end_s, 1e-3)]
    longest = max([end_s, *near_s, 1e-3])
    unit, seconds = "hours", 3600.0
    if longest < 180.0:
        unit, seconds = "seconds", 1.0
    elif longest < 2.5 * 3600.0:
        unit, seconds = "minutes", 60.0
    elif longest > 72 * 3600.0:
        unit, seconds = "days", 86400.0
    return TimeAxis(unit=unit, seconds=seconds, until_s=longest * 1.02)


def mark_deadline(axes: Axes, time: TimeAxis, deadline_s: float | None) -> None:
    """A line, or a label if the deadline lies outside of the figure."""
    if deadline_s is None:
        return
    text = f"deadline {format_duration(deadline_s)}"
    if deadline_s > time.until_s:
        note(axes, f"{text} →", time(time.until_s), colour=LIMIT)
        return
    axes.axvline(time(deadline_s), color=LIMIT, linewidth=1.2, linestyle=(0, (5, 3)), zorder=4)
    note(axes, text, time(deadline_s), colour=LIMIT)


def in_dollars(axis: Axis) -> None:
    """Ticks like `$0`, `$0.50`, `$10`, `$2,500`."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    axis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(lambda value, _: f"${value:,.0f}" if value % 1 == 0 else format_usd(value))


def note(axes: Axes, text: str, x: float, *, colour: str = INK) -> None:
    """Above the frame, to the left of a vertical line."""
    axes.annotate(
        text, (x, 1), xycoords=("data", "axes fraction"), xytext=(2, 3), textcoords="offset points",
        ha="right", va="bottom", fontsize=8.5, color=colour, annotation_clip=False,
    )  # fmt: skip


def halo() -> list[Any]:
    """Makes letters readable on any background."""
    from matplotlib.patheffects import withStroke  # noqa: PLC0415

    return [withStroke(linewidth=2.5, foreground=PAPER)]
