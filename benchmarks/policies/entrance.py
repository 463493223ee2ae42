"""Figure 7: until when new trials may enter, by HyperSched's rule or in a fixed share of the time."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from benchmarks.plotting import entitle, grid_of_axes, legend_below
from benchmarks.policies.ablation import Ablation, Case, measure
from benchmarks.policies.drawing import OFF, ON, draw_scores
from benchmarks.policies.simulating import Effort
from benchmarks.policies.synthetic import Scaling, hypersched_job
from benchmarks.reporting import Cell, Report, Table, Track, silently

ATOMS = (4, 16)
DEADLINES_S = (10, 20, 30)
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
RULE = "rule"


def cases(
    atoms: Sequence[int] = ATOMS,
    deadlines_s: Sequence[int] = DEADLINES_S,
    shares: Sequence[float] = SHARES,
) -> list[Case]:
    entrances: dict[str, object] = {RULE: "deadline", **{_name(share): share for share in shares}}
    return [
        Case(
            setting=(count, deadline_s),
            variant=name,
            job=hypersched_job(atoms=count, deadline_s=deadline_s, scaling=Scaling.LINEAR, entrance=entrance),
        )
        for count in atoms
        for deadline_s in deadlines_s
        for name, entrance in entrances.items()
    ]


def run(track: Track = silently, *, effort: Effort) -> Report:
    ablation = measure(cases(), effort, track)
    return Report(tables=(_table(ablation),), figures={"entrance": _draw(ablation)})


def _name(share: float) -> str:
    return f"{share:.1f}"


def _table(ablation: Ablation) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for setting in ablation.settings:
        by_share = {_name(share): ablation.score(setting, _name(share)).mean for share in SHARES}
        best = max(by_share, key=lambda name: by_share[name])
        gap = ablation.gain(setting, RULE, best)
        rows.append(
            (
                *setting,
                f"{ablation.score(setting, RULE).mean:.3f}",
                *(f"{score:.3f}" for score in by_share.values()),
                best,
                f"{gap.mean:+.3f} ± {gap.se:.3f}",
            )
        )
    return Table(
        name="entrance",
        title="Figure 7: entrance policy",
        header=("atoms", "deadline s", RULE, *map(_name, SHARES), "best share", "rule − best ± se"),
        rows=tuple(rows),
        note=f"Score of the best model, means of {ablation.seeds} seeds; linear scaling.",
    )


def _draw(ablation: Ablation) -> Figure:
    figure, axes = grid_of_axes(1, len(ablation.settings), height=3.0, width=11.0, share_y="row")
    for panel, setting in zip(axes[0], ablation.settings, strict=True):
        scores = [ablation.score(setting, _name(share)) for share in SHARES]
        draw_scores(panel, SHARES, scores, look=OFF, label="new trials enter in a fixed share of the time")
        rule = ablation.score(setting, RULE)
        panel.axhline(rule.mean, color=ON.colour, linewidth=1.8, label="HyperSched's rule")
        panel.axhspan(rule.mean - rule.se, rule.mean + rule.se, color=ON.colour, alpha=0.15, linewidth=0)
        panel.set_xticks([0.1, 0.4, 0.7, 1.0])
        panel.set_xlabel("share of the time")
        entitle(panel, f"{setting[0]} atoms, {setting[1]} s")
    axes[0][0].set_ylabel("score of the best model")
    legend_below(figure, axes[0][0], columns=2)
    return figure
