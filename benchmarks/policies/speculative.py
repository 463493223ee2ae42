"""Figure 5: the first to reach a rung go on (speculative evaluation), or wait for others."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from benchmarks.plotting import entitle, grid_of_axes, legend_below, plain_ticks
from benchmarks.policies.ablation import Ablation, Case, Columns, gain_table, measure
from benchmarks.policies.drawing import OFF, ON, draw_scores
from benchmarks.policies.simulating import Effort
from benchmarks.policies.synthetic import Scaling, hypersched_job
from benchmarks.reporting import Report, Track, silently

ATOMS = (4, 8, 16, 32)
DEADLINES_S = (15, 30, 60, 120)
VARIANTS = {"speculative": True, "waiting": False}
LABELS = {
    "speculative": "speculative: the first at a rung go on",
    "waiting": "waiting at a rung, as in ASHA",
}


def cases(atoms: Sequence[int] = ATOMS, deadlines_s: Sequence[int] = DEADLINES_S) -> list[Case]:
    return [
        Case(
            setting=(count, deadline_s),
            variant=variant,
            job=hypersched_job(
                atoms=count, deadline_s=deadline_s, scaling=Scaling.LINEAR, speculative=speculative
            ),
        )
        for count in atoms
        for deadline_s in deadlines_s
        for variant, speculative in VARIANTS.items()
    ]


def run(track: Track = silently, *, effort: Effort) -> Report:
    ablation = measure(cases(), effort, track)
    columns = Columns(
        name="speculative",
        title="Figure 5: speculative evaluation",
        keys=("atoms", "deadline s"),
        variant="speculative",
        other="waiting",
        note="Linear scaling, 0.1 s per step, R = 500.",
    )
    return Report(tables=(gain_table(ablation, columns),), figures={"speculative": _draw(ablation)})


def _draw(ablation: Ablation) -> Figure:
    figure, axes = grid_of_axes(1, len(ATOMS), height=3.0, share_y="row")
    for panel, atoms in zip(axes[0], ATOMS, strict=True):
        settings = [setting for setting in ablation.settings if setting[0] == atoms]
        for variant, look in (("speculative", ON), ("waiting", OFF)):
            scores = [ablation.score(each, variant) for each in settings]
            draw_scores(panel, DEADLINES_S, scores, look=look, label=LABELS[variant])
        panel.set_xscale("log", base=2)
        plain_ticks(panel, DEADLINES_S)
        panel.set_xlabel("deadline, s")
        entitle(panel, f"{atoms} atoms")
    axes[0][0].set_ylabel("score of the best model")
    legend_below(figure, axes[0][0], columns=2)
    return figure
