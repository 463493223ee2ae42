"""Lists, mappings and groups in configurations, through a whole run and everything that reads it."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import elastune
from elastune.history.result import RunResult
from elastune.job.job import Job
from elastune.model.speeds import ConfigSpeed, settings_of
from elastune.runs.results import read_results

SPACE = {
    "optimizer": {
        "name": ["sgd", "adam"],
        "lr": {"float": [1e-4, 1.0], "log": True},
        "momentum": {"float": [0.5, 0.99], "when": {"name": "sgd"}},
    },
    "hidden": {"choice": [[64, 64], [128], None]},
    "augment": {"choice": [{"flip": True}, {"flip": False, "crop": 4}]},
}


def learn(config: dict[str, Any]) -> Iterator[float]:
    """Changes its configuration, as scripts do with `config["optimizer"].pop("name")`."""
    optimizer = config["optimizer"]
    best = {"sgd": 0.1, "adam": 0.001}[optimizer.pop("name")]
    layers = (config["hidden"] or [1]) + [1]
    layers.append(len(config["augment"]))
    for step in range(1, 30):
        yield 1.0 / (1.0 + abs(math.log10(optimizer["lr"] / best))) - 1.0 / (step + sum(layers) / 100)


def job(algorithm: str, **more: object) -> Job:
    searches: dict[str, dict[str, object]] = {
        "sha": {"trials": 16, "max_iterations": 9},
        "asha": {"trials": 16, "max_iterations": 9},
        "bohb": {"max_iterations": 9},
        "pbt": {"trials": 4, "interval": 2, "max_iterations": 8},
        "random": {"trials": 6, "max_iterations": 5},
        "seer": {},
        "hypersched": {"max_iterations": 9, "trials": 16},
    }
    sections: dict[str, object] = {
        "trainable": learn,
        "space": SPACE,
        "metric": "accuracy",
        "search": {"algorithm": algorithm, **searches[algorithm]},
        "deadline": "20m",
        "budget": 20,
        "profile": {"iteration": "5s"},
        "cluster": {"slots_per_node": 4, "price_per_hour": 4, "max_nodes": 4},
        "start_configurations": [{"optimizer": {"momentum": 0.9}, "hidden": [128]}],
    }
    return Job(**{**sections, **more})


@pytest.mark.parametrize("algorithm", ["sha", "asha", "bohb", "pbt", "random", "seer", "hypersched"])
def test_every_policy_tunes_nested_configurations(algorithm: str) -> None:
    result = elastune.simulate(job(algorithm), seed=3)
    assert result.best is not None
    optimizer = result.best.config["optimizer"]
    assert isinstance(optimizer, dict)
    assert optimizer["name"] in ("sgd", "adam")
    assert result.best.config["hidden"] in ([64, 64], [128], None)
    assert "optimizer.lr=" in str(result)
    assert json.loads(json.dumps(result.to_dict()))["best"]["config"] == result.best.config


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunResult, Path]:
    folder = tmp_path_factory.mktemp("runs")
    campaign = elastune.simulate_many(job("sha"), folder=folder)
    return campaign.results[0], folder


def test_tables_have_a_column_for_each_member_of_a_group(run: tuple[RunResult, Path], tmp_path: Path) -> None:
    loaded = elastune.load_run("last", folder=run[1])
    frame = loaded.trials()
    names = {"config/optimizer.name", "config/optimizer.lr", "config/hidden", "config/augment.flip"}
    assert names <= set(frame.columns)
    assert set(frame["config/hidden"].dropna()) <= {"[64, 64]", "[128]"}
    for format_ in ("csv", "json", "parquet"):
        assert loaded.export(format_, tmp_path)
    with (tmp_path / "trials.csv").open(encoding="utf-8") as file:
        first = next(csv.DictReader(file))
    assert (first["config/hidden"], first["config/optimizer.momentum"]) == ("[128]", "0.9")


def test_other_tools_get_nested_configurations(run: tuple[RunResult, Path], tmp_path: Path) -> None:
    loaded = elastune.load_run("last", folder=run[1])
    assert loaded.export("tensorboard", tmp_path / "boards")


def test_the_report_shows_each_member_of_a_group(run: tuple[RunResult, Path], tmp_path: Path) -> None:
    page = elastune.report("last", runs_folder=run[1], folder=tmp_path).page.read_text()
    assert "optimizer.lr" in page
    assert "[128]" in page


def test_the_journal_keeps_lists_and_groups(run: tuple[RunResult, Path]) -> None:
    found = elastune.load_run("last", folder=run[1]).found
    first = read_results(found).trials[0].config
    assert first["hidden"] == [128]
    optimizer = first["optimizer"]
    assert isinstance(optimizer, dict)
    assert (optimizer["name"], optimizer["momentum"]) == ("sgd", 0.9)


def test_speeds_are_learned_from_lists_and_groups() -> None:
    speeds = [
        ConfigSpeed(settings_of({"hidden": hidden, "optimizer": {"name": name}}), factor)
        for hidden, factor in (([64, 64], 0.5), ([128], 1.0), ([256, 256], 2.0))
        for name in ("sgd", "adam")
    ]
    plain = [{"config": dict(each.config), "factor": each.factor} for each in speeds]
    profile = job("sha", profile={"iteration": "5s", "speeds": plain}).profile
    fast, slow = profile.guess_speeds(
        [
            {"hidden": [64, 64], "optimizer": {"name": "sgd"}},
            {"hidden": [256, 256], "optimizer": {"name": "adam"}},
        ]
    )
    assert fast.factor < slow.factor / 2


def test_all_mistakes_of_a_space_are_in_the_error_of_the_job() -> None:
    text = """
search: {algorithm: random, trials: 2, max_iterations: 2}
trainable: mine.py:train
metric: accuracy
space:
  lr: {float: [1, 0]}
  optimizer:
    name: [sgd, adam]
    beta: {int: [1, 2], when: {nam: adam}}
  n: [1, 1]
cluster: {slots_per_node: 1}
slots: 3
"""
    with pytest.raises(elastune.JobError) as caught:
        Job.from_yaml_text(text, "job.yaml")
    assert [line.split(" is ")[0] for line in str(caught.value).splitlines()] == [
        "job.yaml: 5 problems",
        "  line 6: space.lr.float",
        "  line 9: space.optimizer.beta.when.nam",
        "  line 10: space.n.1",
        "  line 11: cluster.price_per_hour",
        "  line 12: slots",
    ]
