"""The tables and figures of `tables`."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from benchmarks.plotting import FAINT, INK, Look, entitle, grid_of_axes, legend_below, plain_ticks
from benchmarks.policies.averages import Average
from benchmarks.policies.contestants import CONTESTANTS
from benchmarks.policies.drawing import draw_scores
from benchmarks.policies.study import Part, Study
from benchmarks.reporting import Cell, Report, Table

# DESIGN section 12: an independent study with 40 seeds, whose deadlines and budgets are not known to us.
STUDY = {
    "hypersched": 15.3,
    "sha": 16.9,
    "asha": 17.3,
    "e-hyperband": 19.4,
    "seer": 19.6,
    "e-grid": 23.0,
    "random": 62.6,
}
LOOKS = {
    "hypersched": Look("HyperSched", "#0072B2", "o"),
    "sha": Look("SHA (RubberBand)", "#56B4E9", "P"),
    "asha": Look("ASHA", "#009E73", "^"),
    "seer": Look("SEER", "#D55E00", "s"),
    "e-hyperband": Look("elastic Hyperband", "#CC79A7", "D"),
    "e-grid": Look("elastic grid search", "#E69F00", "v"),
    "hyperband": Look("Hyperband", "#999999", "X"),
    "random": Look("random search", "#333333", "*"),
}


def report(study: Study) -> Report:
    return Report(
        tables=(_main_table(study), _switches(study), _by_table(study)),
        figures={
            "tables": draw_means({name: study.regret(name) for name in _ranked(study)}),
            "tables-budgets": _draw_budgets(study),
        },
    )


def _ranked(study: Study) -> list[str]:
    names = [each.name for each in CONTESTANTS if each.name in study.names]
    return sorted(names, key=lambda name: study.regret(name).mean)


def _main_table(study: Study) -> Table:
    images = [table for table in study.tables if table.startswith("AlexNet")]
    texts = [table for table in study.tables if table not in images]
    parts = {
        **{f"{slots} slots": Part(slots=slots) for slots in study.slots},
        **{f"{deadline} min": Part(deadline_min=deadline) for deadline in study.deadlines_min},
        "text": Part(tables=texts),
        **({"images": Part(tables=images)} if images else {}),
    }
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            _with_error(study.regret(name)),
            STUDY.get(name),
            *(_short(study.regret(name, part)) for part in parts.values()),
            f"{study.share_used(name):.0%}",
            f"{study.trials_started(name):.0f}",
        )
        for name in _ranked(study)
    ]
    header = ("policy", "regret % ± se", "the study", *parts, "budget used", "trials")
    return Table(
        name="tables",
        title="Regret on recorded curves",
        header=header,
        rows=tuple(rows),
        note=(
            f"{len(study.tables)} tables, 3 scaling laws with {study.seeds} seed(s) each, the same for all. "
            "Standard errors over tables, laws and seeds; in the columns to the right they are larger."
        ),
    )


def _switches(study: Study) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in study.names:
        if name.startswith("seer, "):
            gain = study.gain("seer", name)
            rows.append(
                (
                    name.removeprefix("seer, "),
                    _with_error(study.regret(name)),
                    f"{gain.mean:+.1f} ± {gain.se:.1f}",
                )
            )
    return Table(
        name="tables-seer",
        title="SEER with one thing changed",
        header=("SEER with", "regret % ± se", "SEER as it is regrets less by ± se"),
        rows=tuple(rows),
        note=f"SEER as it is: {_with_error(study.regret('seer'))}. On the same tables, laws and seeds.",
    )


def _by_table(study: Study) -> Table:
    names = _ranked(study)
    rows: list[tuple[Cell, ...]] = [
        (table, *(_short(study.regret(name, Part(tables=[table]))) for name in names))
        for table in study.tables
    ]
    return Table(name="tables-by-table", title="Regret by table", header=("table", *names), rows=tuple(rows))


def _with_error(value: Average) -> str:
    return f"{value.mean:.1f} ± {value.se:.1f}"


def _short(value: Average) -> str:
    return f"{value.mean:.1f}"


def draw_means(regrets: Mapping[str, Average]) -> Figure:
    """A bar per policy, the best on top; a diamond is what the study found."""
    names = sorted(regrets, key=lambda name: -regrets[name].mean)
    figure, axes = grid_of_axes(1, 1, width=7.5, height=3.4)
    panel = axes[0][0]
    for place, name in enumerate(names):
        regret, look = regrets[name], LOOKS[name]
        panel.barh(place, regret.mean, color=look.colour, height=0.66)
        panel.errorbar(regret.mean, place, xerr=regret.se, color=INK, capsize=3, elinewidth=1.0)
        panel.text(0.8, place, f"{regret.mean:.1f}", va="center", fontsize=9, color="white", weight="bold")
    known = [(STUDY[name], place) for place, name in enumerate(names) if name in STUDY]
    panel.scatter(
        *zip(*known, strict=True),
        marker="D",
        s=30,
        facecolor="white",
        edgecolor=INK,
        zorder=3,
        label="the study, with deadlines and budgets of its own",
    )
    panel.set_yticks(range(len(names)), [LOOKS[name].label for name in names])
    panel.grid(axis="y", visible=False)
    panel.grid(axis="x", color=FAINT, linewidth=0.7)
    panel.set_xlabel("regret, % of the range of final values (less is better)")
    panel.legend(loc="upper right", frameon=False, fontsize=9)
    return figure


def _draw_budgets(study: Study) -> Figure:
    figure, axes = grid_of_axes(1, len(study.deadlines_min), height=3.8, width=10.0, share_y="row")
    for panel, deadline in zip(axes[0], study.deadlines_min, strict=True):
        names = [name for name in _ranked(study) if name != "random"]
        for place, name in enumerate(names):
            aside = 2.0 ** (0.07 * (place - len(names) / 2))  # so that no bar hides another
            regrets = [study.regret(name, Part(slots=slots, deadline_min=deadline)) for slots in study.slots]
            draw_scores(panel, [slots * aside for slots in study.slots], regrets, look=LOOKS[name])
        panel.set_xscale("log", base=2)
        plain_ticks(panel, study.slots)
        panel.set_xlabel("budget, slots until the deadline")
        panel.set_ylim(bottom=0)
        entitle(panel, f"deadline {deadline} min")
    axes[0][0].set_ylabel("regret, %")
    legend_below(figure, axes[0][0], columns=4)
    return figure
