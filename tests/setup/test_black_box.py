"""A plan of a function that returns its metrics, whose code is read but not imported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import elastune
from elastune.errors import JobError
from elastune.job.job import Job
from elastune.setup.black_box import line_of_call

FOREST = """
raise RuntimeError("a plan imports this file")


def accuracy(config):
    def nested():
        yield 1
    return config["depth"] / 10
"""


def job(folder: Path, **changes: Any) -> dict[str, Any]:
    (folder / "forest.py").write_text(FOREST, encoding="utf-8")
    keys: Mapping[str, Any] = {
        "trainable": f"{folder / 'forest.py'}:accuracy",
        "space": {"depth": {"int": [2, 12]}},
        "metric": "accuracy",
        "search": {"algorithm": "random", "trials": 8},
        "deadline": "5m",
        "profile": {"iteration": "1s"},
    }
    return {**keys, **changes}


@pytest.mark.parametrize(
    ("search", "line"),
    [
        ({"algorithm": "random", "trials": 8}, "search: {algorithm: random, trials: 8, max_iterations: 1}"),
        ("random", "search: {algorithm: random, max_iterations: 1}"),
        ({"algorithm": "grid", "max_iterations": 4}, "search: {algorithm: grid, max_iterations: 1}"),
        (
            {"algorithm": "sha", "trials": 8, "max_iterations": 9},
            "search: {algorithm: random, max_iterations: 1, sampler: tpe}",
        ),
    ],
)
def test_a_plan_of_a_black_box_names_the_line_to_write(tmp_path: Path, search: Any, line: str) -> None:
    with pytest.raises(JobError) as refused:
        elastune.quote(job(tmp_path, search=search))
    text = str(refused.value)
    assert f"{tmp_path / 'forest.py'}:5: accuracy has no yield" in text
    assert "does not import your code" in text
    assert f"write {line}, or" in text


def test_the_line_that_it_names_is_planned(tmp_path: Path) -> None:
    quote = elastune.quote(job(tmp_path, search={"algorithm": "random", "trials": 8, "max_iterations": 1}))
    assert quote is not None


def test_a_fidelity_says_how_much_a_call_trains(tmp_path: Path) -> None:
    search = {"algorithm": "sha", "trials": 4, "max_iterations": 4}
    assert elastune.quote(job(tmp_path, search=search, fidelity="trees")) is not None


@pytest.mark.parametrize(
    "text",
    [
        "def f(config):\n    yield {'a': 1}\n",
        "def f(config, iteration):\n    return 1\n",
        "def f(config):\n    print(config)\n",
        "@tuned\ndef f(config):\n    return 1\n",
        "class f:\n    def step(self):\n        return 1\n",
        "f = print\n",
        "def f(config:\n",
    ],
)
def test_what_the_text_does_not_show_is_not_judged(tmp_path: Path, text: str) -> None:
    (tmp_path / "some.py").write_text(text, encoding="utf-8")
    assert line_of_call(f"{tmp_path / 'some.py'}:f") is None
    assert line_of_call("package.module:f") is None
    assert line_of_call(f"{tmp_path / 'missing.py'}:f") is None


def test_a_worker_may_be_the_second_argument(tmp_path: Path) -> None:
    (tmp_path / "some.py").write_text("\n\ndef f(config, worker):\n    return 1\n", encoding="utf-8")
    assert line_of_call(f"{tmp_path / 'some.py'}:f") == 3


def test_a_black_box_cannot_be_simulated_and_the_message_says_why(tmp_path: Path) -> None:
    source = tmp_path / "forest.py"
    given = job(tmp_path, search={"algorithm": "random", "trials": 8, "max_iterations": 1})
    source.write_text(FOREST.replace("raise", "#"), encoding="utf-8")
    with pytest.raises(JobError, match=r"returns its metrics once.*`elastune run` trains it"):
        elastune.simulate(given)


def test_without_a_cluster_a_quote_counts_the_boot_of_this_machine(tmp_path: Path) -> None:
    given = job(tmp_path)
    assert Job(**given).cluster.init.mean == 5.0
    assert Job(**{**given, "cluster": {"nodes": 1}}).cluster.init.mean == 0.0
    assert Job(**{**given, "profile": None}).cluster.init.mean == 0.0
