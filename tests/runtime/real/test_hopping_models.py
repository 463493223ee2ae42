"""How models travel between nodes: what arrives is the model that was named, whatever lies at hand."""

from __future__ import annotations

import os
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from elastune.core import commands as do
from elastune.model.ids import NodeId, Slot, TrialId
from elastune.runtime.ray.messages import (
    Broken,
    Form,
    GangId,
    HeldModel,
    Model,
    ModelSource,
    News,
    Order,
    Prefetch,
    VisitOrder,
)
from elastune.runtime.ray.model_server import ModelServer, receive_model, receive_over
from elastune.runtime.ray.model_transfer import ModelCarrier, ModelPlaces
from elastune.runtime.ray.shared_models import NodeModels, map_privately
from elastune.runtime.ray.slot_processes import SlotProcesses
from tests.runtime.real.slot_processes import form
from tests.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


class _Slots:
    """Stands for the slot processes: takes orders and does nothing; its shared memory is real."""

    def __init__(self) -> None:
        self.orders: queue.Queue[Order] = queue.Queue()
        self.models = NodeModels()

    def order(self, _slot: int, order: Order) -> None:
        self.orders.put(order)

    def has_model(self, key: GangId) -> bool:
        return key in self.models

    def claim_model(self, key: GangId, gang: GangId) -> bool:
        return self.models.read(key, gang) is not None

    def unclaim_model(self, gang: GangId) -> None:
        self.models.release(gang)

    def take_copy(
        self,
        key: GangId,
        slot: int,
        size: int,
        fill: Callable[[memoryview], None],
        claimed_by: GangId | None = None,
    ) -> None:
        segment = self.models.reserve(size)
        fill(segment.room(size))
        self.models.add_copy(key, slot, segment)
        if claimed_by is not None:
            self.models.read(key, claimed_by)

    def drop_model(self, key: GangId) -> None:
        self.models.drop(key)

    def read(self, key: GangId) -> bytes:
        found = self.models.read(key, 0)
        assert found is not None
        return bytes(map_privately(os.dup(found.handle), found.size))


class Owner:
    """Stands for the agent of another node."""

    def __init__(self, models: dict[GangId, bytes]) -> None:
        self._models = models

    def give(self, key: GangId) -> list[object]:
        import ray  # noqa: PLC0415

        return [ray.put(np.frombuffer(self._models[key], np.uint8))]


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    import ray  # noqa: PLC0415

    ray.init(num_cpus=1, include_dashboard=False, _node_ip_address="127.0.0.1", log_to_driver=False)
    yield ray
    ray.shutdown()


FIRST, SECOND, LOST = GangId(0, 1), GangId(0, 2), GangId(0, 3)
MODELS = {FIRST: b"by partitions 0 and 1", SECOND: b"by 0 and 2"}


@contextmanager
def read(key: GangId) -> Iterator[memoryview]:
    yield memoryview(MODELS[key])


@pytest.fixture(scope="module", params=["a port", "a port behind a firewall"])
def source(ray: Any, request: pytest.FixtureRequest) -> Iterator[ModelSource]:
    name = f"owner {request.param}"
    owner = ray.remote(num_cpus=0)(Owner).options(name=name).remote(MODELS)
    server = ModelServer("127.0.0.1", name, read)
    if request.param != "a port":
        server.close()
        yield server.source
    else:
        yield replace(server.source, agent="nobody")
        server.close()
    ray.kill(owner)


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


def held(key: GangId, source: ModelSource) -> HeldModel:
    return HeldModel(key=key, size=len(MODELS.get(key, b"?")), source=source)


def model(data: bytes | HeldModel, visits: int = 2) -> Model:
    return Model(trial=0, iteration=3, visits=visits, data=data, tally={})


def visit(named: Model, generation: int = 7) -> Form:
    visit = VisitOrder(partition=1, done=named.visits, of=4, evaluates=False)
    return replace(form(0, generation=generation, after=3), model=named, visit=visit)


def _bring(node: _Node, named: Model) -> None:
    node.carrier.order(0, Prefetch(model=named))
    node.carrier._threads.shutdown(wait=True)


def test_a_model_that_was_brought_is_at_hand(node: _Node, source: ModelSource) -> None:
    _bring(node, model(held(FIRST, source)))
    node.carrier.order(0, visit(model(held(FIRST, source))))
    node.slots.orders.get_nowait()  # at once: nothing is fetched
    assert node.slots.read(FIRST) == b"by partitions 0 and 1"


def test_a_model_of_as_many_visits_by_another_way_is_not_the_one_that_was_brought(
    node: _Node, source: ModelSource
) -> None:
    """After a loss the same visits were made again, in another order."""
    node.carrier.order(0, Prefetch(model=model(held(FIRST, source))))
    node.carrier.order(0, visit(model(held(SECOND, source))))
    arrived = node.formed()
    assert arrived.model is not None
    assert arrived.model.data == held(SECOND, source)
    assert node.slots.read(SECOND) == b"by 0 and 2"


@pytest.mark.parametrize("is_brought", [False, True])
def test_a_model_that_a_visit_waits_for_stays_when_the_next_one_arrives(
    node: _Node, source: ModelSource, *, is_brought: bool
) -> None:
    """The driver orders the visit and asks for the model of the visit after it in one message."""
    if is_brought:
        node.carrier._threads.submit(node.carrier._prefetch, 0, held(FIRST, source)).result()
    node.carrier.order(0, visit(model(held(FIRST, source))))
    node.formed()
    _bring(node, model(held(SECOND, source)))
    assert node.slots.has_model(SECOND)
    assert node.slots.read(FIRST) == b"by partitions 0 and 1"


def test_a_model_that_is_lost_between_two_iterations_is_read_from_the_store(
    node: _Node, source: ModelSource
) -> None:
    node.carrier.order(0, visit(model(held(LOST, source), visits=0)))
    assert node.formed().model is None


def test_a_model_that_is_lost_amid_an_iteration_breaks_its_visit_and_no_code_is_to_blame(
    node: _Node, source: ModelSource
) -> None:
    node.carrier.order(0, visit(model(held(LOST, source)), generation=5))
    broken = node.news.get(timeout=PATIENCE_S)
    assert isinstance(broken, Broken)
    assert (broken.gang, broken.fault, broken.model_lost) == (GangId(0, 5), False, True)
    assert "lost on its way" in broken.error


def test_nobody_gets_a_model_without_the_token() -> None:
    server = ModelServer("127.0.0.1", "nobody", read)
    with pytest.raises(OSError, match="the connection ended after 0 of 8 bytes"):
        receive_model(replace(server.source, token=bytes(16)), FIRST, memoryview(bytearray(21)))
    room = bytearray(len(MODELS[FIRST]))
    receive_model(server.source, FIRST, memoryview(room))
    assert room == MODELS[FIRST]
    server.close()


def test_a_large_model_may_take_longer_than_a_connection_may_be_silent() -> None:
    """Its reader stops before each piece, for less than that; pieces are larger than the kernel buffers."""
    piece, pieces, silence_s = 4_194_304, 10, 1.0
    data = bytes(range(256)) * (piece * pieces // 256)

    @contextmanager
    def read_large(_: GangId) -> Iterator[memoryview]:
        yield memoryview(data)

    server = ModelServer("127.0.0.1", "nobody", read_large, silence_s)
    room, pause = memoryview(bytearray(len(data))), threading.Event()

    class Slow(socket.socket):
        def recv_into(self, buffer: Any, *_: int) -> int:
            pause.wait(silence_s / 5)
            return super().recv_into(buffer[:piece], 0, socket.MSG_WAITALL)

    with Slow() as slow:
        slow.connect((server.source.host, server.source.port))
        receive_over(slow, server.source, FIRST, room)
    server.close()
    assert room == data


def test_a_node_whose_address_is_not_its_own_has_no_port() -> None:
    """Behind a NAT, say. Its models take the other way, and the node works."""
    server = ModelServer("192.0.2.1", "agent", read)
    with pytest.raises(OSError, match="no address of the node itself"):
        receive_model(server.source, FIRST, memoryview(bytearray(21)))
    server.close()
    assert server.source.agent == "agent"


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
    assert [place.slot.node for place in models.dropped()] == ["n0", "n1"], "both nodes may free the memory"
