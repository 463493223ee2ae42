"""Models in shared memory: what one process wrote another reads, and no memory is used again too early."""

from __future__ import annotations

import os
import socket
from collections import OrderedDict
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elastune.checkpoints.container import seal
from elastune.checkpoints.encoding import decode, decode_shared, encode, encode_parts
from elastune.runtime.ray import shared_models
from elastune.runtime.ray.messages import GangId
from elastune.runtime.ray.shared_models import (
    NodeModels,
    Origin,
    Segment,
    SegmentPool,
    map_privately,
    receive_handle,
    send_handle,
)

KEY = GangId(3, 1)


def state() -> dict[str, Any]:
    return OrderedDict(weights=np.arange(50_000.0), none=np.zeros(0), steps=7, text="é\ud800", tied=(1, 2.5))


def written(value: Any) -> Segment:
    packed = encode_parts(value)
    segment = SegmentPool().take(packed.size)
    segment.write(packed.unsealed)
    return segment


def test_a_state_is_read_as_it_would_be_from_a_checkpoint() -> None:
    segment = written(state())
    read = decode_shared(map_privately(os.dup(segment.handle), segment.size))
    expected = decode(encode(state()))
    assert type(read) is dict
    assert {name: value for name, value in read.items() if name not in ("weights", "none")} == {
        name: value for name, value in expected.items() if name not in ("weights", "none")
    }
    np.testing.assert_array_equal(read["weights"], expected["weights"])
    assert read["none"].shape == (0,)


def test_what_a_training_changes_in_place_is_not_seen_by_others() -> None:
    segment = written(state())
    first = decode_shared(map_privately(os.dup(segment.handle), segment.size))
    first["weights"] += 1.0
    second = decode_shared(map_privately(os.dup(segment.handle), segment.size))
    np.testing.assert_array_equal(second["weights"], np.arange(50_000.0))


def test_tensors_lie_in_the_shared_memory() -> None:
    torch = pytest.importorskip("torch")
    value = {"w": torch.arange(20_000.0).reshape(100, 200), "n": torch.tensor(3), "b": torch.tensor([True])}
    segment = written(value)
    read = decode_shared(map_privately(os.dup(segment.handle), segment.size))
    assert all(torch.equal(read[name], value[name]) for name in value)
    assert read["w"].shape == (100, 200)
    read["w"].add_(1.0)  # writable
    assert torch.equal(decode_shared(segment.view)["w"], value["w"])


def test_the_file_of_a_state_in_memory_is_that_of_the_state() -> None:
    assert b"".join(seal(written(state()).view)) == encode(state())


def test_a_handle_crosses_a_channel() -> None:
    ours, theirs = (Connection(each.detach()) for each in socket.socketpair())
    segment = written(state())
    ours.send_bytes(b"before")
    send_handle(ours, segment.handle)
    ours.send_bytes(b"after")
    assert theirs.recv_bytes() == b"before"
    arrived = receive_handle(theirs)
    assert theirs.recv_bytes() == b"after"
    assert decode_shared(map_privately(arrived, segment.size))["steps"] == 7


def test_memory_is_used_again_where_it_fits() -> None:
    pool = SegmentPool()
    first = pool.take(1_000_000)
    assert pool.take(1_000_000).number != first.number, "it is in use"
    pool.give_back(first.number)
    assert pool.take(400_000).number != first.number, "it is far too large"
    assert pool.take(1_000_001).number != first.number, "it is too small"
    assert pool.take(900_000).number == first.number


def test_without_free_memory_models_are_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    low = tmp_path / "meminfo"
    low.write_text("MemTotal: 1000000 kB\nMemAvailable: 100001 kB\n", encoding="ascii")
    monkeypatch.setattr(shared_models, "_MEMORY", low)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    segment = written(state())
    assert str(Path(f"/proc/self/fd/{segment.handle}").readlink()).startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == [low], "without a name, so nothing is left behind"
    assert decode_shared(segment.view)["steps"] == 7


def _held(models: NodeModels) -> Segment:
    segment = written(state())
    models.add(KEY, os.dup(segment.handle), segment.size, Origin(number=segment.number, slot=1, pid=77))
    return segment


@pytest.mark.parametrize("first", [lambda m: m.drop(KEY), lambda m: m.release(0)])
def test_memory_is_free_when_it_is_neither_wanted_nor_read(first: Callable[[NodeModels], Any]) -> None:
    models = NodeModels()
    segment = _held(models)
    assert models.read(KEY, 0) is not None
    assert first(models) == []
    assert KEY in models
    freed = [*models.release(0), *models.drop(KEY)]
    assert freed == [Origin(number=segment.number, slot=1, pid=77)]
    assert KEY not in models
    assert models.read(KEY, 0) is None


def test_the_copy_of_a_model_from_elsewhere_is_used_once() -> None:
    models = NodeModels()
    data = b"".join(encode_parts(state()).unsealed)
    segment = models.reserve(len(data))
    segment.write([data])
    models.add_copy(KEY, 2, segment)
    assert models.read(KEY, 2) is not None
    assert models.release(2) == [], "the memory is this process's own"
    assert KEY not in models
    assert models.reserve(len(data)) is segment


def test_a_copy_that_was_not_used_makes_room_for_the_next_one_of_its_slot() -> None:
    models = NodeModels()
    for generation in (1, 2):
        segment = models.reserve(200_000)
        segment.write([bytes(200_000)])
        models.add_copy(GangId(0, generation), 0, segment)
    assert GangId(0, 1) not in models
    assert GangId(0, 2) in models


def test_a_copy_that_a_visit_waits_with_is_not_freed_by_the_next_one_of_its_slot() -> None:
    """The visit was ordered before its slot was idle, and the model after it is fetched already."""
    models, visit = NodeModels(), GangId(9, 4)
    for generation in (1, 2):
        segment = models.reserve(200_000)
        segment.write([bytes(200_000)])
        models.add_copy(GangId(0, generation), 0, segment)
        if generation == 1:
            assert models.read(GangId(0, 1), visit) is not None
    assert GangId(0, 1) in models
    models.release(visit)
    assert GangId(0, 1) not in models
    assert GangId(0, 2) in models
