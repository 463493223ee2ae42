"""The results of a run as tables, and exported for other tools."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastune.api.simulating import RUNS_FOLDER
from elastune.errors import ElastuneError, JobError
from elastune.exports.files import WRITERS, to_frame, write_tables
from elastune.history.result import BestTrial, RunResult
from elastune.history.trial_tables import Columns, row_columns, trial_columns
from elastune.history.trials import in_order, without_lost
from elastune.journal.run_folders import FoundRun, find_run
from elastune.runs.results import Results, find_best, find_model, read_results, read_rows
from elastune.runs.trial_logs import TrialLog, find_log
from elastune.views.html.markup import tag
from elastune.wording import did_you_mean, either

if TYPE_CHECKING:
    import pandas as pd


FORMATS = (*WRITERS, "tensorboard", "mlflow", "wandb")
WHATS = ("trials", "rows", "both")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRun:
    """A run and its results. Every call reads the journal again."""

    found: FoundRun

    def __str__(self) -> str:
        return f"run {self.run} in {self.path}"

    def _repr_html_(self) -> str:
        return _html_of(self.found) or tag("p", str(self))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """At a terminal with IPython."""
        printer.text(str(self))

    @property
    def run(self) -> str:
        return self.found.record.run

    @property
    def path(self) -> Path:
        """The folder of the run."""
        return self.found.folder.path

    @property
    def best(self) -> BestTrial | None:
        """The best model so far, with its configuration, metric, iterations and checkpoint, as in the result
        of `tune`: the best value of the metric that has a checkpoint. None: there is no checkpoint yet."""
        return find_best(self.found)

    def model(self, trial: int | str = "best") -> BestTrial:
        """The best model, or the newest kept checkpoint of a trial, to `load` or to `export` it."""
        text = str(trial)
        if text.isdigit():
            return find_model(self.found, int(text))
        if text != "best":
            raise JobError(f"trial is {trial!r}; expected the number of a trial, or best")
        best = self.best
        if best is None:
            raise JobError(f"run {self.run} has no checkpoint yet, and so no best model")
        return best

    def trials(self) -> pd.DataFrame:
        """A row for each trial: state, results, time and cost, and its hyperparameters as `config/<name>`.
        `attrs` has `run`, `metric` and `mode`."""
        results = read_results(self.found)
        frame = to_frame(trial_columns(results.trials))
        head = results.head
        frame.attrs |= {"run": head.run, "metric": head.metric, "mode": head.mode.value}
        return frame

    def rows(self, *, lost: bool = False) -> pd.DataFrame:
        """A row for each iteration of each trial, with all metrics, in the order of time.

        Iterations that were lost with a node and repeated appear once; `lost` includes the lost ones.
        """
        rows = list(read_rows(self.found))
        return to_frame(row_columns(in_order(rows) if lost else without_lost(rows)))

    def export(
        self,
        format: str,  # noqa: A002  the word that the command has
        to: str | Path | None = None,
        *,
        what: str = "both",
        force: bool = False,
        experiment: str | None = None,
        checkpoint: bool = False,
    ) -> tuple[str, ...]:
        """Write the run for another tool; returns where.

        `format` is `csv`, `json` or `parquet` (files `trials` and `rows` in the folder `to`; existing ones
        are replaced only with `force`), `tensorboard` (event files under the folder `to`, which replace those
        of the same run), `mlflow` (`to` is the tracking URI; an earlier export is continued), or `wandb`
        (its files go to `wandb` in the folder `to`). `experiment` is the experiment of MLflow or the project
        of W&B; `checkpoint` stores the best model in MLflow.
        """
        _check(format, what, to)
        results = read_results(self.found)
        if format == "tensorboard":
            return (_to_tensorboard(results, self._home(to, "tensorboard")),)
        if format == "mlflow":
            return (_to_mlflow(results, to, experiment, with_checkpoint=checkpoint),)
        if format == "wandb":
            return (_to_wandb(results, self.path if to is None else Path(to), experiment),)
        folder = self._home(None, "export") if to is None else Path(to)
        return tuple(map(str, write_tables(format, folder, _tables(results, what), force=force)))

    def _home(self, to: str | Path | None, name: str) -> Path:
        """In the run's folder, or below `to`: one folder per run, so that runs do not mix."""
        if to is not None:
            return Path(to) / f"{self.found.record.name}-{self.run}"
        home = self.path / name
        return home / self.run if "." in self.run else home


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedRun(RunResult):
    """The result of a real run. A notebook shows it with figures, as long as the run's folder is there."""

    found: FoundRun = field(repr=False, compare=False)

    def _repr_html_(self) -> str:
        return _html_of(self.found) or tag("p", str(self))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """At a terminal with IPython."""
        printer.text(str(self))


def tuned_run(result: RunResult, found: FoundRun) -> TunedRun:
    return TunedRun(**{each.name: getattr(result, each.name) for each in fields(result)}, found=found)


def _html_of(found: FoundRun) -> str | None:
    """None: the run cannot be read; an exception would hide the result itself."""
    from elastune.api.reporting import summary_html  # noqa: PLC0415

    try:
        return summary_html(found)
    except (ElastuneError, OSError):
        return None


def load_run(run: str | Path, *, folder: str | Path = RUNS_FOLDER) -> LoadedRun:
    """A run as tables. `run` is a path, the start of an id, or `last`; `folder` is where runs are kept.

    >>> result = elastune.tune("job.yaml")
    >>> elastune.load_run(result.run).trials().sort_values("best")
    """
    return LoadedRun(found=find_run(Path(folder), str(run)))


def logs(
    run: str | Path, trial: int | str = "last", *, rank: int = 0, folder: str | Path = RUNS_FOLDER
) -> TrialLog:
    """What a trial of a real run has printed. `trial` is a number, `best`, or `last`: the one that printed
    last; `rank` is the worker of a gang.

    >>> print(elastune.logs("last", "best"))
    >>> for line in elastune.logs("last", 3).follow():  # until the trial or the run has ended
    ...     print(line, end="")
    """
    return find_log(find_run(Path(folder), str(run)), trial, rank)


def _check(format_: str, what: str, to: str | Path | None) -> None:
    if format_ not in FORMATS:
        raise JobError(f"format is {format_!r}; expected {either(FORMATS)}{did_you_mean(format_, FORMATS)}")
    if what not in WHATS:
        raise JobError(f"what is {what!r}; expected {either(WHATS)}{did_you_mean(what, WHATS)}")
    if what != "both" and format_ not in WRITERS:
        raise JobError(f"what is {what}, but {format_} always gets trials and rows; omit it")
    if to is not None and format_ in WRITERS and Path(to).is_file():
        raise JobError(f"{to} is a file; expected a folder, for trials.{format_} and rows.{format_}")


def _tables(results: Results, what: str) -> dict[str, Columns]:
    tables = {"trials": trial_columns(results.trials), "rows": row_columns(results.rows)}
    return tables if what == "both" else {what: tables[what]}


def _to_tensorboard(results: Results, folder: Path) -> str:
    from elastune.exports.tensorboard_writer import TensorBoardWriter  # noqa: PLC0415

    try:
        writer = TensorBoardWriter(folder, results.head)
        writer.update(results.as_news())
    except OSError as error:
        raise JobError(f"{folder} cannot be written: {error.strerror}; choose another with --to") from error
    return writer.where


def _to_wandb(results: Results, folder: Path, project: str | None) -> str:
    from elastune.exports.wandb_writer import open_wandb  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    writer = open_wandb(results.head, folder, project=project)
    writer.update(results.as_news())
    writer.close()
    return writer.where


def _to_mlflow(
    results: Results, uri: str | Path | None, experiment: str | None, *, with_checkpoint: bool
) -> str:
    from elastune.exports.mlflow_writer import MlflowWriter, explained  # noqa: PLC0415

    best = results.best
    if with_checkpoint and (best is None or best.checkpoint is None):
        raise JobError("there is no checkpoint to store: the run was simulated or saved none; omit it")
    with explained():
        writer = MlflowWriter(results.head, uri=None if uri is None else str(uri), experiment=experiment)
        writer.update(results.as_news())
        if with_checkpoint and best is not None and best.checkpoint is not None:
            writer.attach(best.trial, best.checkpoint)
    return writer.where
