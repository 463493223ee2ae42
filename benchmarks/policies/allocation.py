"""Figure 8: slots that nobody enters for go to the trials in training, or stay idle."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from benchmarks.plotting import entitle, grid_of_axes, legend_below, plain_ticks
from benchmarks.policies.ablation import Ablation, Case, Columns, gain_table, measure
from benchmarks.policies.drawing import OFF, ON, draw_scores
from benchmarks.policies.simulating import Effort
from benchmarks.policies.synthetic import Scaling, hypersched_job
from benchmarks.reporting import Report, Track, silently

ATOMS = (2, 4, 8, 16)
DEADLINE_S = 10
VARIANTS = {"reallocated": True, "one atom each": False}


def cases(atoms: Sequence[int] = ATOMS) -> list[Case]:
    return [
        Case(
            setting=(scaling.value, count),
            variant=variant,
            job=hypersched_job(atoms=count, deadline_s=DEADLINE_S, scaling=scaling, reallocate=reallocate),
        )
        for scaling in Scaling
        for count in atoms
        for variant, reallocate in VARIANTS.items()
    ]


def run(track: Track = silently, *, effort: Effort) -> Report:
    ablation = measure(cases(), effort, track)
    columns = Columns(
        name="allocation",
        title="Figure 8: dynamic resource allocation",
        keys=("scaling", "atoms"),
        variant="reallocated",
        other="one atom each",
        note=f"Deadline {DEADLINE_S} s.",
    )
    return Report(tables=(gain_table(ablation, columns),), figures={"allocation": _draw(ablation)})


def _draw(ablation: Ablation) -> Figure:
    figure, axes = grid_of_axes(1, len(Scaling), height=3.0, share_y="row")
    for panel, scaling in zip(axes[0], Scaling, strict=True):
        settings = [setting for setting in ablation.settings if setting[0] == scaling.value]
        for variant, look in (("one atom each", OFF), ("reallocated", ON)):
            scores = [ablation.score(each, variant) for each in settings]
            draw_scores(panel, ATOMS, scores, look=look, label=variant)
        panel.set_xscale("log", base=2)
        plain_ticks(panel, ATOMS)
        panel.set_xlabel("atoms")
        entitle(panel, f"scaling: {scaling.value}")
    axes[0][0].set_ylabel("score of the best model")
    legend_below(figure, axes[0][0], columns=2)
    return figure
