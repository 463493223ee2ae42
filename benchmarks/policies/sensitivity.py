"""Figure 10: what start-up costs HyperSched, by how well training scales."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from benchmarks.plotting import Look, entitle, grid_of_axes, legend_below, plain_ticks
from benchmarks.policies.ablation import Ablation, Case, measure
from benchmarks.policies.drawing import draw_scores
from benchmarks.policies.simulating import Effort
from benchmarks.policies.synthetic import Scaling, hypersched_job
from benchmarks.reporting import Cell, Report, Table, Track, silently

ATOMS = 4
DEADLINE_S = 20
STARTUPS_S = (0.1, 0.5, 1.0, 2.0)
_LOOKS = {
    Scaling.LINEAR: Look("linear scaling", "#0072B2", "o"),
    Scaling.SQRT: Look("square-root scaling", "#009E73", "D"),
    Scaling.NONE: Look("no scaling", "#D55E00", "s"),
}


def cases(startups_s: Sequence[float] = STARTUPS_S) -> list[Case]:
    return [
        Case(
            setting=(startup_s,),
            variant=scaling.value,
            job=hypersched_job(atoms=ATOMS, deadline_s=DEADLINE_S, scaling=scaling, startup_s=startup_s),
        )
        for startup_s in startups_s
        for scaling in Scaling
    ]


def run(track: Track = silently, *, effort: Effort) -> Report:
    ablation = measure(cases(), effort, track)
    return Report(tables=(_table(ablation),), figures={"sensitivity": _draw(ablation)})


def _table(ablation: Ablation) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for setting in ablation.settings:
        for scaling in Scaling:
            gain = ablation.gain(setting, scaling.value, Scaling.NONE.value)
            rows.append(
                (
                    *setting,
                    scaling.value,
                    str(ablation.score(setting, scaling.value)),
                    None if scaling is Scaling.NONE else f"{gain.mean:+.3f} ± {gain.se:.3f}",
                    f"{ablation.steps(setting, scaling.value).mean:.0f}",
                    f"{ablation.trials(setting, scaling.value).mean:.0f}",
                )
            )
    return Table(
        name="sensitivity",
        title="Figure 10: start-up and scaling",
        header=(
            "start-up s",
            "scaling",
            "score ± se",
            "above no scaling ± se",
            "steps of the best",
            "trials",
        ),
        rows=tuple(rows),
        note=f"Means of {ablation.seeds} seeds; {ATOMS} atoms, deadline {DEADLINE_S} s.",
    )


def _draw(ablation: Ablation) -> Figure:
    figure, axes = grid_of_axes(1, 2, width=7.5, height=3.0)
    for scaling, look in _LOOKS.items():
        scores = [ablation.score(each, scaling.value) for each in ablation.settings]
        steps = [ablation.steps(each, scaling.value) for each in ablation.settings]
        draw_scores(axes[0][0], STARTUPS_S, scores, look=look)
        draw_scores(axes[0][1], STARTUPS_S, steps, look=look)
    for panel, title in zip(axes[0], ("score of the best model", "steps of the best model"), strict=True):
        plain_ticks(panel, STARTUPS_S)
        panel.set_xlabel("start-up, s")
        entitle(panel, title)
    legend_below(figure, axes[0][0], columns=3)
    return figure
