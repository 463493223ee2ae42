"""`logging`: what may be written there, and what a job keeps of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastune.errors import JobError
from elastune.job.job import Job

BASE = {
    "search": {"algorithm": "sha", "trials": 4, "max_iterations": 9},
    "profile": {"iteration": 1},
    "cluster": {"slots_per_node": 2, "price_per_hour": 1},
}


def job_with(logging: object) -> Job:
    return Job.from_dict({**BASE, "logging": logging})


def test_words_mean_the_usual_places() -> None:
    for written in (["csv", "tensorboard", "mlflow"], {"csv": True, "tensorboard": True, "mlflow": True}):
        logging = job_with(written).logging
        assert logging is not None
        assert logging.csv is True
        assert logging.tensorboard is True
        assert logging.mlflow is not None
        assert (logging.mlflow.uri, logging.mlflow.experiment) == (None, None)
    only = job_with("csv").logging
    assert only is not None
    assert (only.csv, only.tensorboard, only.mlflow) == (True, None, None)


def test_places_can_be_named_and_paths_are_those_of_the_job_file(tmp_path: Path) -> None:
    text = """
search: {algorithm: sha, trials: 4, max_iterations: 9}
profile: {iteration: 1}
cluster: {slots_per_node: 2, price_per_hour: 1}
logging: {tensorboard: boards, csv: false, mlflow: {uri: "http://localhost:5000", experiment: digits}}
"""
    job = Job.from_yaml_text(text, folder=tmp_path)
    assert job.logging is not None
    assert job.logging.csv is None
    assert job.logging.tensorboard == str(tmp_path / "boards")
    assert job.logging.mlflow is not None
    assert job.logging.mlflow.uri == "http://localhost:5000"
    assert Job.from_dict(job.to_dict()).logging == job.logging


def test_a_job_without_it_is_written_as_before() -> None:
    assert "logging" not in Job.from_dict(BASE).to_dict()


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (["csv", "tensorbord"], "csv, tensorboard, mlflow or wandb; did you mean 'tensorboard'"),
        (7, "logging is 7; expected a list of csv, tensorboard, mlflow or wandb, or a mapping"),
        ({}, "logging names nothing"),
        ({"csv": False}, "logging names nothing"),
        ({"cvs": True}, "logging.cvs is not a key of logging; did you mean 'csv'"),
        ({"csv": 3}, "expected a folder, or true for one in the folder of the run"),
        ({"mlflow": {"url": "http://x"}}, "url is not a key of logging.mlflow; did you mean 'uri'"),
        ({"mlflow": "nowhere"}, "expected an address of MLflow, such as"),
        ({"mlflow": "http://me:secret@host"}, "has a user and a password in it"),
    ],
)  # fmt: skip
def test_mistakes_are_errors(written: object, message: str) -> None:
    with pytest.raises(JobError) as caught:
        job_with(written)
    assert message in str(caught.value)
    assert "secret@" not in str(caught.value)
