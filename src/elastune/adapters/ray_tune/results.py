"""The results of a run under Ray Tune's names: `ResultGrid` of `Tuner.fit`, and `Analysis` of `run`."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from elastune.adapters.ray_tune.session import rays, write_folder
from elastune.adapters.ray_tune.spaces import ConfigLayout
from elastune.api.results import load_run
from elastune.checkpoints.store import load_checkpoint
from elastune.errors import JobError
from elastune.history.result import RunResult
from elastune.history.trials import RowEntry, TrialEntry
from elastune.runs.results import read_results
from elastune.training.unsaved import is_no_model
from elastune.wording import either

if TYPE_CHECKING:
    import pandas as pd

SCOPES = {"last": 1, "last-5-avg": 5, "last-10-avg": 10, "avg": None}
"""How many of the last results count."""


@dataclass(kw_only=True)
class TrialResult:
    """As `ray.tune.Result`."""

    config: dict[str, Any]
    metrics: dict[str, Any]
    path: str
    error: Exception | None
    rows: tuple[RowEntry, ...]
    pickles: bool
    saved: str | None
    """The file of its newest checkpoint."""

    @cached_property
    def checkpoint(self) -> Any:
        """A `ray.tune.Checkpoint`, unpacked into the folder of the run; None: none was kept or reported."""
        if self.saved is None:
            return None
        state = load_checkpoint(self.saved, pickles=self.pickles)
        if is_no_model(state) or state["files"] is None:
            return None
        saved = PurePosixPath(self.saved)  # or an address
        folder = Path(self.path, "ray-checkpoints", saved.parent.name, saved.stem)
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
                write_folder(state["files"], Path(unfinished, folder.name))
                Path(unfinished, folder.name).rename(folder)
        return rays("Checkpoint").from_directory(str(folder))

    @property
    def best_checkpoints(self) -> list[tuple[Any, dict[str, Any]]]:
        return [] if self.checkpoint is None else [(self.checkpoint, self.metrics)]

    @property
    def metrics_dataframe(self) -> pd.DataFrame:
        """One line per report."""
        import pandas as pd  # noqa: PLC0415  slow

        return pd.DataFrame([{"training_iteration": row.iteration, **row.metrics} for row in self.rows])

    def score(self, metric: str, mode: str, scope: str) -> float:
        """NaN: the trial has no such result."""
        values = [row.metrics[metric] for row in self.rows if metric in row.metrics]
        if not values:
            return math.nan
        if scope == "all":
            return max(values) if mode == "max" else min(values)
        last = values[-(SCOPES[scope] or len(values)) :]
        return sum(last) / len(last)


class ResultGrid(Sequence[TrialResult]):
    """As `ray.tune.ResultGrid`, in the order of the trials. `run` is the result of `elastune.tune`."""

    def __init__(self, results: Sequence[TrialResult], run: RunResult, path: str, mode: str) -> None:
        self._results = tuple(results)
        self.run = run
        self.experiment_path = path
        self._mode = mode

    def __len__(self) -> int:
        return len(self._results)

    def __getitem__(self, index: Any) -> Any:
        return self._results[index]

    def __iter__(self) -> Iterator[TrialResult]:
        return iter(self._results)

    def __repr__(self) -> str:
        return f"<{len(self)} results of {self.run}>"

    @property
    def errors(self) -> list[Exception]:
        return [each.error for each in self if each.error is not None]

    @property
    def num_errors(self) -> int:
        return len(self.errors)

    @property
    def num_terminated(self) -> int:
        return len(self) - self.num_errors

    def get_best_result(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,
    ) -> TrialResult:
        """As in Ray Tune: by the last result of each trial, unless `scope` says otherwise."""
        if scope not in (*SCOPES, "all"):
            raise JobError(f"scope is {scope!r}; expected {either((*SCOPES, 'all'))}")
        metric, mode = metric or self.run.metric, mode or self._mode
        scores = [(each.score(metric, mode, scope), each) for each in self]
        if filter_nan_and_inf:
            scores = [(score, each) for score, each in scores if math.isfinite(score)]
        if not scores:
            raise JobError(f"no trial has a result {metric!r}; see `errors` and the logs of the run")
        best = (max if mode == "max" else min)(score for score, _ in scores)
        return next(each for score, each in scores if score == best)

    def get_dataframe(self, filter_metric: str | None = None, filter_mode: str | None = None) -> pd.DataFrame:
        """One line per trial: its last result, or its best one by `filter_metric`."""
        import pandas as pd  # noqa: PLC0415  slow

        lines = []
        for each in self:
            line = {name: value for name, value in each.metrics.items() if name != "config"}
            if filter_metric is not None:
                rows = [row for row in each.rows if filter_metric in row.metrics]
                sign = -1 if (filter_mode or self._mode) == "max" else 1
                if rows:
                    best = min(rows, key=lambda row: sign * row.metrics[filter_metric])
                    line |= {**best.metrics, "training_iteration": best.iteration}
            lines.append({**line, **_columns(each.config)})
        return pd.DataFrame(lines)


def _columns(config: Mapping[str, Any], prefix: str = "config/") -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            columns |= _columns(value, f"{prefix}{name}/")
        else:
            columns[f"{prefix}{name}"] = value
    return columns


class Analysis:
    """As `ray.tune.ExperimentAnalysis`, which `tune.run` returns."""

    def __init__(self, grid: ResultGrid) -> None:
        self.results_grid = grid
        self.trials = list(grid)

    @property
    def best_trial(self) -> TrialResult:
        return self.results_grid.get_best_result()

    @property
    def best_config(self) -> dict[str, Any]:
        return self.best_trial.config

    @property
    def best_result(self) -> dict[str, Any]:
        return self.best_trial.metrics

    @property
    def best_checkpoint(self) -> Any:
        return self.best_trial.checkpoint

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        return {each.metrics["trial_id"]: each.metrics for each in self.trials}

    @property
    def results_df(self) -> pd.DataFrame:
        return self.dataframe().set_index("trial_id")

    def dataframe(self, metric: str | None = None, mode: str | None = None) -> pd.DataFrame:
        return self.results_grid.get_dataframe(metric, mode)

    def get_best_trial(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last"
    ) -> TrialResult:
        return self.results_grid.get_best_result(metric, mode, scope)

    def get_best_config(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last"
    ) -> dict[str, Any]:
        return self.get_best_trial(metric, mode, scope).config

    def get_best_checkpoint(
        self, trial: TrialResult, metric: str | None = None, mode: str | None = None
    ) -> Any:
        return trial.checkpoint


def read_grid(result: RunResult, *, folder: str | Path, layout: ConfigLayout, pickles: bool) -> ResultGrid:
    """Of a run that has ended."""
    loaded = load_run(str(result.run), folder=folder)
    read = read_results(loaded.found)
    rows: dict[int, list[RowEntry]] = {}
    for row in read.rows:
        rows.setdefault(row.trial, []).append(row)
    results = [
        _result(entry, rows.get(entry.trial, ()), layout, loaded.path, pickles) for entry in read.trials
    ]
    return ResultGrid(results, result, str(loaded.path), read.head.mode.value)


def _result(
    entry: TrialEntry, rows: Sequence[RowEntry], layout: ConfigLayout, path: Path, pickles: bool
) -> TrialResult:
    ordered = tuple(sorted(rows, key=lambda row: row.iteration))
    config = layout.nested(entry.config)
    metrics = {
        **(ordered[-1].metrics if ordered else {}),
        "training_iteration": entry.iterations,
        "time_total_s": entry.seconds,
        "trial_id": f"{entry.trial:05d}",
        "done": entry.is_over,
        "config": config,
    }
    return TrialResult(
        config=config,
        metrics=metrics,
        path=str(path),
        error=RuntimeError(entry.error) if entry.status == "failed" else None,
        rows=ordered,
        pickles=pickles,
        saved=entry.checkpoint,
    )
