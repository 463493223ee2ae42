"""The proof: a gang of any size, and one that is resized on the way, learns what one worker learns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from elastune.checkpoints.encoding import decode, encode
from elastune.training.groups import Group, Solo
from elastune.training.recipe import open_recipe
from elastune.training.worker import make_worker
from tests.training.gangs import Crew
from tests.training.models import Network, network

EPOCHS = 4
USERS = {"class": Network, "function": network}


@dataclass(frozen=True, kw_only=True)
class Leg:
    """A part of a training: these epochs, from this checkpoint."""

    kind: str
    config: Mapping[str, Any]
    first: int
    last: int
    checkpoint: bytes | None


def train(group: Group, leg: Leg) -> tuple[list[float], bytes]:
    """On one rank: the losses, and the state of this very rank (all must be equal, not only rank 0's)."""
    worker = make_worker(group, seed=11, threads=1)
    state = None if leg.checkpoint is None else decode(leg.checkpoint)
    training = open_recipe(USERS[leg.kind], name=leg.kind, metric="loss").start(leg.config, worker, state)
    losses = []
    for worker.iteration in range(leg.first, leg.last + 1):
        row = training.step()
        assert row is not None
        losses.append(row["loss"])
    saved = encode(training.save())
    training.close()
    return losses, saved


def train_in_gangs(
    crew: Crew, kind: str, config: Mapping[str, Any], sizes: list[int]
) -> tuple[list[float], Any]:
    """The epochs divided over gangs of these sizes, each going on from the checkpoint of the one before."""
    per_gang = EPOCHS // len(sizes)
    losses: list[float] = []
    checkpoint = None
    for number, size in enumerate(sizes):
        leg = Leg(
            kind=kind, config=config, first=number * per_gang + 1, last=(number + 1) * per_gang,
            checkpoint=checkpoint,
        )  # fmt: skip
        results = crew.run(size, train, leg)
        states = [decode(saved)["model"] for _, saved in results]
        assert_close(states[1:], states[:1] * (size - 1), exactly=True)
        assert all(row == results[0][0] for row, _ in results)
        losses += results[0][0]
        checkpoint = results[0][1]
    assert checkpoint is not None
    return losses, decode(checkpoint)


def assert_close(found: Any, expected: Any, *, exactly: bool = False) -> None:
    tolerance = {"atol": 0.0, "rtol": 0.0} if exactly else {"atol": 1e-10, "rtol": 1e-9}
    torch.testing.assert_close(found, expected, **tolerance)


def alone(kind: str, config: Mapping[str, Any]) -> tuple[list[float], Any]:
    leg = Leg(kind=kind, config=config, first=1, last=EPOCHS, checkpoint=None)
    losses, saved = train(Solo(), leg)
    return losses, decode(saved)


@pytest.mark.parametrize("kind", USERS)
@pytest.mark.parametrize("sizes", [[2], [4], [1, 4], [4, 1], [2, 4, 1, 3]], ids=str)
def test_a_gang_of_any_size_and_a_resized_one_learn_what_one_worker_learns(
    crew: Crew, kind: str, sizes: list[int]
) -> None:
    config = {"lr": 0.1, "batch": 10, "epochs": EPOCHS}
    losses, state = alone(kind, config)
    gang_losses, gang_state = train_in_gangs(crew, kind, config, sizes)
    assert gang_losses == pytest.approx(losses, rel=1e-9)
    assert losses[-1] < losses[0]
    assert_close(gang_state["model"], state["model"])
    assert_close(gang_state["optimizer"]["state"], state["optimizer"]["state"])


@pytest.mark.parametrize("micro", [1, 2, 3, 100])
def test_micro_batches_change_nothing(crew: Crew, micro: int) -> None:
    config = {"lr": 0.1, "batch": 10, "epochs": EPOCHS}
    _, state = alone("class", config)
    _, accumulated = alone("class", {**config, "micro": micro})
    assert_close(accumulated["model"], state["model"])
    if micro < 10:
        _, in_gangs = train_in_gangs(crew, "class", {**config, "micro": micro}, [3, 2])
        assert_close(in_gangs["model"], state["model"])


def test_a_batch_smaller_than_the_gang_is_still_one_batch(crew: Crew) -> None:
    config = {"lr": 0.1, "batch": 2, "epochs": EPOCHS}
    _, state = alone("class", config)
    _, in_gang = train_in_gangs(crew, "class", config, [4])
    assert_close(in_gang["model"], state["model"])


@pytest.mark.parametrize("kind", USERS)
def test_going_on_from_a_checkpoint_is_bit_for_bit_like_never_having_stopped(kind: str) -> None:
    config = {"lr": 0.1, "batch": 10, "epochs": EPOCHS}
    losses, state = alone(kind, config)
    first_losses, first = train(Solo(), Leg(kind=kind, config=config, first=1, last=3, checkpoint=None))
    last_losses, last = train(Solo(), Leg(kind=kind, config=config, first=4, last=4, checkpoint=first))
    assert first_losses + last_losses == losses
    assert_close(decode(last)["model"], state["model"], exactly=True)


def test_another_seed_learns_something_else() -> None:
    config = {"lr": 0.1, "batch": 10, "epochs": EPOCHS}
    _, state = alone("class", config)
    worker = make_worker(Solo(), seed=12)
    training = open_recipe(Network, name="class").start(config, worker, None)
    assert not torch.equal(training.save()["model"]["0.weight"], state["model"]["0.weight"])
