"""What the page about trainables shows is what happens."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest
import torch

from elastune.checkpoints.encoding import decode, encode
from elastune.errors import JobError
from elastune.training.groups import Solo
from elastune.training.recipe import open_recipe
from elastune.training.worker import make_worker
from tests.test_documents import ROOT, blocks
from tests.training.gangs import Crew

PAGE = (ROOT / "docs" / "trainables.md").read_text(encoding="utf-8")


def run_page(examples: list[str]) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for code in examples:
        exec(compile(code, "example", "exec"), names)
    return names


def definitions() -> dict[str, Any]:
    return run_page([code for code in blocks(PAGE, "python") if "print(" not in code])


def train_as_shown(group: Any, step: str | None) -> bytes:
    """The weights after one epoch, trained by the class itself or by another function of the page."""
    names = definitions()
    user = names["Digits"]
    if step is not None:
        user.step = lambda self: names[step](self) or {}
    worker = make_worker(group, seed=1, threads=1)
    training = open_recipe(user, name="Digits").start({"lr": 0.1, "momentum": 0.9}, worker, None)
    worker.iteration = 1
    training.step()
    return encode(training.save()["model"])


def test_the_examples_print_what_the_page_shows() -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        run_page(blocks(PAGE, "python"))
    assert printed.getvalue() == blocks(PAGE, "text")[0]


def test_the_examples_learn_the_same_in_a_gang_and_in_small_pieces(crew: Crew) -> None:
    alone = decode(train_as_shown(Solo(), None))
    pieces = train_as_shown(Solo(), "epoch_in_small_pieces")
    for found in (*crew.run(2, train_as_shown, None), pieces):
        torch.testing.assert_close(decode(found), alone, atol=1e-5, rtol=1e-4)


def test_the_example_of_scikit_learn_needs_pickles() -> None:
    names = definitions()
    recipe = open_recipe(names["Linear"], name="Linear", metric="accuracy")
    assert recipe.most_slots == 1
    worker = make_worker(Solo(), seed=1)
    training = recipe.start({"alpha": 1e-4}, worker, None)
    worker.iteration = 1
    row = training.step()
    assert row is not None
    assert row["accuracy"] > 0.5
    with pytest.raises(JobError, match=r"state\['model'\] is a sklearn\..*SGDClassifier; a state has"):
        encode(training.save())
    state = decode(encode(training.save(), pickles=True), pickles=True)
    again = recipe.start({"alpha": 1e-4}, worker, state)
    worker.iteration = 2
    assert again.step() == training.step()
