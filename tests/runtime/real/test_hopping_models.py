"""How models travel between nodes: what arrives is the model that was named, whatever lies at hand."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from elastune.core import commands as do
from elastune.model.ids import NodeId, Slot, TrialId
from elastune.runtime.ray.messages import (
    Broken,
    Form,
    GangId,
    Model,
    News,
    Order,
    Prefetch,
    Visited,
    VisitOrder,
)
from elastune.runtime.ray.model_transfer import ModelCarrier, ModelPlaces, put_model
from elastune.runtime.ray.slot_processes import SlotProcesses
from tests.runtime.real.crews import form
from tests.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


class _Slots:
    """Stands for the slot processes: takes orders and does nothing."""

    def __init__(self) -> None:
        self.orders: queue.Queue[Order] = queue.Queue()

    def order(self, _slot: int, order: Order) -> None:
        self.orders.put(order)


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    import ray  # noqa: PLC0415

    ray.init(num_cpus=1, include_dashboard=False, _node_ip_address="127.0.0.1", log_to_driver=False)
    yield ray
    ray.shutdown()


class _Node:
    def __init__(self) -> None:
        self.slots = _Slots()
        self.news: queue.Queue[News] = queue.Queue()
        self.carrier = ModelCarrier(cast("SlotProcesses", self.slots), 1, self.news.put)

    def formed(self) -> Form:
        order = self.slots.orders.get(timeout=PATIENCE_S)
        assert isinstance(order, Form)
        return order


@pytest.fixture
def node() -> Iterator[_Node]:
    node = _Node()
    yield node
    node.carrier.close()


def model(data: object, visits: int = 2) -> Model:
    return Model(trial=0, iteration=3, visits=visits, data=data, tally={})


def visit(named: Model, generation: int = 1) -> Form:
    visit = VisitOrder(partition=1, done=named.visits, of=4, evaluates=False)
    return replace(form(0, generation=generation, after=3), model=named, visit=visit)


def _bring(node: _Node, named: Model) -> None:
    node.carrier.order(0, Prefetch(model=named))
    node.carrier._threads.submit(lambda: None).result(PATIENCE_S)  # one thread: what came before is done


def test_a_model_that_was_brought_is_at_hand(ray: Any, node: _Node) -> None:
    named = model(ray.put(b"first"))
    _bring(node, named)
    node.carrier.order(0, visit(named))
    arrived = node.slots.orders.get_nowait()  # at once: nobody fetches
    assert isinstance(arrived, Form)
    assert arrived.model == model(b"first")


def test_a_model_of_as_many_visits_by_another_way_is_not_the_one_that_was_brought(
    ray: Any, node: _Node
) -> None:
    """After a loss the same visits were made again, in another order."""
    _bring(node, model(ray.put(b"by partitions 0 and 1")))
    node.carrier.order(0, visit(model(ray.put(b"by partitions 0 and 2"))))
    assert node.formed().model == model(b"by partitions 0 and 2")


def test_a_model_that_is_lost_between_two_iterations_is_read_from_the_store(ray: Any, node: _Node) -> None:
    node.carrier.order(0, visit(model(_lost(ray), visits=0)))
    assert node.formed().model is None


def test_a_model_that_is_lost_amid_an_iteration_breaks_its_visit_and_nobody_is_to_blame(
    ray: Any, node: _Node
) -> None:
    node.carrier.order(0, visit(model(_lost(ray)), generation=5))
    broken = node.news.get(timeout=PATIENCE_S)
    assert isinstance(broken, Broken)
    assert (broken.gang, broken.fault) == (GangId(0, 5), False)
    assert "lost on its way" in broken.error


def test_heavy_models_travel_by_name_and_light_ones_as_they_are(ray: Any) -> None:
    for size, is_named in ((10, False), (200_000, True)):
        data = b"x" * size
        told = put_model(
            Visited(
                gang=GangId(0, 1), at=0.0, seconds=1.0, load_s=0.0, model=model(data), size=size, kept=False
            )
        )
        assert isinstance(told, Visited)
        assert (told.model.data != data) is is_named
        assert (ray.get(told.model.data) if is_named else told.model.data) == data


def _lost(ray: Any) -> object:
    """A name under which there is nothing to be had."""

    def fail() -> None:
        raise RuntimeError("gone")

    name: object = ray.remote(max_retries=0)(fail).remote()
    return name


def test_the_driver_names_the_newest_model_only() -> None:
    models, slot = ModelPlaces(), Slot(NodeId("n0"), 0)
    lease = do.Train(
        trial=TrialId(0), generation=1, gang=(slot,), after_iteration=3, until_iteration=4,
        visit=do.Visit(1, 2, 4),
    )  # fmt: skip
    assert models.find(lease) is None
    assert not models.record(model(b"", visits=1), slot)
    assert models.find(lease) is None, "the state after two visits is meant"
    assert models.record(model(b""), Slot(NodeId("n1"), 0)), "it hopped"
    found = models.find(lease)
    assert found is not None
    assert found.model == model(b"")
    models.forget(TrialId(0))
    assert models.find(lease) is None
