"""What the MLflow client reads of a run, from a store in a file."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import elastune
from elastune.api.results import LoadedRun
from elastune.errors import ExecutionError, JobError
from elastune.exports.mlflow_writer import MlflowWriter
from elastune.runs.results import read_results
from tests.exports.odd_runs import odd_run

# Of MLflow and of the libraries below it.
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
    ),
    pytest.mark.xdist_group("mlflow"),  # seconds to import
]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    space: dict[str, object] = {
        "x": {"float": [0.0, 1.0], "grid": 2},
        "name": ["gut", "schlecht"],
        "a(b)": ["x" * 900],
    }
    space |= {"net": {"hidden": {"choice": [[64, 64]]}}}
    return odd_run(tmp_path_factory.mktemp("odd"), space=space)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One store for all tests: to make one takes seconds."""
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/mlflow.db"


def client_of(uri: str) -> Any:
    from mlflow import MlflowClient  # noqa: PLC0415 - heavy

    return MlflowClient(uri)


def runs_of(uri: str, experiment: str) -> tuple[Any, dict[int, Any]]:
    """The parent, and its children by their trials."""
    client = client_of(uri)
    found = client.search_runs([client.get_experiment_by_name(experiment).experiment_id])
    parents = [run for run in found if "elastune.trial" not in run.data.tags]
    children = [run for run in found if "elastune.trial" in run.data.tags]
    assert len(parents) == 1
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parents[0].info.run_id}
    assert len({run.data.tags["elastune.trial"] for run in children}) == len(children)
    return parents[0], {int(run.data.tags["elastune.trial"]): run for run in children}


def test_a_run_for_the_run_and_one_in_it_for_each_trial(odd: LoadedRun, uri: str) -> None:
    odd.export("mlflow", uri)
    parent, children = runs_of(uri, "odd")
    tags = parent.data.tags
    assert (tags["elastune.run"], tags["elastune.policy"], tags["elastune.seed"]) == (odd.run, "grid", "0")
    assert (tags["elastune.status"], parent.info.status) == ("complete", "FINISHED")
    trials, rows = odd.trials(), odd.rows()
    assert parent.data.metrics["best score"] == trials["best"].max()
    assert set(children) == set(trials["trial"])
    client = client_of(uri)
    for line in trials.to_dict("records"):
        run = children[line["trial"]]
        assert run.info.status == ("FAILED" if line["status"] == "failed" else "FINISHED")
        assert run.data.params["name"] == line["config/name"]
        assert run.data.params["x"] == str(line["config/x"])
        assert set(run.data.params) == {"x", "name", "a_b_", "net.hidden"}  # MLflow takes no brackets
        assert run.data.params["net.hidden"] == "[64, 64]"
        assert ("diverged" in run.data.tags.get("elastune.error", "")) == (line["status"] == "failed")
        mine = rows[rows["trial"] == line["trial"]]
        score = client.get_metric_history(run.info.run_id, "score")
        assert [metric.step for metric in score] == list(mine["iteration"])
        for metric, value in zip(score, mine["score"], strict=True):
            assert metric.value == value or (math.isnan(metric.value) and math.isnan(value))
        sizes = client.get_metric_history(
            run.info.run_id, "größe (%)".replace("(", "_").replace("%", "_").replace(")", "_")
        )
        assert [metric.step for metric in sizes] == list(mine.loc[mine["iteration"] % 2 == 1, "iteration"])


def test_a_second_export_adds_nothing(odd: LoadedRun, uri: str) -> None:
    odd.export("mlflow", uri, experiment="twice")
    odd.export("mlflow", uri, experiment="twice")
    _, children = runs_of(uri, "twice")
    client = client_of(uri)
    for trial, run in children.items():
        history = client.get_metric_history(run.info.run_id, "score")
        assert len(history) == sum(odd.rows()["trial"] == trial)


def test_what_was_half_written_is_gone_on_with(odd: LoadedRun, uri: str) -> None:
    results = read_results(odd.found)
    unfinished = tuple(replace(line, status="running") for line in results.trials[:3])
    rows = tuple(row for row in results.rows if row.trial < 3 and row.iteration == 1)
    first = replace(results, trials=unfinished, rows=rows, ending=None)
    MlflowWriter(results.head, uri=uri, experiment="half").update(first.as_news())
    odd.export("mlflow", uri, experiment="half")
    _, children = runs_of(uri, "half")
    assert len(children) == len(results.trials)
    client = client_of(uri)
    for trial, run in children.items():
        history = client.get_metric_history(run.info.run_id, "score")
        assert [each.step for each in history] == [
            row.iteration for row in results.rows if row.trial == trial
        ]


class _KilledError(BaseException):
    """The writer's process ends here."""


def _kill_before_request(client: Any, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that write."""
    requests = itertools.count(1)

    def request(send: Callable[..., Any], *args: Any, **options: Any) -> Any:
        if next(requests) == number:
            raise _KilledError
        return send(*args, **options)

    for name in ("create_run", "log_batch", "log_metric", "set_tag", "set_terminated"):
        monkeypatch.setattr(client, name, functools.partial(request, getattr(client, name)))


def test_a_writer_that_is_killed_before_any_request_leaves_nothing_that_the_next_does_not_mend(
    odd: LoadedRun, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = read_results(odd.found)
    one = replace(results, trials=results.trials[:1], rows=tuple(r for r in results.rows if r.trial == 0))
    for number in itertools.count(1):
        experiment = f"killed before request {number}"
        writer = MlflowWriter(one.head, uri=uri, experiment=experiment)
        with monkeypatch.context() as patch:
            _kill_before_request(writer.client, number, patch)
            try:
                writer.update(one.as_news())
            except _KilledError:
                killed = True
            else:
                killed = False
        MlflowWriter(one.head, uri=uri, experiment=experiment).update(one.as_news())
        parent, children = runs_of(uri, experiment)
        assert (parent.info.status, children[0].info.status) == ("FINISHED", "FINISHED"), number
        assert parent.data.tags["elastune.status"] == "complete", number
        assert set(children[0].data.params) == {"x", "name", "a_b_", "net.hidden"}, number
        history = client_of(uri).get_metric_history(children[0].info.run_id, "score")
        assert [each.step for each in history] == [row.iteration for row in one.rows], number
        if not killed:
            break
    assert number > 6


def test_a_simulated_run_has_no_checkpoint_to_store(odd: LoadedRun, uri: str) -> None:
    with pytest.raises(JobError, match="there is no checkpoint to store: the run was simulated"):
        odd.export("mlflow", uri, checkpoint=True)


def test_a_file_is_stored_with_its_trial(odd: LoadedRun, uri: str, tmp_path: Path) -> None:
    client = client_of(uri)
    client.create_experiment("files", artifact_location=(tmp_path / "artifacts").as_uri())
    results = read_results(odd.found)
    sink = MlflowWriter(results.head, uri=uri, experiment="files")
    sink.update(results.as_news())
    (tmp_path / "iteration-000004.ckpt").write_bytes(b"model")
    sink.attach(0, str(tmp_path / "iteration-000004.ckpt"))
    _, children = runs_of(uri, "files")
    (found,) = client.list_artifacts(children[0].info.run_id, "checkpoint")
    assert found.path == "checkpoint/iteration-000004.ckpt"
    with pytest.raises(elastune.ElastuneError, match="is not a file on this machine"):
        sink.attach(0, "s3://bucket/model.ckpt")


@pytest.mark.parametrize("nowhere", ["nosuch://host", "folder"])
def test_an_address_that_mlflow_does_not_take_is_reported(
    odd: LoadedRun, nowhere: str, tmp_path: Path
) -> None:
    with pytest.raises(ExecutionError, match=r"MLflow refused: .* such as --to http://localhost:5000"):
        odd.export("mlflow", str(tmp_path / nowhere) if nowhere == "folder" else nowhere)
