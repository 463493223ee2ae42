"""Visits on one node, without Ray: a large model stays in the shared memory of the node."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from elastune.checkpoints.encoding import decode, decode_shared
from elastune.data.registering import register
from elastune.runtime.ray.messages import (
    Broken,
    Form,
    GangId,
    HeldModel,
    Model,
    ModelSource,
    SlotReady,
    Visited,
    VisitOrder,
)
from tests.runtime.real.hoppers import HERE, write_data
from tests.runtime.real.slot_processes import Watched, crew_of, form
from tests.waiting import wait_until

CONFIG: dict[str, Any] = {"x": 0.5, "ballast": 50_000}
VISITS = 4


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("node")
    dataset = register(write_data(folder / "data"))
    with crew_of("Walker", folder, slots=2, dataset=dataset, home=HERE) as watched:
        yield watched


def order(trial: int, number: int, model: Model | None, config: dict[str, Any] = CONFIG) -> Form:
    if model is not None and isinstance(model.data, HeldModel):
        # As from the driver.
        source = ModelSource(host="127.0.0.1", port=1, token=b"", agent="nobody")
        model = replace(model, data=replace(model.data, source=source))
    visit = VisitOrder(partition=number, done=number, of=VISITS, evaluates=False)
    base = form(trial, generation=number + 1)
    return replace(base, config=config, share=(0, 1, 2, 3), visit=visit, model=model)


def go(crew: Watched, slot: int, ordered: Form) -> Visited:
    crew.processes.order(slot, ordered)
    return crew.wait_for(Visited, lambda news: news.gang == ordered.gang)


def state_of(crew: Watched, model: Model) -> Any:
    if isinstance(model.data, bytes):
        return decode(model.data)
    assert isinstance(model.data, HeldModel)
    with crew.processes.reading(model.data.key) as view:
        return {"digest": decode_shared(view)["digest"]}


def walk(crew: Watched, trial: int, slots: tuple[int, ...], config: dict[str, Any]) -> str:
    """The digest after the visits before the last."""
    model: Model | None = None
    for number, slot in enumerate(slots):
        after = go(crew, slot, order(trial, number, model, config)).model
        if model is not None and isinstance(model.data, HeldModel):
            crew.processes.drop_model(model.data.key)
        model = after
    assert model is not None
    return str(state_of(crew, model)["digest"])


def test_a_model_arrives_as_it_left_on_the_same_slot_and_on_another(crew: Watched) -> None:
    small = walk(crew, 0, (0, 0, 0), {**CONFIG, "ballast": 1})
    assert walk(crew, 1, (0, 0, 0), CONFIG) == small
    assert walk(crew, 2, (0, 1, 0), CONFIG) == small


def test_large_models_do_not_travel_in_messages(crew: Watched) -> None:
    news = go(crew, 0, order(3, 0, None))
    assert isinstance(news.model.data, HeldModel)
    assert news.model.data.key == GangId(3, 1)
    assert news.size > 8 * CONFIG["ballast"]


def test_the_memory_of_a_model_that_is_not_needed_is_used_again(crew: Watched) -> None:
    first = go(crew, 0, order(4, 0, None)).model
    second = go(crew, 0, order(4, 1, first)).model
    assert isinstance(first.data, HeldModel)
    assert isinstance(second.data, HeldModel)
    assert second.data.segment != first.data.segment, "the model before a visit outlives it"
    crew.processes.drop_model(first.data.key)
    third = go(crew, 0, order(4, 2, second)).model
    assert isinstance(third.data, HeldModel)
    assert third.data.segment == first.data.segment
    assert not crew.processes.has_model(first.data.key)


def test_a_model_survives_the_process_that_trained_it(crew: Watched) -> None:
    model = go(crew, 1, order(5, 0, None)).model
    before = state_of(crew, model)
    pid = crew.processes.pids[2]
    os.kill(pid, signal.SIGKILL)
    crew.wait_for(SlotReady, lambda news: news.slot == 1)
    assert state_of(crew, model) == before
    assert go(crew, 1, order(5, 1, model)).gang == GangId(5, 2)


def test_a_model_that_is_not_on_the_node_is_reported_as_lost(crew: Watched) -> None:
    absent = HeldModel(key=GangId(77, 1), size=200_000)
    model = Model(trial=6, iteration=0, visits=1, data=absent, tally={})
    crew.processes.order(0, order(6, 1, model))
    broken = crew.wait_for(Broken)
    assert (broken.fault, broken.model_lost) == (False, True)


def test_the_last_visit_leaves_a_checkpoint(crew: Watched, tmp_path_factory: pytest.TempPathFactory) -> None:
    model = None
    for number in range(VISITS):
        news = go(crew, number % 2, order(7, number, model))
        model = news.model
    assert news.row is not None
    base = tmp_path_factory.getbasetemp()
    (path,) = wait_until(lambda: list(base.glob("node[0-9]*/trial-00007/iteration-000001.ckpt")))
    assert decode(Path(path).read_bytes())["digest"] == state_of(crew, news.model)["digest"]


@pytest.mark.parametrize("done", [0, 1])
def test_a_visit_without_the_metric_breaks_its_trial_whether_it_is_the_first_or_not(
    crew: Watched, done: int
) -> None:
    """Otherwise trials would be compared by means over different partitions."""
    config = {**CONFIG, "silent_on": 1}
    model = go(crew, 0, order(8 + done, 0, None, config)).model if done else None
    visit = VisitOrder(partition=1, done=done, of=VISITS, evaluates=False)
    ordered = replace(order(8 + done, 1, model, config), visit=visit)
    crew.processes.order(0, ordered)
    broken = crew.wait_for(Broken, lambda news: news.gang == ordered.gang)
    assert broken.fault
    assert "step of Walker reported no 'score' for a partition, only mean" in broken.error
    crew.wait_for(SlotReady)
