"""`elastune.report`: writes the page and the figures of a run, or of a comparison."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from elastune.api.simulating import RUNS_FOLDER
from elastune.errors import JobError
from elastune.journal.run_folders import FoundRun, find_runs
from elastune.runs.comparison import Mean, RunComparison, compare
from elastune.runs.reading import RunReport, remember
from elastune.views.figures.cluster import draw_cost, draw_nodes
from elastune.views.figures.comparison import draw_best_over_time, draw_outcomes
from elastune.views.figures.curves import draw_curves
from elastune.views.figures.figure_style import check_matplotlib, to_png, to_svg
from elastune.views.figures.forecasts import draw_forecasts
from elastune.views.figures.gantt import draw_gantt, draw_round
from elastune.views.html.comparison import comparison_page
from elastune.views.html.markup import Markup, picture
from elastune.views.html.run import run_page, run_summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Tell = Callable[[str], None]
_RUN_CAPTIONS = {
    "nodes": "Nodes held, booting ones hatched; dashed, where there is one, the plan at the beginning.",
    "gantt": "Every row is a slot. A number is a trial; a gang on several slots is as high as they are.",
    "curves": "Grey: all trials, a point where each ended. The steps are the best model with a checkpoint.",
    "forecasts": "What the leader was expected to reach, ± one standard deviation, and what it reached.",
    "cost": "Left: money spent, minimum charges included. Right: the same by what slots were doing.",
}
_HOPPING_CAPTIONS = {
    "gantt": "Every row is a worker, every bar the visit of a trial to a partition; paler ones evaluate. "
    "A bar over all workers is one model that they train together.",
    "round": "The same, one round alone. A number is a trial.",
}
_COMPARISON_CAPTIONS = {
    "comparison": "From when every run has a model; a run that has ended keeps its last model.",
    "outcomes": "A point is a run. Under the name of a policy: its mean time and cost.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was written, and the numbers that matter."""

    page: Path
    pictures: Mapping[str, Path]
    figures: Mapping[str, object]

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.page, *self.pictures.values())

    def to_dict(self) -> dict[str, object]:
        return {
            "page": str(self.page),
            "pictures": {name: str(path) for name, path in self.pictures.items()},
            **self.figures,
        }


def report(
    *runs: str | Path,
    folder: str | Path | None = None,
    runs_folder: str | Path = RUNS_FOLDER,
    tell: Tell = lambda _: None,
) -> Report:
    """Draw a run, or compare several: a self-contained page, and pictures beside it.

    A run is a path, the start of an id, or `last`; a folder that holds several runs means all of them. The
    files go to `folder`, or else into the run's own `report`. `tell` is called with progress messages.
    """
    check_matplotlib("a report")
    found = _find(Path(runs_folder), [str(run) for run in runs])
    into = Path(folder) if folder is not None else _home(Path(runs_folder), found)
    if len(found) == 1:
        return _report_run(found[0], into, tell)
    return _report_comparison(found, into, tell)


def _find(root: Path, names: Sequence[str]) -> list[FoundRun]:
    """Each run once, in the order in which they were named."""
    if not names:
        raise JobError("no run was given; expected the path of a run, the start of an id, or last")
    found = [each for name in names for each in find_runs(root, name)]
    return list({(each.journal.resolve(), each.record.run): each for each in found}.values())


def _home(root: Path, found: Sequence[FoundRun]) -> Path:
    """A single run of a campaign gets a folder of its own: `report` is for the comparison."""
    folders = list(dict.fromkeys(each.folder.path for each in found))
    report_folder = found[0].folder.report
    if len(folders) == 1:
        run = found[0].record.run
        return report_folder / run if len(found) == 1 and "." in run else report_folder
    ids = list(dict.fromkeys(each.folder.run or each.folder.path.name for each in found))
    more = [f"{len(ids) - 3}-more"] if len(ids) > 3 else []
    return root / "-".join(["report", *ids[:3], *more])


_SUMMARY_FIGURES: Mapping[str, Callable[[RunReport], Figure | None]]
_SUMMARY_FIGURES = {"curves": draw_curves, "gantt": draw_gantt}


def summary_html(found: FoundRun) -> str:
    """A run for a notebook: its key figures, its best configuration, two figures and its trials. Without
    matplotlib there are no figures."""
    run_report = remember(found)
    captions = _captions(run_report)
    shown: dict[str, Markup] = {}
    if importlib.util.find_spec("matplotlib") is not None:
        drawn = ((name, draw(run_report)) for name, draw in _SUMMARY_FIGURES.items())
        shown = {
            name: picture(name, None, to_png(figure), captions[name])
            for name, figure in drawn
            if figure is not None
        }
    return run_summary(run_report, shown)


def _captions(run_report: RunReport) -> Mapping[str, str]:
    return _RUN_CAPTIONS | (_HOPPING_CAPTIONS if run_report.status.standing.hopping is not None else {})


def _report_run(found: FoundRun, into: Path, tell: Tell) -> Report:
    tell("reading the journal")
    run_report = remember(found)
    drawers: dict[str, Callable[[RunReport], Figure | None]]
    drawers = {"nodes": draw_nodes, "gantt": draw_gantt, "round": draw_round}
    drawers |= {"curves": draw_curves, "forecasts": draw_forecasts, "cost": draw_cost}
    captions = _captions(run_report)
    shown: dict[str, Markup] = {}
    pictures: dict[str, Path] = {}
    for name, draw in drawers.items():
        tell(f"drawing {name}")
        figure = draw(run_report)
        if figure is not None:
            shown[name], pictures[name] = _publish(figure, name, captions[name], into)
    page = _write(into / "index.html", run_page(run_report, shown).encode())
    return Report(page=page, pictures=pictures, figures=_run_figures(run_report))


def _report_comparison(found: Sequence[FoundRun], into: Path, tell: Tell) -> Report:
    comparison = compare(found, tell)
    drawers = {"comparison": draw_best_over_time, "outcomes": draw_outcomes}
    shown: dict[str, Markup] = {}
    pictures: dict[str, Path] = {}
    for name, draw in drawers.items():
        tell(f"drawing {name}")
        shown[name], pictures[name] = _publish(draw(comparison), name, _COMPARISON_CAPTIONS[name], into)
    page = _write(into / "index.html", comparison_page(comparison, shown).encode())
    return Report(page=page, pictures=pictures, figures=_compared_figures(comparison))


def _publish(figure: Figure, name: str, caption: str, into: Path) -> tuple[Markup, Path]:
    """A figure for the page, and as a file."""
    png = to_png(figure)
    return picture(name, to_svg(figure, name), png, caption), _write(into / f"{name}.png", png)


def _write(path: Path, data: bytes) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror}; choose another folder with --out"
        raise JobError(message) from error
    return path


def _run_figures(run_report: RunReport) -> dict[str, object]:
    """Named as in `status --json`."""
    record, standing, history = run_report.found.record, run_report.status.standing, run_report.history
    return {
        "run": record.run,
        "name": record.name,
        "policy": standing.policy,
        "planner": standing.planner,
        "seed": record.seed,
        "state": run_report.status.state.value,
        "metric": standing.metric,
        "predicted": None if standing.predicted is None else asdict(standing.predicted),
        "actual": asdict(standing.actual),
        "deadline_seconds": standing.limits.deadline_s,
        "budget": standing.limits.budget_usd,
        "keeps_deadline": standing.keeps_deadline,
        "keeps_budget": standing.keeps_budget,
        "best": None if standing.best is None else standing.best.to_dict(),
        "trials": standing.trials,
        "nodes": len(history.nodes),
        "nodes_lost": sum(life.lost for life in history.nodes),
        "crashes": history.crashes,
        **({} if standing.hopping is None else {"hopping": standing.hopping.to_dict()}),
    }


def _compared_figures(comparison: RunComparison) -> dict[str, object]:
    return {
        "name": comparison.title,
        "metric": comparison.metric,
        "mode": comparison.mode.value,
        "policies": [
            {
                "label": party.label,
                "policy": party.policy,
                "runs": [run.record.run for run in party.runs],
                "best": _mean(party.best),
                "jct_seconds": _mean(party.seconds),
                "cost": _mean(party.usd),
                "kept_deadline": _share(party.kept_deadline, len(party.runs)),
                "kept_budget": _share(party.kept_budget, len(party.runs)),
                "endings": party.endings,
            }
            for party in comparison.parties
        ],
    }


def _mean(mean: Mean | None) -> dict[str, float | None] | None:
    return None if mean is None else {"mean": mean.value, "standard_error": mean.error}


def _share(kept: int | None, runs: int) -> float | None:
    return None if kept is None else kept / runs
