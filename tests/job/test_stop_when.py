"""`stop_when`: how it is written, and what it has to go with."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.errors import JobError
from elastune.job.job import Job
from elastune.model.metric import Inequality, Target
from tests.job.example_jobs import job_data

WRITTEN = "a metric compared with a number, such as accuracy >= 0.97 or loss < 0.1"


def complaint(**changes: object) -> str:
    with pytest.raises(JobError) as caught:
        Job.from_dict(job_data(**changes), source="job.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("written", "target"),
    [
        ("accuracy >= 0.97", Target(metric="accuracy", comparison=Inequality.AT_LEAST, value=0.97)),
        ("accuracy>0.97", Target(metric="accuracy", comparison=Inequality.ABOVE, value=0.97)),
        ("  val/loss <= 1e-3 ", Target(metric="val/loss", comparison=Inequality.AT_MOST, value=0.001)),
        ("mean return < -5", Target(metric="mean return", comparison=Inequality.BELOW, value=-5.0)),
    ],
)
def test_a_target_is_a_metric_a_comparison_and_a_number(written: str, target: Target) -> None:
    assert Job(**job_data(stop_when=written)).stop_when == target
    assert Job(**job_data(stop_when=target)).stop_when == target


@pytest.mark.parametrize(
    "written", ["accuracy", "accuracy = 1", "accuracy => 1", "accuracy >= high", ">= 1", "0.9 < x < 1", 0.97,
                "accuracy >= 97%", "accuracy >= nan", ["accuracy >= 1"], "a >= " + "1" * 400],
)  # fmt: skip
def test_anything_else_is_an_error(written: object) -> None:
    assert f"expected {WRITTEN}" in complaint(stop_when=written)


def test_the_line_is_named() -> None:
    text = "search: {algorithm: sha, trials: 9, max_iterations: 10}\nstop_when: accuracy = 0.97\n"
    rest = "profile: {iteration: 1}\ncluster: {slots_per_node: 1, price_per_hour: 0}\n"
    with pytest.raises(JobError) as caught:
        Job.from_yaml_text(text + rest, "job.yaml")
    assert str(caught.value) == f"job.yaml, line 2: stop_when is 'accuracy = 0.97'; expected {WRITTEN}"


def test_it_names_the_metric_of_a_job_that_does_not() -> None:
    assert Job(**job_data(stop_when="accuracy > 0.9")).metric == "accuracy"
    assert Job(**job_data(stop_when="accuracy > 0.9", metric=None)).metric == "accuracy"
    assert Job(**job_data()).metric is None


def test_it_must_be_of_the_jobs_metric() -> None:
    assert complaint(stop_when="accuracy > 0.9", metric="loss", mode="min") == (
        "job.yaml: stop_when is 'accuracy > 0.9', but the metric of the job is 'loss'; expected a comparison "
        "of loss"
    )


@pytest.mark.parametrize(
    ("written", "mode", "expected"),
    [
        (
            "score <= 0.5",
            "max",
            "is 'score <= 0.5', but mode is max; expected >= or >, or mode: min",
        ),
        ("score > 3", "min", "is 'score > 3', but mode is min; expected <= or <, or mode: max"),
    ],
)
def test_the_comparison_fits_the_mode(written: str, mode: str, expected: str) -> None:
    assert f"stop_when {expected}" in complaint(stop_when=written, mode=mode)


@given(
    comparison=st.sampled_from(Inequality),
    value=st.floats(allow_nan=False, allow_infinity=False),
    metric=st.from_regex(r"[a-zA-Z_][\w/ .@-]{0,30}\w", fullmatch=True),
)
def test_it_survives_the_way_to_plain_data_and_back(
    comparison: Inequality, value: float, metric: str
) -> None:
    job = Job(**job_data(stop_when=Target(metric=metric, comparison=comparison, value=value)))
    assert Job.from_dict(json.loads(json.dumps(job.to_dict()))) == job
    assert Job.from_dict(json.loads(job.model_dump_json())) == job
    assert pickle.loads(pickle.dumps(job)) == job


def test_the_data_of_a_job_without_it_does_not_mention_it() -> None:
    assert "stop_when" not in Job(**job_data()).to_dict()
    assert Job(**job_data(stop_when="accuracy >= 90")).to_dict()["stop_when"] == "accuracy >= 90"
