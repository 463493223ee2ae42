"""MLflow: one run for the tuning run, with one nested run per trial.

Existing MLflow runs are found by their tags, so neither a resume nor a second export creates them twice.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastune.errors import ExecutionError
from elastune.exports.files import RunHead, RunNews, require
from elastune.history.trials import OVER, RowEntry, TrialEntry, as_float
from elastune.model.configuration import flattened
from elastune.wording import without_secrets

if TYPE_CHECKING:
    from mlflow import MlflowClient


RUN, TRIAL, STATUS, ITERATIONS = "elastune.run", "elastune.trial", "elastune.status", "elastune.iterations"
_PARENT, _NAME = "mlflow.parentRunId", "mlflow.runName"
# MLflow's limits per request.
_MOST_METRICS, _MOST_PARAMS, _MOST_CHARACTERS = 1000, 100, 500
_NOT_IN_A_NAME = re.compile(r"[^\w\-. :/]")


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turns MLflow's exceptions into `ExecutionError`."""
    _require_mlflow()
    from mlflow.exceptions import MlflowException  # noqa: PLC0415

    try:
        yield
    except MlflowException as error:
        reason = without_secrets(str(error).strip().partition("\n")[0])
        raise ExecutionError(
            f"MLflow refused: {reason}; expected the address of a server or a database, such as --to "
            "http://localhost:5000 or --to sqlite:///mlflow.db; the next export continues after what was "
            "written so far"
        ) from error


class MlflowWriter:
    """`uri` and `experiment` are MLflow's; the defaults are MLflow's own URI and the name of the run."""

    def __init__(self, head: RunHead, *, uri: str | None = None, experiment: str | None = None) -> None:
        _require_mlflow()
        from mlflow import MlflowClient  # noqa: PLC0415

        self._head = head
        self._tags = {RUN: head.run, "elastune.policy": head.policy, "elastune.seed": str(head.seed)}

        self._client = MlflowClient(tracking_uri=uri)
        self._experiment = self._find_experiment(experiment or head.name)
        self.parent = self._find_parent()  # MLflow's id of the run
        self._trials = self._find_trials()

    @property
    def client(self) -> MlflowClient:
        return self._client

    @property
    def where(self) -> str:
        """Without the address, which may hold a password."""
        return f"MLflow run {self.parent} in experiment {self._experiment}"

    def update(self, news: RunNews) -> None:
        for line in news.trials:
            if line.trial not in self._trials:
                self._trials[line.trial] = self._begin(line)
            self._set_params(self._trials[line.trial], line)
        rows: dict[int, list[RowEntry]] = defaultdict(list)
        for row in news.rows:
            rows[row.trial].append(row)
        for trial, listed in rows.items():
            self._log(self._trials[trial], listed)
        for line in news.trials:
            self._set_status(self._trials[line.trial], line)
        if news.ending is not None:
            self._end(news.ending, news.best)

    def close(self) -> None:
        """Nothing is held open."""

    def attach(self, trial: int, path: str) -> None:
        """Store a file with the run of a trial."""
        if not Path(path).is_file():
            raise ExecutionError(
                f"the checkpoint {path} is not a file on this machine; leave --checkpoint out, or fetch it "
                "and store it with the MLflow client"
            )
        self._client.log_artifact(self._trials[trial].run_id, path, artifact_path="checkpoint")

    def _find_experiment(self, name: str) -> str:
        found = self._client.get_experiment_by_name(name)
        if found is not None and found.lifecycle_stage == "deleted":
            raise ExecutionError(f"the MLflow experiment {name!r} was deleted; restore it, or name another")
        return str(self._client.create_experiment(name) if found is None else found.experiment_id)

    def _find_parent(self) -> str:
        head, created = self._head, self._head.created_utc.isoformat()
        found = self._search(f"tags.`{RUN}` = '{head.run}' and tags.`elastune.created` = '{created}'")
        runs = [run for run in found if TRIAL not in run.data.tags]
        if runs:
            return str(runs[0].info.run_id)
        tags = {"elastune.created": created, "elastune.body": head.body, "elastune.metric": head.metric}
        tags |= {**self._tags, "elastune.mode": head.mode.value}
        run = self._client.create_run(
            self._experiment, start_time=self._ms(0.0), tags=tags, run_name=f"{head.name}-{head.run}"
        )
        return str(run.info.run_id)

    def _find_trials(self) -> dict[int, _Trial]:
        runs = self._search(f"tags.`{_PARENT}` = '{self.parent}'")
        return {
            int(run.data.tags[TRIAL]): _Trial(run, self._client) for run in runs if TRIAL in run.data.tags
        }

    def _search(self, what: str) -> Iterator[Any]:
        token = None
        while True:
            page = self._client.search_runs([self._experiment], what, max_results=1000, page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def _begin(self, line: TrialEntry) -> _Trial:
        tags = {**self._tags, _PARENT: self.parent, TRIAL: str(line.trial)}
        run = self._client.create_run(
            self._experiment,
            start_time=self._ms(line.started_s),
            tags=tags,
            run_name=f"trial-{line.trial:05d}",
        )
        return _Trial(run, self._client)

    def _set_params(self, trial: _Trial, line: TrialEntry) -> None:
        """Those that are missing: a writer may have been killed after it began the trial."""
        from mlflow.entities import Param  # noqa: PLC0415

        if trial.has_all_params:
            return
        values = {_key(name): str(value)[:_MOST_CHARACTERS] for name, value in flattened(line.config).items()}
        params = [Param(name, value) for name, value in values.items() if name not in trial.params]
        for start in range(0, len(params), _MOST_PARAMS):
            self._client.log_batch(trial.run_id, params=params[start : start + _MOST_PARAMS])
        trial.has_all_params = True

    def _log(self, trial: _Trial, rows: Sequence[RowEntry]) -> None:
        """A row is logged as a whole: after a crash its step has all metrics or none."""
        from mlflow.entities import Metric  # noqa: PLC0415

        batch: list[Metric] = []
        for row in rows:
            if row.iteration <= trial.logged:
                continue
            at_ms = self._ms(row.at_s)
            metrics = [
                Metric(_key(name), as_float(value), at_ms, row.iteration)
                for name, value in row.metrics.items()
            ]
            if len(batch) + len(metrics) > _MOST_METRICS:
                self._client.log_batch(trial.run_id, metrics=batch)
                batch = []
            batch += metrics
            trial.logged = row.iteration
        if batch:
            self._client.log_batch(trial.run_id, metrics=batch)

    def _set_status(self, trial: _Trial, line: TrialEntry) -> None:
        from mlflow.entities import RunTag  # noqa: PLC0415

        tags = {STATUS: line.status, ITERATIONS: str(line.iterations)}
        if line.parent is not None:
            tags["elastune.parent"] = str(line.parent)
        if line.error is not None:
            tags["elastune.error"] = line.error[-5000:]
        if line.checkpoint is not None:
            tags["elastune.checkpoint"] = line.checkpoint
        changed = [RunTag(key, value) for key, value in tags.items() if trial.tags.get(key) != value]
        if not changed:
            return
        if line.is_over:  # before the tags, which say that nothing is left to be written
            status = "FAILED" if line.status == "failed" else "FINISHED"
            self._client.set_terminated(trial.run_id, status=status, end_time=self._ms(line.ended_s))
        self._client.log_batch(trial.run_id, tags=changed)
        trial.tags |= tags

    def _end(self, ending: str, best: TrialEntry | None) -> None:
        self._client.set_tag(self.parent, STATUS, ending)
        if best is not None and best.best is not None:
            self._client.set_tag(self.parent, "elastune.best_trial", str(best.trial))
            run = self._client.get_run(self.parent)
            name = _key(f"best {self._head.metric}")
            if run.data.metrics.get(name) != best.best:
                self._client.log_metric(self.parent, name, best.best, step=best.best_iteration)
        self._client.set_terminated(self.parent, status="FAILED" if ending == "failed" else "FINISHED")

    def _ms(self, at_s: float | None) -> int:
        return round(self._head.wall_s(at_s or 0.0) * 1000)


class _Trial:
    """The MLflow run of a trial. `logged` is the last iteration it has."""

    def __init__(self, run: Any, client: MlflowClient) -> None:
        self.run_id = str(run.info.run_id)
        self.tags: dict[str, str] = dict(run.data.tags)
        self.params = frozenset(run.data.params)
        self.has_all_params = False  # until it was looked at
        if self.tags.get(STATUS) in OVER:
            self.logged = int(self.tags[ITERATIONS])
            return
        histories = (client.get_metric_history(self.run_id, name) for name in run.data.metrics)
        self.logged = max((metric.step for history in histories for metric in history), default=0)


def _require_mlflow() -> None:
    """Elastune promises to send no usage statistics; to send MLflow's, set the variable to false."""
    require("mlflow", extra="mlflow", what="MLflow")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")


def _key(name: str) -> str:
    """MLflow treats names as paths and accepts only those that lead below."""
    parts = [part for part in _NOT_IN_A_NAME.sub("_", name).split("/") if part.strip(". ")]
    return "/".join(parts)[:250].rstrip("/. ") or "_"
