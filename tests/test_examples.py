"""The examples, and the page about running: they learn, they plan, and they run as shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import elastune
from elastune.checkpoints.encoding import decode, encode
from elastune.job.job import load_job
from elastune.training.groups import Group, Solo
from elastune.training.recipe import load, open_recipe
from elastune.training.worker import make_worker
from tests.adapters.contract import marks_of
from tests.cli.commands import elastune as elastune_here
from tests.docs.running import without_aws
from tests.test_documents import README, ROOT, blocks
from tests.training.gangs import Crew
from tests.waiting import PATIENCE_S

EXAMPLES = ROOT / "examples"
RUNNING = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
DIGITS = {"lr": 0.2, "momentum": 0.5, "width": 16, "weight_decay": 1e-4}
KERNEL = {"gamma": 0.1, "alpha": 1e-5, "loss": "hinge", "average": True}
BOTH = pytest.mark.parametrize(
    ("name", "config"), [("digits.py:Digits", DIGITS), ("kernel.py:train", KERNEL)], ids=["digits", "kernel"]
)


def train(
    name: str,
    config: dict[str, Any],
    first: int,
    last: int,
    state: bytes | None = None,
    group: Group | None = None,
) -> tuple[list[float], list[bytes]]:
    """The accuracy and the state after each iteration."""
    worker = make_worker(group or Solo(), seed=7, threads=1)
    recipe = open_recipe(load(f"{EXAMPLES}/{name}"), name=name, metric="accuracy")
    training = recipe.start(config, worker, None if state is None else decode(state, pickles=True))
    rows, states = [], []
    for worker.iteration in range(first, last + 1):
        row = training.step()
        assert row is not None
        rows.append(row["accuracy"])
        states.append(encode(training.save(), pickles=True))
    return rows, states


def digits_in_a_gang(group: Group) -> tuple[list[float], bytes]:
    rows, states = train("digits.py:Digits", DIGITS, 1, 2, group=group)
    return rows, states[-1]


@BOTH
def test_an_example_learns_and_goes_on_from_its_state_as_if_nothing_had_happened(
    name: str, config: dict[str, Any]
) -> None:
    rows, states = train(name, config, 1, 4)
    assert rows[-1] > max(rows[0], 0.8)
    again, same = train(name, config, 3, 4, states[1])
    assert again == rows[2:]
    if name.startswith("digits"):  # a pickled model of scikit-learn has no bytes of its own
        assert same == states[2:]


@pytest.fixture
def crew() -> Iterator[Crew]:
    crew = Crew()
    yield crew
    crew.close()


def test_the_digits_learn_the_same_in_a_gang(crew: Crew) -> None:
    rows, alone = digits_in_a_gang(Solo())
    for found, state in crew.run(2, digits_in_a_gang):
        assert found == pytest.approx(rows, abs=0.01)
        torch.testing.assert_close(decode(state)["model"], decode(alone)["model"], atol=1e-4, rtol=1e-3)


def test_the_digits_wait_for_their_pace_only_if_they_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    paced, _ = train("digits.py:Digits", {**DIGITS, "pace": 1000.0}, 1, 1)
    free, _ = train("digits.py:Digits", DIGITS, 1, 1)
    assert paced == free
    assert slept[0] > 900.0
    assert slept[1] == 0.0


QUOTED_ELSEWHERE = {"aws"}  # with its simulated interruptions: `docs/aws.md`, whose output is compared


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.slow if path.stem in QUOTED_ELSEWHERE else (), id=path.stem)
        for path in sorted(EXAMPLES.glob("*.yaml"))
    ],
)
def test_every_example_keeps_its_limits_by_plan(path: Path) -> None:
    with without_aws():
        job, quote = load_job(path), elastune.quote(path)
    assert job.deadline is None or quote.jct_seconds <= job.deadline
    assert job.budget is None or quote.cost <= job.budget


def test_the_digits_need_fewer_and_fewer_nodes() -> None:
    job = load_job(EXAMPLES / "digits.yaml")
    for startup_s, first in ((0.0, 2), (20.0, 3)):  # of the deadline
        quote = elastune.plan(job.with_deadline(120.0 - startup_s))
        nodes = [stage.nodes_held for stage in quote.stages]
        assert nodes == sorted(nodes, reverse=True)
        assert (nodes[0], nodes[-1]) == (first, 1)


def run(*command: str, folder: Path) -> list[str]:
    """As a process of its own: Ray stays connected to the one that started it."""
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env={**os.environ, "COLUMNS": "100"},
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [line.rstrip() for line in done.stdout.rstrip().splitlines()]


def as_shown(text: str, command: str) -> list[str]:
    (block,) = (block for block in blocks(text, "console") if block.startswith(f"$ {command}\n"))
    return block.rstrip().splitlines()[1:]


def lines_of(lines: list[str], *beginnings: str) -> list[str]:
    """What does not depend on the clock."""
    return [line for line in lines if line.startswith(beginnings)]


def without_deadline(lines: list[str]) -> list[str]:
    """A run plans for what start-up leaves of it, which differs."""
    return [re.sub(r"(?<=by a deadline of )[^,]+", "", line) for line in lines]


def test_the_demo_of_the_readme_begins_with_the_quote() -> None:
    shown = as_shown(README, "make demo")
    printed = elastune_here("plan", "examples/digits.yaml", cwd=ROOT).stdout
    quote = [line.rstrip() for line in printed.rstrip().splitlines()]
    head = shown[1 : shown.index("...")]
    assert without_deadline(head) == without_deadline(quote[: len(head)])


@pytest.fixture
def page(tmp_path: Path) -> Path:
    for name, text in re.findall(r"```\w+ ([\w.]+)\n(.*?)```", RUNNING, re.DOTALL):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_quote_of_the_page_about_running_is_the_one_of_its_job(page: Path) -> None:
    shown = as_shown(RUNNING, "elastune run job.yaml")
    quote = shown.index("")
    printed = elastune_here("plan", "job.yaml", cwd=page).stdout.splitlines()
    planned = [line.rstrip() for line in printed[:quote]]
    assert without_deadline(planned) == without_deadline(shown[:quote])


@pytest.mark.slow  # the README's example is a real run, too
def test_the_page_about_running_shows_what_happens(page: Path) -> None:
    """Who survives does not depend on the plan, so a deadline that any machine keeps gives the same model."""
    shown = as_shown(RUNNING, "elastune run job.yaml")
    job = page / "job.yaml"
    job.write_text(re.sub(r"(?m)^deadline: .*$", "deadline: 30m", job.read_text(encoding="utf-8")))
    printed = run("-m", "elastune", "run", "job.yaml", folder=page)
    assert [line.split() for line in lines_of(printed, "best", "trials")] == [
        line.split() for line in lines_of(shown, "best", "trials")
    ]
    assert any(line.startswith("job: complete") for line in printed)
    logs = next(page.glob("elastune-runs/*/logs"))
    assert (logs / "trial-00003.log").read_text(encoding="utf-8").startswith("iteration 1: ")


@pytest.mark.slow
def test_the_best_model_is_loaded_as_the_page_about_running_shows(page: Path) -> None:
    (code,) = blocks(RUNNING, "python")
    (page / "mine.py").write_text(code, encoding="utf-8")
    first, shape = run("mine.py", folder=page)
    assert first.startswith("complete ")
    assert shape == "(64, 10)"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("digits", 0.97), ("kernel", 0.9)])
def test_the_examples_run_for_real(name: str, least: float, tmp_path: Path) -> None:
    folder = str(tmp_path)
    run("-m", "elastune", "run", f"examples/{name}.yaml", "--runs-folder", folder, folder=ROOT)
    status = elastune.status("last", folder=tmp_path)
    standing = status.standing
    assert standing.keeps_deadline
    assert standing.keeps_budget is not False
    assert standing.best is not None
    assert standing.best.metric > least
    pages = run("-m", "elastune", "report", "last", "--runs-folder", folder, folder=ROOT)
    assert Path(pages[0]).read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "least"),
    [
        pytest.param("xgboost", -0.3),
        pytest.param("sklearn", 0.95),
        pytest.param("lightning", 0.95, marks=marks_of("lightning")),
        pytest.param("keras", 0.95, marks=marks_of("keras")),
        pytest.param("transformers", 0.7, marks=marks_of("transformers")),
    ],
)
def test_the_examples_of_the_adapters_run_for_real(name: str, least: float, tmp_path: Path) -> None:
    run("-m", "elastune", "run", f"examples/{name}.yaml", "--runs-folder", str(tmp_path), folder=ROOT)
    standing = elastune.status("last", folder=tmp_path).standing
    assert standing.failed == 0
    assert standing.best is not None
    assert (-1 if name == "xgboost" else 1) * standing.best.metric > least
