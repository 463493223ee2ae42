"""A search that begins with the trials of an earlier run, also of another space."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import elastune
from elastune.errors import JobError
from elastune.job.job import Job
from elastune.model.metric import Mode
from elastune.runs.warm_start import with_old_trials
from elastune.space.parsing import parse_space
from elastune.space.warm_start import OldTrial, map_trials
from tests.runs.checked_run import job_of

PEAK = 0.73


def peaked(config: Mapping[str, float], iteration: int) -> float:
    """The nearer `x` is to the peak, the better."""
    return 1.0 - abs(config["x"] - PEAK) + 0.001 * iteration


def searched(**changes: object) -> Job:
    return job_of(peaked, **{"search__algorithm": "random", "search__trials": 12, **changes})


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A folder with one finished run."""
    elastune.simulate_many(searched(), folder=tmp_path)
    return tmp_path


def best_of(folder: Path) -> object:
    best = elastune.status("last", folder=folder).standing.best
    assert best is not None
    return best.config


def test_the_best_configuration_of_the_old_run_is_tried_first(old: Path) -> None:
    known = with_old_trials(searched(warm_start="last"), old)
    first = known.make_sampler().ask(0)
    assert first == best_of(old)
    assert known.tuning().make_sampler(0).ask(1) not in (None, first)


def test_so_many_of_the_best_are_tried_first_and_none_if_none_is_asked_for(old: Path) -> None:
    runs = elastune.load_run("last", folder=old).trials().sort_values("best", ascending=False)
    many = with_old_trials(searched(warm_start={"run": "last", "first": 3}), old).make_sampler()
    drawn = [many.ask(trial) for trial in range(3)]
    assert [config["x"] for config in drawn if config] == list(runs["config/x"])[:3]
    none = with_old_trials(searched(warm_start={"run": "last", "first": 0}), old).make_sampler()
    assert none.ask(0) == searched().make_sampler().ask(0)


def test_a_sampler_that_learns_knows_the_old_trials(old: Path) -> None:
    changes = {"search__sampler": "tpe", "search__trials": 8, "seed": 5}
    warm = searched(**changes, warm_start={"run": "last", "first": 0})
    told = elastune.simulate_many(warm, folder=old).results[0]
    cold = elastune.simulate_many(searched(**changes), folder=old).results[0]
    assert told.best is not None
    assert cold.best is not None
    assert told.best.metric > cold.best.metric  # the cold one draws its first ten at random


def test_the_job_of_a_run_holds_the_old_trials_so_that_its_journal_suffices(old: Path) -> None:
    known = with_old_trials(searched(warm_start="last"), old)
    assert known.warm_start is not None
    assert known.warm_start.old_trials is not None
    assert len(known.warm_start.old_trials) == 12
    data = {**known.to_dict(), "trainable": peaked}
    again = Job.from_dict(data)
    assert again.warm_start == known.warm_start
    assert with_old_trials(again, old / "nowhere") is again
    assert again.make_sampler().ask(0) == known.make_sampler().ask(0)
    assert "warm_start" not in searched().to_dict()


def test_a_run_with_another_metric_or_mode_is_refused(old: Path) -> None:
    with pytest.raises(JobError, match="whose metric is 'score', but the metric of this job is 'loss'"):
        with_old_trials(searched(warm_start="last", metric="loss", mode="min"), old)
    with pytest.raises(JobError, match="whose mode is max, but this job has min"):
        with_old_trials(searched(warm_start="last", mode="min"), old)
    with pytest.raises(JobError, match=r"no run under .* matches 'abc'"):
        with_old_trials(searched(warm_start="abc"), old)


def test_a_path_is_relative_to_the_job_file(old: Path) -> None:
    (run,) = old.iterdir()
    text = f"warm_start: {run.name}\nsearch: {{algorithm: random, trials: 3, max_iterations: 2}}\n"
    text += "profile: {iteration: 1}\ncluster: {slots_per_node: 1, max_nodes: 1, price_per_hour: 1}\n"
    text += "trainable: synthetic:hypersched\n"
    (old / "job.yaml").write_text(text)
    job = elastune.load_job(old / "job.yaml")
    assert job.warm_start is not None
    assert job.warm_start.run == str(run)


SPACE = parse_space(
    {"lr": {"float": [0.001, 0.1], "log": True}, "layers": {"int": [1, 4]}, "kind": {"choice": ["a", "b"]}}
)


def test_what_the_new_space_lacks_or_excludes_is_left_out_and_named() -> None:
    trials = [
        OldTrial({"lr": 0.01, "layers": 2, "kind": "a", "dropout": 0.5}, (0.1, 0.9)),
        OldTrial({"lr": 0.5, "layers": 2, "kind": "b"}, (0.8,)),
        OldTrial({"lr": 0.02, "layers": 3, "kind": "c"}, (0.7,)),
        OldTrial({"lr": 0.03, "layers": 1, "kind": "b"}, ()),
    ]
    mapped = map_trials(SPACE, trials)
    assert [trial.config for trial in mapped.trials] == [
        {"lr": 0.01, "layers": 2, "kind": "a"},
        {"layers": 2, "kind": "b"},
        {"lr": 0.02, "layers": 3},
    ]
    assert [trial.is_whole for trial in mapped.trials] == [True, False, False]
    assert mapped.left_out == {"dropout": 1, "lr": 1, "kind": 1}
    assert mapped.best(2, Mode.MAX) == [mapped.trials[0].config, mapped.trials[1].config]
    assert mapped.best(1, Mode.MIN) == [mapped.trials[0].config]
    told = mapped.describe("3fa2c1", learns=True, first=1)
    assert told == (
        "warm start with run 3fa2c1: the sampler learns from 1 trial; the best 1 configuration of it first; "
        "2 trials without all hyperparameters of this space not shown to it; not of this space and ignored: "
        "dropout, kind, lr"
    )


def test_conditional_hyperparameters_that_no_longer_apply_are_left_out() -> None:
    space = parse_space(
        {
            "optimizer": {"choice": ["sgd", "adam"]},
            "momentum": {"float": [0.0, 1.0], "when": {"optimizer": "sgd"}},
        }
    )
    mapped = map_trials(space, [OldTrial({"optimizer": "adam", "momentum": 0.9}, (0.5,))])
    assert mapped.trials[0].config == {"optimizer": "adam"}
    assert mapped.trials[0].is_whole
