"""A worker loads a partition once and holds what its memory allows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastune.data.dataset import Dataset
from elastune.data.partition_cache import PartitionCache, measure
from elastune.data.registering import register
from elastune.data.splitting import split
from elastune.errors import ExecutionError, InvariantError, JobError
from elastune.training.groups import Solo
from elastune.training.worker import make_worker
from elastune.wording import format_bytes

ROWS, ROW = 10, 24  # bytes: two float64 and one int64


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    rows = np.arange(7 * ROWS)
    data = {"x": np.stack([rows, -rows], axis=1).astype(float), "y": rows}
    folder = tmp_path_factory.mktemp("data")
    return split(data, folder, partitions=5, seed=3, validation=2 / 7, validation_partitions=2)


def ticking() -> Iterator[float]:
    return map(float, count())


def test_a_partition_is_loaded_once(dataset: Dataset) -> None:
    clock = ticking()
    shelf = PartitionCache(dataset, clock=lambda: next(clock))
    first, again = shelf.take(2), shelf.take(2)
    assert (first.load_s, again.load_s) == (1.0, 0.0)
    assert again.data is first.data
    assert (first.rows, first.bytes) == (ROWS, ROWS * ROW)
    assert shelf.take(0, validation=True).data["y"][0] != shelf.take(0).data["y"][0]
    loaded = [dataset.training[2], dataset.validation[0], dataset.training[0]]
    assert shelf.loaded_bytes == sum(part.bytes for part in loaded)
    assert (shelf.held_bytes, shelf.spilled_bytes) == (3 * ROWS * ROW, 0)


def test_what_need_not_be_kept_makes_room_oldest_first(dataset: Dataset) -> None:
    shelf = PartitionCache(dataset, limit_bytes=3 * ROWS * ROW)
    for number in (0, 1, 2, 0):
        shelf.take(number)
    shelf.keep([3])
    assert shelf.held_bytes == 3 * ROWS * ROW  # nothing is dropped before its place is needed
    shelf.take(3)
    before = shelf.loaded_bytes
    assert shelf.take(0).load_s == shelf.take(2).load_s == 0.0
    assert shelf.loaded_bytes == before
    shelf.take(1)
    assert shelf.loaded_bytes > before


def test_what_does_not_fit_is_told(dataset: Dataset) -> None:
    shelf = PartitionCache(dataset, limit_bytes=2 * ROWS * ROW)
    shelf.take(0)
    shelf.take(1)
    with pytest.raises(JobError) as caught:
        shelf.take(0, validation=True)
    assert str(caught.value) == (
        "partition validation 0 takes 240 bytes of memory; the limit is 480 bytes, and 480 bytes of it are "
        "held (partitions 0, 1); make more partitions, add workers, so that each holds fewer, raise "
        "data.memory, set data.load: mapped, or name a folder for the rest: data.spill"
    )
    assert shelf.held_bytes == 2 * ROWS * ROW
    assert shelf.take(0).load_s == 0.0


def test_what_does_not_fit_is_spilled_and_can_be_trained_on(dataset: Dataset, tmp_path: Path) -> None:
    shelf = PartitionCache(dataset, limit_bytes=2 * ROWS * ROW, spill=str(tmp_path / "spill"))
    taken = [shelf.take(number) for number in range(5)]
    assert [loaded.is_spilled for loaded in taken] == [False, False, True, True, True]
    assert (shelf.held_bytes, shelf.spilled_bytes) == (2 * ROWS * ROW, 3 * ROWS * ROW)
    assert isinstance(taken[2].data["x"], np.memmap)
    assert list((tmp_path / "spill").iterdir()) == []  # the space is free when the process ends
    whole = PartitionCache(dataset).take(2).data
    assert all(np.array_equal(whole[name], taken[2].data[name]) for name in whole)
    assert shelf.take(2).load_s == 0.0
    worker = make_worker(Solo(), seed=0)
    worker.iteration = 1
    seen = np.concatenate([batch["y"] for batch in worker.batches(shelf.take(2).data, 3)])
    assert sorted(seen) == sorted(whole["y"])


@settings(max_examples=60, deadline=None)
@given(
    limit=st.integers(1, 6),
    takes=st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.sets(st.integers(0, 4))), max_size=20),
    may_spill=st.booleans(),
)
def test_the_limit_holds_whatever_is_taken(
    dataset: Dataset, tmp_path_factory: pytest.TempPathFactory, limit: int, takes: Any, may_spill: bool
) -> None:
    folder = str(tmp_path_factory.getbasetemp() / "spilled") if may_spill else None
    shelf = PartitionCache(dataset, limit_bytes=limit * ROWS * ROW, spill=folder)
    for drawn, validation, kept in takes:
        shelf.keep(kept, {each % 2 for each in kept})
        number = drawn % 2 if validation else drawn
        try:
            loaded = shelf.take(number, validation)
        except JobError:
            assert not may_spill
            assert len(kept) + len({each % 2 for each in kept}) >= limit
        else:
            part = dataset.partition(number, validation=validation)
            with np.load(part.sources[0]) as source:
                assert np.array_equal(loaded.data["y"], source["y"])
            assert loaded.rows == part.rows
        assert shelf.held_bytes <= limit * ROWS * ROW


def test_what_trials_share_cannot_be_changed(dataset: Dataset) -> None:
    data = PartitionCache(dataset).take(0).data
    with pytest.raises(ValueError, match="read-only"):
        data["x"] += 1


def test_a_file_that_changed_is_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "0.npz", x=np.zeros(3))
    dataset = register(tmp_path)
    np.savez(tmp_path / "0.npz", x=np.zeros(4))
    with pytest.raises(JobError, match=r"partition 0 .*0\.npz\) has 4 rows, but had 3"):
        PartitionCache(dataset).take(0)
    (tmp_path / "0.npz").unlink()
    with pytest.raises(JobError, match="no such file on this machine"):
        PartitionCache(dataset).take(0)


def test_texts_are_not_spilled(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "0.csv").write_text("word\nabc\n")
    shelf = PartitionCache(register(tmp_path), limit_bytes=1, spill=str(tmp_path / "spill"))
    with pytest.raises(JobError, match="there is texts or other objects in it"):
        shelf.take(0)


def test_a_folder_that_cannot_take_what_is_spilled_is_told(dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ExecutionError, match=r"cannot be spilled to .*data\.spill to another folder"):
        PartitionCache(dataset, limit_bytes=1, spill=str(tmp_path / "file")).take(0)


def test_a_partition_that_is_not_there_is_our_mistake(dataset: Dataset) -> None:
    with pytest.raises(InvariantError, match="partition 2 was asked for; there are 2 of validation"):
        PartitionCache(dataset).take(2, validation=True)


def test_data_of_every_kind_are_measured() -> None:
    torch, pandas = pytest.importorskip("torch"), pytest.importorskip("pandas")
    array = np.zeros((10, 4))
    assert measure(array) == measure((array, array)) == 320
    assert measure({"x": torch.zeros(10, 4), "y": torch.zeros(10)}) == 200
    assert measure(torch.utils.data.TensorDataset(torch.zeros(100, 4))) >= 1600
    assert measure(pandas.DataFrame({"x": np.zeros(100)})) >= 800
    words = np.array(["x" * 100] * 3 + ["y" * 50], dtype=object)
    assert measure(words) > 150
    assert measure([np.zeros(10) for _ in range(5000)]) >= 5000 * 80


def test_amounts_are_short() -> None:
    assert [format_bytes(amount) for amount in (12, 1500, 2_340_000, 10**9, 4 * 10**12)] == [
        "12 bytes", "1.5 kB", "2.34 MB", "1 GB", "4 TB",
    ]  # fmt: skip
