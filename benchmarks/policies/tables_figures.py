"""The figures of the comparison on recorded curves."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.plotting import FAINT, INK, Look, entitle, grid_of_axes, legend_below, plain_ticks
from benchmarks.policies.contestants import CONTESTANTS, Group
from benchmarks.policies.evidence import Estimate, Evidence
from benchmarks.policies.settings import Terms

COLOURS = {
    Group.OURS: "#D55E00",
    Group.PAPERS: "#0072B2",
    Group.BASELINE: "#009E73",
    Group.OUTSIDE: "#CC79A7",
    Group.VARIANT: "#999999",
}
_GROUPS = {each.name: each.group for each in CONTESTANTS}
_LINES = (
    ("#D55E00", "s"), ("#0072B2", "o"), ("#009E73", "^"), ("#CC79A7", "D"), ("#56B4E9", "P"),
    ("#E69F00", "v"), ("#999999", "X"), ("#333333", "*"),
)  # fmt: skip


def draw_means(evidence: Evidence, names: Sequence[str], leader: str, tables: Sequence[str]) -> Figure:
    """Left: the mean regret of each, the best on top. Right: by how much the leader regrets less."""
    figure, axes = grid_of_axes(1, 2, width=10.0, height=1.2 + 0.3 * len(names))
    left, right = axes[0]
    for place, name in enumerate(reversed(names)):
        colour = COLOURS[_GROUPS.get(name, Group.VARIANT)]
        _draw_estimate(left, place, evidence.regret(name, tables), colour)
        if name != leader:
            _draw_estimate(right, place, evidence.lead(leader, name, tables).by, colour)
    for panel in (left, right):
        panel.grid(axis="y", visible=False)
        panel.grid(axis="x", color=FAINT, linewidth=0.7)
        panel.set_ylim(-0.6, len(names) - 0.4)
    left.set_yticks(range(len(names)), list(reversed(names)))
    left.set_xlim(left=0)
    left.set_xlabel("mean regret, % of the range of final values (less is better)")
    right.set_yticks([])
    right.axvline(0.0, color=INK, linewidth=0.9)
    right.set_xlabel(f"points by which {leader} regrets less")
    entitle(left, f"mean of {len(tables)} tables, with 95 % interval over tables")
    entitle(right, f"lead of {leader}, with 95 % interval over tables")
    groups = dict.fromkeys(_GROUPS.get(name, Group.VARIANT) for name in names)
    for group in groups:
        left.plot([], [], "o", color=COLOURS[group], label=group.value)
    legend_below(figure, left, columns=len(groups))
    return figure


def _draw_estimate(panel: Axes, place: int, estimate: Estimate, colour: str) -> None:
    panel.plot([estimate.low, estimate.high], [place, place], color=colour, linewidth=1.6)
    panel.plot([estimate.mean], [place], "o", color=colour, markersize=6)
    panel.annotate(
        f"{estimate.mean:.1f}",
        (estimate.mean, place),
        textcoords="offset points",
        xytext=(0, 5),
        ha="center",
        fontsize=7.5,
        color=INK,
    )


def draw_cells(evidence: Evidence, names: Sequence[str], tables: Sequence[str]) -> Figure:
    """Regret against the budget, a panel per deadline; the eight best only."""
    law = evidence.main_law
    cells = [Terms.parse(cell) for cell in evidence.cells_of(law)]
    # Without boots, unless all have them.
    cells = [cell for cell in cells if not cell.boots] or cells
    deadlines = sorted({cell.trainings for cell in cells})
    figure, axes = grid_of_axes(1, len(deadlines), width=10.0, height=4.0, share_y="row")
    for panel, trainings in zip(axes[0], deadlines, strict=True):
        of_deadline = sorted(cell for cell in cells if cell.trainings == trainings)
        slots = [cell.slots for cell in of_deadline]
        for place, (name, (colour, marker)) in enumerate(zip(names, _LINES, strict=False)):
            middle = (min(len(names), len(_LINES)) - 1) / 2
            aside = 2.0 ** (0.06 * (place - middle))  # so that no bar hides another
            look = Look(name, colour, marker)
            estimates = [evidence.regret(name, tables, cell=str(cell), law=law) for cell in of_deadline]
            panel.errorbar(
                [aside * each for each in slots],
                [each.mean for each in estimates],
                yerr=[each.se for each in estimates],
                color=look.colour,
                marker=look.marker,
                markersize=4.5,
                linewidth=1.4,
                elinewidth=1.0,
                capsize=2.5,
                label=look.label,
            )
        panel.set_xscale("log", base=2)
        plain_ticks(panel, slots)
        panel.set_xlabel("budget, slots until the deadline")
        panel.set_ylim(bottom=0)
        entitle(panel, f"deadline: {trainings:g} complete trainings")
    axes[0][0].set_ylabel("regret, % (bars: se of seeds)")
    legend_below(figure, axes[0][0], columns=4)
    return figure
