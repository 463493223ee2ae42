"""The keys that a run needs and a plan does not: trainable, space, metric, sampler and their like."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elastune.curves.source import CurveFile
from elastune.errors import JobError
from elastune.job.job import Job, load_job
from elastune.job.search import PluginSearch
from elastune.job.search_options import AshaSearch
from elastune.model.distributions import Constant
from elastune.model.metric import Mode
from elastune.space.given_configurations import TableSampler
from elastune.space.plain_samplers import GridSampler, RandomSampler
from elastune.space.space import Space
from elastune.space.table_model_sampler import TableModelSampler
from tests.job.example_jobs import job_data

SPACE = {"lr": {"float": [1e-4, 1.0], "log": True}, "act": ["relu", "tanh"]}


def accuracy(config: dict[str, Any], iteration: int) -> float:
    return config["lr"] * iteration  # type: ignore[no-any-return]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With curves that have seconds, curves that have none, and a function."""
    curves: dict[str, Any] = {"lr": [0.1, 0.2, 0.3], "accuracy": np.arange(6.0).reshape(3, 2)}
    np.savez(tmp_path / "timed.npz", seconds=np.full((3, 2), 5.0), **curves)
    np.savez(tmp_path / "untimed.npz", **curves)
    (tmp_path / "mine.py").write_text("def train(config, iteration):\n    return 1.0\n", encoding="utf-8")
    return tmp_path


def loaded(folder: Path, **changes: object) -> Job:
    path = folder / "sweep 1.json"
    path.write_text(json.dumps(job_data(**changes)), encoding="utf-8")
    return load_job(path)


def complaint(**changes: object) -> str:
    with pytest.raises(JobError) as caught:
        Job.from_dict(job_data(**changes), source="job.yaml")
    return str(caught.value)


def test_what_is_left_out_has_a_default() -> None:
    job = Job(**job_data())
    assert (job.name, job.seed, job.retries, job.may_exceed, job.checkpoint_every) == (
        "job",
        0,
        0,
        None,
        None,
    )
    assert (job.trainable, job.space, job.metric, job.mode) == (None, None, None, None)
    assert (job.slot.cpus, job.slot.gpus, job.cluster.provider) == (1, None, "local")
    assert job.profile.transfer_s == 0.0


def test_every_key_is_read() -> None:
    job = Job(
        **job_data(
            name="resnet", trainable=accuracy, space=SPACE, metric="accuracy", mode="min", budget=5,
            may_exceed="budget", slot={"gpus": 2}, seed=2**53 - 1, retries=3, checkpoint_every="5m",
            cluster__provider="simulated", search__sampler="grid",
            profile__checkpoint={"size": "500MB", "per_second": "250MB"},
        )
    )  # fmt: skip
    assert (job.name, job.mode, job.may_exceed, job.slot.gpus) == ("resnet", Mode.MIN, "budget", 2)
    assert (job.seed, job.retries, job.checkpoint_every) == (2**53 - 1, 3, 300.0)
    assert (job.cluster.provider, job.profile.transfer_s) == ("simulated", 2.0)
    assert job.search.sampler is not None
    assert job.search.sampler.kind == "grid"


def test_a_job_is_named_after_its_file_unless_it_says_otherwise(folder: Path) -> None:
    assert loaded(folder).name == "sweep-1"
    assert loaded(folder, name="mine").name == "mine"


def test_paths_are_relative_to_the_job_file(folder: Path) -> None:
    job = loaded(folder, trainable="mine.py:train", metric="accuracy")
    assert job.trainable == f"{folder / 'mine.py'}:train"
    assert job.open_trainable().curve({}, (0, 0)).rows(1, 1) == [{"accuracy": 1.0}]
    for written in ("timed.npz", {"curves": "timed.npz"}):
        assert loaded(folder, trainable=written).trainable == CurveFile(path=str(folder / "timed.npz"))


@pytest.mark.parametrize(
    "changes",
    [
        {"trainable": "synthetic:hypersched", "may_exceed": "deadline", "profile__checkpoint": "2s"},
        {"trainable": {"curves": "timed.npz", "task": "x", "parameters": ["lr"], "length": "n"}},
        {"trainable": "timed.npz", "profile": ..., "search__sampler": {"kind": "table", "replace": True}},
        {"trainable": "package.module:f", "metric": "loss", "mode": "min", "space": SPACE},
        {"search": {"algorithm": "asha", "max_iterations": 9}, "slot": {"gpus": 1}},
    ],
)
def test_a_job_survives_the_way_to_plain_data_and_back(folder: Path, changes: dict[str, object]) -> None:
    job = loaded(folder, **changes)
    assert Job.from_dict(json.loads(json.dumps(job.to_dict()))) == job
    assert Job.from_dict(job.model_dump()) == job
    assert pickle.loads(pickle.dumps(job)) == job


def test_a_function_given_in_python_is_written_by_its_name() -> None:
    job = Job(**job_data(trainable=accuracy, metric="accuracy", space=SPACE))
    assert job.to_dict()["trainable"] == "tests.job.test_job_tuning:accuracy"
    assert Job.from_dict(job.to_dict()).tuning().metric == "accuracy"


def test_the_synthetic_trainable_brings_metric_mode_and_space() -> None:
    tuning = Job(**job_data(trainable="synthetic:hypersched")).tuning()
    assert (tuning.metric, tuning.mode) == ("score", Mode.MAX)
    assert tuning.space is tuning.trainable.space
    assert isinstance(tuning.make_sampler(0), RandomSampler)


def test_the_job_comes_before_what_the_trainable_says() -> None:
    tuning = Job(**job_data(trainable="synthetic:hypersched", space=SPACE, mode="min")).tuning()
    assert tuning.mode is Mode.MIN
    assert isinstance(tuning.space, Space)
    assert tuning.space.to_plain() == SPACE | {"act": {"choice": ["relu", "tanh"]}}


def test_configurations_of_a_table_are_its_rows(folder: Path) -> None:
    job = loaded(folder, trainable="timed.npz", seed=3)
    sampler = job.make_sampler()
    assert isinstance(sampler, TableSampler)
    asked = [sampler.ask(trial) for trial in range(3)]
    assert sorted(config["lr"] for config in asked if config) == [0.1, 0.2, 0.3]  # type: ignore[type-var]
    assert asked == [TableSampler(job.open_trainable().table or (), seed=3).ask(trial) for trial in range(3)]
    endless = loaded(folder, trainable="timed.npz", search__sampler={"kind": "table", "replace": True})
    assert endless.make_sampler().size is None
    space = {"lr": [0.1, 0.3]}
    grid = loaded(folder, trainable="timed.npz", search__sampler="grid", space=space).make_sampler()
    assert isinstance(grid, GridSampler)
    assert grid.size == 2


def test_a_model_on_a_table_draws_its_rows(folder: Path) -> None:
    job = loaded(folder, trainable="timed.npz", search__sampler={"kind": "tpe", "startup": 1})
    sampler = job.make_sampler()
    assert isinstance(sampler, TableModelSampler)
    rows = [sampler.ask(trial) for trial in range(4)]
    assert sorted(config["lr"] for config in rows if config) == [0.1, 0.2, 0.3]  # type: ignore[type-var]
    assert isinstance(job.tuning().make_sampler(0, learns=False), TableSampler)
    search = {"algorithm": "bohb", "max_iterations": 9}  # a model unless the job says otherwise
    assert isinstance(loaded(folder, trainable="timed.npz", search=search).make_sampler(), TableModelSampler)
    search = {"algorithm": "forecast", "max_iterations": 9}
    assert isinstance(loaded(folder, trainable="timed.npz", search=search).make_sampler(), TableSampler)


def test_recorded_seconds_are_the_profile_when_none_is_given(folder: Path) -> None:
    assert loaded(folder, trainable="timed.npz", profile=...).profile.iteration == Constant(5.0)
    assert loaded(folder, trainable="timed.npz").profile.iteration == Constant(60.0)
    with pytest.raises(JobError, match=r"profile is missing; .*untimed\.npz has no time or seconds"):
        loaded(folder, trainable="untimed.npz", profile=...)
    with pytest.raises(JobError, match=r"profile is missing, and cannot be taken from the curves: .*no such"):
        loaded(folder, trainable="nowhere.npz", profile=...)


def test_a_run_without_a_trainable_or_a_space_is_an_error(folder: Path) -> None:
    with pytest.raises(JobError, match="simulate needs `trainable`: synthetic:hypersched, a file of curves"):
        Job(**job_data()).open_trainable()
    job = Job(**job_data(trainable=accuracy, metric="accuracy"))
    with pytest.raises(JobError, match="space is missing; expected the hyperparameters to search"):
        job.make_sampler()
    with pytest.raises(JobError, match="is table, but the trainable is no table"):
        Job(**job_data(search__sampler="table", trainable=accuracy, metric="accuracy"))


def test_a_loss_is_not_maximised_by_accident() -> None:
    with pytest.raises(
        JobError, match="mode is missing, and the metric 'valid_loss' looks like one to minimise"
    ):
        Job(**job_data(trainable=accuracy, metric="valid_loss")).tuning()
    assert Job(**job_data(trainable=accuracy, metric="accuracy")).tuning().mode is Mode.MAX
    assert Job(**job_data(trainable=accuracy, metric="loss", mode="max")).tuning().mode is Mode.MAX


ASHA = {"algorithm": "asha", "max_iterations": 27}


def test_asha_has_no_plan_to_price() -> None:
    job = Job(**job_data(search=ASHA))
    assert isinstance(job.search, AshaSearch)
    assert (job.search.trials, job.search.eta) == (None, 3)
    with pytest.raises(
        JobError,
        match="asha decides while it runs and has no plan; for what it will take ask",
    ):
        job.to_problem()


def test_asha_without_trials_needs_something_that_ends_it(folder: Path) -> None:
    message = (
        "search.trials is left out, and nothing else ends the search; expected trials, a deadline, a budget"
    )
    for sampler in ("random", {"kind": "table", "replace": True}):
        assert message in complaint(search=ASHA | {"sampler": sampler}, deadline=...)
    Job(**job_data(search=ASHA | {"trials": 9}, deadline=...))
    Job(**job_data(search=ASHA, deadline=..., budget=5))
    Job(**job_data(search=ASHA | {"sampler": "grid"}, deadline=...))
    loaded(folder, trainable="timed.npz", search=ASHA, deadline=...)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package that is installed as far as Python can tell, with one policy."""
    information = tmp_path / "gambler-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: gambler\nVersion: 1.0\n", encoding="utf-8"
    )
    (information / "entry_points.txt").write_text(
        "[elastune.policies]\nroulette = gambler:Roulette\nsha = gambler:Sha\n", encoding="utf-8"
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    return "roulette"


def test_an_installed_policy_is_a_search_with_options_of_its_own(plugin: str) -> None:
    search = {"algorithm": plugin, "chips": 5, "wheel": {"zero": True}, "min_slots_per_trial": 2}
    job = Job(**job_data(search=search))
    assert isinstance(job.search, PluginSearch)
    assert job.search.algorithm == "roulette"
    assert job.search.options == {"chips": 5, "wheel": {"zero": True}}
    assert job.search.min_slots_per_trial == 2
    assert Job.from_dict(json.loads(json.dumps(job.to_dict()))) == job
    with pytest.raises(JobError, match="roulette decides while it runs"):
        job.to_problem()
    assert "search.min_slots_per_trial is 0; expected" in complaint(
        search={"algorithm": plugin, "min_slots_per_trial": 0}
    )


def test_an_unknown_algorithm_lists_the_installed_ones_too(plugin: str) -> None:
    text = complaint(search__algorithm="roulete")
    assert "search.algorithm is 'roulete'; expected sha, hyperband, stages, asha" in text
    assert text.endswith("e-grid or roulette; did you mean 'roulette'?")
    assert Job(**job_data()).to_problem().specs[0].name == "sha"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "a/b"}, "name is 'a/b'; expected a name of letters, digits"),
        ({"trainable": 5}, "trainable is 5; expected synthetic:hypersched, a file of curves"),
        ({"trainable": "resnet"}, "trainable is 'resnet'; expected synthetic:hypersched, a file of curves"),
        ({"trainable": "synthetic:x"}, "trainable is 'synthetic:x'; expected synthetic:hypersched"),
        ({"trainable": {}}, "trainable.curves is missing; expected the path of a file of curves"),
        ({"trainable": {"curves": "x.csv"}}, "trainable.curves is 'x.csv'; expected the path of a file"),
        ({"trainable": {"curves": "x.npz", "tsak": 1}},
         "trainable.tsak is not a key of trainable; did you mean 'task'?"),
        ({"trainable": {"curves": "x.npz", "task": [1]}}, "trainable.task is [1]; expected a name"),
        ({"trainable": {"curves": "x.npz", "parameters": "lr"}},
         "trainable.parameters is 'lr'; expected a list of names, such as [lr, momentum]"),
        ({"trainable": "x.npz", "space": SPACE}, "space is not used: the configurations are the rows of the"),
        ({"space": {"lr": {"float": [2, 1]}}}, "space.lr.float is [2, 1]; expected the smaller end first"),
        ({"space": 5}, "space is 5; expected hyperparameters by name"),
        ({"metric": 5}, "metric is 5; expected a name, such as accuracy"),
        ({"mode": "maximum"}, "mode is 'maximum'; expected max or min; did you mean 'max'?"),
        ({"may_exceed": "time"}, "may_exceed is 'time'; expected deadline or budget"),
        ({"may_exceed": "budget"}, "may_exceed is budget, but the job has no budget"),
        ({"slot": {}}, "slot has neither GPUs nor CPUs; expected {gpus: 1}, {cpus: 2} or {gpus: 1, cpus: 8}"),
        ({"slot": 3}, "slot is 3; expected a mapping with keys of: gpus, cpus"),
        ({"slot": {"gpu": 1}}, "slot.gpu is not a key of slot; did you mean 'gpus'?"),
        ({"seed": -1}, "seed is -1; expected a whole number from 0 to 9,007,199,254,740,991"),
        ({"retries": "x"}, "retries is 'x'; expected a whole number from 0 to 1,000"),
        ({"checkpoint_every": 0}, "checkpoint_every is 0; expected a positive duration"),
        ({"cluster__provider": ""}, "cluster.provider is ''; expected a name"),
        ({"cluster__provider": "simulatd"},
         "cluster.provider is 'simulatd'; expected ec2, kubernetes, local, simulated, slurm or ssh; did you"),
        ({"search__sampler": "tabel"},
         "search.sampler.kind is 'tabel'; expected random, grid, table, qmc, tpe or gp; did you mean"),
        ({"search__sampler": 5}, "search.sampler is 5; expected a mapping with keys of: kind, replace"),
        ({"search__sampler": {"kind": "grid", "replace": True}},
         "search.sampler.replace goes with table and tpe and gp, not with grid"),
        ({"search__sampler": {"kind": "table", "replace": 1}},
         "search.sampler.replace is 1; expected true or false"),
        ({"profile__checkpoint": "500MB"},
         "profile.checkpoint is '500MB'; expected {size: 500MB, per_second: 250MB}, or the time"),
        ({"profile__checkpoint": {"size": "1GB"}}, "profile.checkpoint.per_second is missing; expected what"),
        ({"profile__checkpoint": {"size": 1, "per_second": 0}},
         "profile.checkpoint.per_second is 0; expected a size of more than 0"),
        ({"profile__checkpoint": {"size": 1, "per_second": 1e-300}}, "profile.checkpoint.size takes"),
        ({"profile__checkpoint": [1]}, "profile.checkpoint is [1]; expected a mapping with keys of: size"),
        ({"profil": {"iteration": 1}, "profile": ...},
         "profil is not a key of a job; did you mean 'profile'?"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_that_says_where_what_and_what_instead(
    changes: dict[str, object], message: str
) -> None:
    text = complaint(**changes)
    assert text.startswith("job.yaml: ")
    assert message in text
    assert "\n" not in text
