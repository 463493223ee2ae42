"""Figure 9: HyperSched with the measured scaling and start-up, or believing in linear scaling and none."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from benchmarks.plotting import entitle, grid_of_axes, legend_below, plain_ticks
from benchmarks.policies.ablation import Ablation, Case, Columns, gain_table, measure
from benchmarks.policies.drawing import OFF, ON, draw_scores
from benchmarks.policies.simulating import Effort
from benchmarks.policies.synthetic import Scaling, hypersched_job
from benchmarks.reporting import Report, Track, silently

ATOMS = 16
DEADLINE_S = 10
STARTUPS_S = (0.1, 0.5, 1.0)
VARIANTS = {"profiled": True, "not profiled": False}


def cases(startups_s: Sequence[float] = STARTUPS_S) -> list[Case]:
    return [
        Case(
            setting=(startup_s,),
            variant=variant,
            job=hypersched_job(
                atoms=ATOMS,
                deadline_s=DEADLINE_S,
                scaling=Scaling.SQRT,
                startup_s=startup_s,
                profiled=profiled,
            ),
        )
        for startup_s in startups_s
        for variant, profiled in VARIANTS.items()
    ]


def run(track: Track = silently, *, effort: Effort) -> Report:
    ablation = measure(cases(), effort, track)
    columns = Columns(
        name="profiling",
        title="Figure 9: profiling",
        keys=("start-up s",),
        variant="profiled",
        other="not profiled",
        note=f"Square-root scaling, {ATOMS} atoms, deadline {DEADLINE_S} s.",
    )
    return Report(tables=(gain_table(ablation, columns),), figures={"profiling": _draw(ablation)})


def _draw(ablation: Ablation) -> Figure:
    figure, axes = grid_of_axes(1, 2, width=7.5, height=3.0)
    left, right = axes[0]
    for variant, look in (("profiled", ON), ("not profiled", OFF)):
        scores = [ablation.score(each, variant) for each in ablation.settings]
        draw_scores(left, STARTUPS_S, scores, look=look, label=variant)
    gains = [ablation.gain(each, "profiled", "not profiled") for each in ablation.settings]
    draw_scores(right, STARTUPS_S, gains, look=ON)
    right.axhline(0.0, color=OFF.colour, linewidth=1.2)
    for panel, title in ((left, "score of the best model"), (right, "what profiling is worth")):
        plain_ticks(panel, STARTUPS_S)
        panel.set_xlabel("start-up, s")
        entitle(panel, title)
    legend_below(figure, left, columns=2)
    return figure
