"""A profile that comes from a file of measurements."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.core.events import RunStarted
from elastune.errors import JobError
from elastune.job.job import Job, load_job
from elastune.job.measurement_files import read_measurements
from elastune.journal.codec import decode, encode
from elastune.model.distributions import Constant
from elastune.model.profile import Profile, Speedup, fit_latency, fit_profile
from elastune.model.speeds import ConfigSpeed
from tests.job.example_jobs import job_data


def write(folder: Path, content: object) -> Path:
    path = folder / "speeds.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_the_short_form_is_iterations_only(tmp_path: Path) -> None:
    path = write(tmp_path, {"1": [60.1, 59.7], "2": [31.0, "32s"]})
    assert read_measurements(path) == fit_profile({1: [60.1, 59.7], 2: [31.0, 32.0]})


def test_the_long_form_has_the_other_latencies(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {"iteration": {"1": [60], "4": [20]}, "startup": [4, 6], "save": "500ms", "sync": 1, "spread": 0.1},
    )
    assert read_measurements(path) == Profile(
        iteration=Constant(60.0),
        speedup=Speedup(((1, 1.0), (4, 3.0))),
        spread=0.1,
        startup=fit_latency([4.0, 6.0]),
        save=Constant(0.5),
        sync=Constant(1.0),
    )


SPEEDS = [
    {"config": {"width": 64, "act": "relu", "bias": True, "seed": None}, "factor": 0.5, "weight": 6},
    {"config": {"width": 256, "act": "gelu"}, "factor": "1.5"},
]
MEASURED_SPEEDS = (
    ConfigSpeed((("act", "relu"), ("bias", True), ("seed", None), ("width", 64)), 0.5, 6.0),
    ConfigSpeed((("act", "gelu"), ("width", 256)), 1.5, 1.0),
)


def test_the_speeds_of_single_configurations_are_read_from_a_file_and_from_a_job(tmp_path: Path) -> None:
    path = write(tmp_path, {"iteration": {"1": [60]}, "speeds": SPEEDS})
    assert read_measurements(path).speeds == MEASURED_SPEEDS
    job = Job.from_dict(job_data(profile={"iteration": "60s", "speeds": SPEEDS}))
    assert job.profile.speeds == MEASURED_SPEEDS


def test_speeds_survive_the_way_through_plain_data_and_json() -> None:
    job = Job.from_dict(job_data(profile={"iteration": "60s", "speeds": SPEEDS}))
    assert Job.from_dict(json.loads(json.dumps(job.to_dict()))) == job
    started = decode(encode(RunStarted(at_s=0.0, policy="rubberband", seed=0, job=job.to_dict())))
    assert isinstance(started, RunStarted)
    assert Job.from_dict(started.job) == job
    without = Job.from_dict(job_data(profile={"iteration": "60s"})).to_dict()["profile"]
    assert isinstance(without, dict)
    assert "speeds" not in without


@pytest.mark.parametrize(
    ("speeds", "message"),
    [
        ({"width": 64}, "speeds is {'width': 64}; expected a list of measured configurations, such as"),
        ([1], "speeds.0 is 1; expected {config: {width: 64}, factor: 0.5}"),
        (
            [{"config": {}, "factr": 1}],
            "speeds.0.factr is not a key of it; expected config, factor or weight",
        ),
        ([{"config": {"width": 64}}], "speeds.0.factor is missing; expected a configuration and its factor"),
        ([*SPEEDS, {"factor": 1}], "speeds.2.config is missing"),
        ([{"config": "relu", "factor": 1}], "speeds.0.config is 'relu'; expected hyperparameters by name"),
        (
            [{"config": {"width": [64, float("nan")]}, "factor": 1}],
            "speeds.0.config.width.1 is nan; expected text, a finite",
        ),
        ([{"config": {}, "factor": 0}], "speeds.0.factor is 0; expected a positive number"),
        ([{"config": {}, "factor": 1, "weight": "x"}], "speeds.0.weight is 'x'; expected a positive number"),
    ],
)
def test_wrong_speeds_are_named_in_a_file_and_in_a_job(tmp_path: Path, speeds: object, message: str) -> None:
    with pytest.raises(JobError) as in_a_file:
        read_measurements(write(tmp_path, {"iteration": {"1": [60]}, "speeds": speeds}))
    assert f"speeds.json: {message}" in str(in_a_file.value)
    with pytest.raises(JobError) as in_a_job:
        Job.from_dict(job_data(profile={"iteration": "60s", "speeds": speeds}))
    assert f"profile.{message}" in str(in_a_job.value)


def test_the_path_is_relative_to_the_folder_of_the_job(tmp_path: Path) -> None:
    write(tmp_path, {"1": [60.1, 59.7], "2": [31.0]})
    job_file = tmp_path / "job.json"
    job_file.write_text(json.dumps(job_data(profile="speeds.json")), encoding="utf-8")
    job = load_job(job_file)
    assert job.profile == fit_profile({1: [60.1, 59.7], 2: [31.0]})
    assert Job.from_dict(job.to_dict()) == job


def test_in_python_the_path_is_relative_to_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, {"1": [60]})
    monkeypatch.chdir(tmp_path)
    for given_path in ("speeds.json", Path("speeds.json"), str(path)):
        assert Job(**job_data(profile=given_path)).profile.iteration == Constant(60.0)
        assert Job.from_dict(job_data(profile=given_path)).profile.iteration == Constant(60.0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"iteration": {}}', "no iterations were measured; expected latencies on at least one number"),
        ('{"1": []}', "iterations on 1 slot: the list is empty; expected at least one measured value"),
        ('{"1": [60], "2": [30, 0]}', "iterations on 2 slots: value 2 is 0; expected seconds, more than 0"),
        ('{"1": [60], "2": [-30]}', "iterations on 2 slots: value 1 is -30; expected a duration, 0 or more"),
        ('{"1": [NaN]}', "iterations on 1 slot: value 1 is nan; expected a duration"),
        ('{"1": [true]}', "iterations on 1 slot: value 1 is True; expected a duration"),
        ('{"1": 60}', "iterations on 1 slot: expected a list of latencies, such as [60.1, 59.7]"),
        ('{"one": [60]}', "'one' is not a number of slots; expected a whole number from 1"),
        ('{"1": [60], "startup": [5]}', "'startup' is not a number of slots"),
        ('{"1": [60], "01": [5]}', "iterations on 01 slot: given twice"),
        ('{"1": [60], "1": [5]}', "'1' is given twice"),
        ('{"iteration": [60]}', "iteration: expected a mapping of slots to lists"),
        ('{"iteration": {"1": [60]}, "start_up": 5}', "did you mean 'startup'?"),
        ('{"iteration": {"1": [60]}, "startup": []}', "startup: the list is empty"),
        ('{"iteration": {"1": [60]}, "save": "x"}', "save is 'x'; expected a duration"),
        ('{"iteration": {"1": [60]}, "spread": -1}', "spread is -1; expected a number from 0 to 100"),
        ("[1, 2]", "expected a mapping of slots to lists of latencies"),
        ("{}", "expected a mapping of slots to lists of latencies"),
        ("[" * 100_000, "nested too deeply"),
        ('{"1": [' + "9" * 5000 + "]}", "speeds.json: "),
    ],
)
def test_a_bad_file_is_named_with_the_allocation(tmp_path: Path, content: str, message: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(JobError) as caught:
        Job.from_dict(job_data(profile=str(path)), source="job.yaml")
    start = f"job.yaml: profile names a file that cannot be used: {path}: "
    assert str(caught.value).startswith(start)
    assert message in str(caught.value)


def test_bad_json_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"speeds\.json, line 2: not valid JSON: "):
        read_measurements(write(tmp_path, '{"1":\n [60,]}'))


def test_a_missing_file_is_one_problem_among_the_others() -> None:
    with pytest.raises(JobError) as caught:
        Job.from_dict(job_data(profile="nowhere.json", deadline=0))
    assert "2 problems" in str(caught.value)
    assert "nowhere.json: there is no such file; expected a file of measurements" in str(caught.value)


SLOTS = st.sampled_from(["1", "2", "4", "iteration", "startup", "spread", "x"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(SLOTS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_garbage_is_a_profile_or_a_job_error(
    tmp_path_factory: pytest.TempPathFactory, content: object
) -> None:
    path = write(tmp_path_factory.mktemp("garbage"), json.dumps(content))
    found: Profile | JobError
    try:
        found = read_measurements(path)
    except JobError as error:
        found = error
    assert isinstance(found, Profile | JobError)
