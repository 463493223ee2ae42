"""Samplers, start configurations and spaces of other kinds, as a job names them."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optuna.distributions import FloatDistribution

import elastune
from elastune.errors import JobError
from elastune.job.job import Job, load_job
from elastune.job.sampling import SamplerSection
from elastune.space.function_space import FunctionSpace, SuggestingTrial
from elastune.space.given_configurations import StartingSampler
from elastune.space.model_sampler import ModelSampler
from elastune.space.plain_samplers import QmcSampler, RandomSampler
from tests.job.example_jobs import job_data

SPACE: dict[str, object] = {
    "lr": {"float": [1e-4, 1.0], "log": True},
    "optimizer": ["sgd", "adam"],
    "momentum": {"float": [0.8, 0.99], "when": {"optimizer": "sgd"}},
}


def loss(config: dict[str, Any], iteration: int) -> float:
    return abs(config["lr"] - 0.01) + config.get("momentum", 1.0) + 1.0 / iteration  # type: ignore[no-any-return]


def suggest(trial: SuggestingTrial) -> dict[str, object]:
    trial.suggest_float("lr", 1e-4, 1.0, log=True)
    if trial.suggest_categorical("optimizer", ["sgd", "adam"]) == "sgd":
        trial.suggest_float("momentum", 0.8, 0.99)
    return {"epochs": 5}


def job(**changes: object) -> Job:
    return Job(**job_data(**{"trainable": loss, "metric": "loss", "mode": "min", "space": SPACE} | changes))


def complaint(**changes: object) -> str:
    with pytest.raises(JobError) as caught:
        Job.from_dict(job_data(**changes), source="job.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("written", "plain", "kind"),
    [
        ("tpe", "tpe", ModelSampler),
        ({"kind": "tpe", "startup": 5}, {"kind": "tpe", "startup": 5}, ModelSampler),
        ({"kind": "tpe", "startup": 10}, "tpe", ModelSampler),
        ("qmc", "qmc", QmcSampler),
        ({"kind": "qmc", "sequence": "halton"}, {"kind": "qmc", "sequence": "halton"}, QmcSampler),
        ("random", "random", RandomSampler),
    ],
)
def test_a_job_names_its_sampler_in_a_word_or_a_mapping(written: object, plain: object, kind: type) -> None:
    chosen = job(search__sampler=written)
    assert isinstance(chosen.make_sampler(), kind)
    search = chosen.to_dict()["search"]
    assert isinstance(search, dict)
    assert search["sampler"] == plain
    assert Job.from_dict(json.loads(json.dumps(chosen.to_dict()))).search == chosen.search


def test_only_a_grid_and_a_table_come_to_an_end() -> None:
    ends = {
        kind: SamplerSection(kind=kind).is_finite for kind in ("random", "grid", "table", "qmc", "tpe", "gp")
    }
    assert ends == {"random": False, "grid": True, "table": True, "qmc": False, "tpe": False, "gp": False}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"search__sampler": {"kind": "tpe", "startup": 0}}, "search.sampler.startup is 0; expected"),
        ({"search__sampler": {"kind": "grid", "startup": 5}},
         "search.sampler.startup goes with tpe and gp, not with grid"),
        ({"search__sampler": {"kind": "tpe", "sequence": "halton"}},
         "search.sampler.sequence goes with qmc, not with tpe"),
        ({"search__sampler": {"kind": "qmc", "sequence": "sobl"}},
         "search.sampler.sequence is 'sobl'; expected sobol or halton; did you mean 'sobol'?"),
        ({"start_configurations": {"lr": 0.1}},
         "start_configurations is {'lr': 0.1}; expected a list of configurations, such as [{lr: 0.1, mom"),
        ({"start_configurations": [{"lr": 0.1}, 5]},
         "start_configurations.1 is 5; expected values by name, such as {lr: 0.1}"),
        ({"start_configurations": [{"lr": math.nan}]},
         "start_configurations.0.lr is nan; expected text, a finite number, true or false"),
        ({"start_configurations": [{}]}, "start_configurations.0 is {}; expected values by name"),
        ({"start_configurations": [{"lr": 0.1}] * 10},
         "start_configurations are 10, but search.trials is 9; leave some out"),
        ({"space": SPACE, "start_configurations": [{"lr": 0.1}, {"lr": 7}]},
         "start_configurations.1.lr is 7; expected a number from 0.0001 to 1"),
        ({"space": SPACE, "start_configurations": [{"optimizer": "adam", "momentum": 0.9}]},
         "start_configurations.0.momentum is given, but is only there when optimizer is sgd"),
        ({"space": {"lr": {"float": [0, 1], "when": {"x": 1}}}},
         "space.lr.when.x is no hyperparameter of this space; expected lr"),
        ({"space": {"lr": "loguniform(0, 1)"}}, "space.lr.float starts at 0; with log: true it starts"),
        ({"space": "suggest"}, "space is 'suggest'; expected hyperparameters by name"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_that_says_where_what_and_what_instead(
    changes: dict[str, object], message: str
) -> None:
    text = complaint(**changes)
    assert text.startswith("job.yaml: ")
    assert message in text
    assert "\n" not in text


def test_a_mistake_in_a_start_configuration_has_its_line(tmp_path: Path) -> None:
    text = json.dumps(job_data(space=SPACE, start_configurations=[{"lr": 0.1}, {"lr": 7}]), indent=1)
    (tmp_path / "job.yaml").write_text(text, encoding="utf-8")
    line = next(number for number, each in enumerate(text.splitlines(), 1) if each.strip() == '"lr": 7')
    with pytest.raises(JobError, match=rf"job\.yaml, line {line}: start_configurations\.1\.lr is 7"):
        load_job(tmp_path / "job.yaml")


def test_start_configurations_come_first_with_every_sampler() -> None:
    starts = [{"lr": 0.1, "optimizer": "sgd", "momentum": 0.9}, {"lr": 0.01}]
    for kind in ("random", "qmc", "tpe"):
        chosen = job(start_configurations=starts, search__sampler=kind)
        sampler = chosen.make_sampler()
        assert isinstance(sampler, StartingSampler)
        assert sampler.ask(0) == starts[0]
        second = sampler.ask(1)
        assert second is not None
        assert second["lr"] == 0.01
        assert "optimizer" in second
        assert [chosen.make_sampler().ask(trial) for trial in range(2)] == [sampler.ask(0), second]
        assert sampler.ask(2) == job(search__sampler=kind).make_sampler().ask(2)


def test_a_job_with_all_of_it_survives_the_way_to_plain_data_and_back() -> None:
    for space in (SPACE, "package.module:suggest", suggest, {"lr": FloatDistribution(0.1, 1.0)}):
        chosen = job(start_configurations=[{"lr": 0.1}, {"lr": 0.2}], space=space, search__sampler="tpe")
        back = Job.from_dict(json.loads(json.dumps(chosen.to_dict())))
        assert back.to_dict() == chosen.to_dict()
        assert back.start_configurations == ({"lr": 0.1}, {"lr": 0.2})
        assert pickle.loads(pickle.dumps(chosen)).to_dict() == chosen.to_dict()


def test_start_configurations_of_a_table_are_rows(tmp_path: Path) -> None:
    np.savez(tmp_path / "c.npz", lr=[0.1, 0.2, 0.3], accuracy=np.arange(6.0).reshape(3, 2))
    curves = str(tmp_path / "c.npz")
    data = job_data(trainable=curves, start_configurations=[{"lr": 0.3}])
    sampler = Job.from_dict(data).make_sampler()
    assert sampler.ask(0) == {"lr": 0.3}
    assert sampler.size == 3
    wrong = Job.from_dict(job_data(trainable=curves, start_configurations=[{"lr": 0.25}]))
    with pytest.raises(
        JobError, match=r"start_configurations\.0 is \{'lr': 0\.25\}, which is none of the 3 rows"
    ):
        wrong.make_sampler()


def test_a_space_may_be_a_function_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def suggest(trial):\n    trial.suggest_int('n', 1, 3)\n\n"
        "def train(config, iteration):\n    return config['n']\n",
        encoding="utf-8",
    )
    data = job_data(trainable="mine.py:train", space="mine.py:suggest", metric="score")
    (tmp_path / "job.yaml").write_text(json.dumps(data), encoding="utf-8")
    loaded = load_job(tmp_path / "job.yaml")
    assert loaded.space == f"{tmp_path / 'mine.py'}:suggest"
    assert isinstance(loaded.tuning().space, FunctionSpace)
    assert loaded.make_sampler().ask(0) in ({"n": 1}, {"n": 2}, {"n": 3})
    with pytest.raises(JobError, match=r"mine\.py: there is no 'sugest'; .*did you mean 'suggest'"):
        load_job(tmp_path / "job.yaml").model_copy(
            update={"space": f"{tmp_path / 'mine.py'}:sugest"}
        ).make_sampler()


def test_a_grid_refuses_a_function() -> None:
    with pytest.raises(
        JobError, match=r"space is the function tests\.job\.test_job_samplers:suggest, and a grid"
    ):
        job(space=suggest, search__sampler="grid").make_sampler()


def test_a_simulated_run_teaches_its_sampler() -> None:
    """The first trials are those of random search; what was seen changes the later ones."""
    search = {"algorithm": "asha", "trials": 40, "max_iterations": 9}
    small: dict[str, object] = {"cluster__max_nodes": 1, "profile": {"iteration": "2s"}}
    results = {
        kind: elastune.simulate(job(search=search | {"sampler": kind}, **small)) for kind in ("random", "tpe")
    }
    again = elastune.simulate(job(search=search | {"sampler": "tpe"}, **small))
    assert results["tpe"].journal_sha256 == again.journal_sha256
    assert results["tpe"].best != results["random"].best


def test_a_simulated_run_works_with_a_function_and_start_configurations() -> None:
    for kind in ("random", "qmc", "tpe"):
        chosen = job(
            space=suggest, start_configurations=[{"lr": 0.01, "optimizer": "sgd"}], search__sampler=kind
        )
        assert elastune.simulate(chosen).trials == 9


def test_a_rehearsal_draws_at_random_where_a_run_would_learn() -> None:
    tuning = job(search__sampler="tpe").tuning()
    assert isinstance(tuning.make_sampler(3), ModelSampler)
    assert isinstance(tuning.make_sampler(3, learns=False), RandomSampler)
    assert isinstance(job(search__sampler="qmc").tuning().make_sampler(3, learns=False), QmcSampler)
