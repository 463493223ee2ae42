"""Data in memory become partitions: every row once, the same seed the same bytes."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastune.data.dataset import Dataset
from elastune.data.partition_cache import PartitionCache
from elastune.data.registering import register
from elastune.data.splitting import split
from elastune.errors import JobError


def table(rows: int) -> dict[str, npt.NDArray[Any]]:
    return {"x": np.arange(rows * 2, dtype=np.float32).reshape(rows, 2), "y": np.arange(rows)}


def read_all(dataset: Dataset, *, validation: bool = False) -> list[Any]:
    shelf = PartitionCache(dataset)
    parts = dataset.validation if validation else dataset.training
    return [shelf.take(part.number, validation).data for part in parts]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 60),
    partitions=st.integers(1, 9),
    seed=st.integers(0, 2**64),
    share=st.floats(0.0, 0.9),
    validation_partitions=st.none() | st.integers(1, 5),
)
def test_every_row_is_in_one_partition_and_the_seed_decides_which(
    rows: int, partitions: int, seed: int, share: float, validation_partitions: int | None
) -> None:
    data = table(rows)
    with TemporaryDirectory() as first, TemporaryDirectory() as second:
        options: dict[str, Any] = {"partitions": partitions, "seed": seed, "validation": share}
        try:
            dataset = split(data, first, **options, validation_partitions=validation_partitions)
        except JobError:
            held_out_rows = max(1, round(rows * share)) if share else 0
            is_many = (validation_partitions or 0) > held_out_rows
            assert partitions > rows - held_out_rows or is_many
            return
        split(data, second, **options, validation_partitions=validation_partitions)
        assert contents(Path(first)) == contents(Path(second))
        trained, held_out = read_all(dataset), read_all(dataset, validation=True)
        together = [*trained, *held_out]
        assert sorted(np.concatenate([part["y"] for part in together])) == list(range(rows))
        for part in together:
            assert np.array_equal(part["x"], data["x"][part["y"]])
        for parts in (trained, held_out):
            sizes = {len(part["y"]) for part in parts}
            assert not sizes or max(sizes) - min(sizes) <= 1
        assert len(dataset.training) == partitions
        assert [part.rows for part in dataset.training] == [len(part["y"]) for part in trained]
        assert bool(held_out) == bool(share)
        assert dataset.seed == seed


def test_another_seed_gives_another_order(tmp_path: Path) -> None:
    split(table(50), tmp_path / "a", partitions=2, seed=1)
    split(table(50), tmp_path / "b", partitions=2, seed=2)
    assert contents(tmp_path / "a") != contents(tmp_path / "b")


def test_tuples_come_back_as_tuples_and_arrays_as_arrays(tmp_path: Path) -> None:
    x, y = np.arange(12.0).reshape(6, 2), np.arange(6)
    pair = read_all(split((x, y), tmp_path / "pair", partitions=2, seed=0))[0]
    (only,) = read_all(split((x,), tmp_path / "one", partitions=2, seed=0))[0]
    alone = read_all(split(x, tmp_path / "alone", partitions=2, seed=0))[0]
    assert isinstance(pair, tuple)
    assert np.array_equal(pair[0], x[pair[1]])
    assert np.array_equal(only, pair[0])
    assert np.array_equal(alone, pair[0])


def test_tensors_and_data_frames_become_arrays(tmp_path: Path) -> None:
    torch, pandas = pytest.importorskip("torch"), pytest.importorskip("pandas")
    tensors = {"x": torch.arange(6.0, requires_grad=True), "file": torch.arange(6)}
    part = read_all(split(tensors, tmp_path / "tensors", partitions=1, seed=0))[0]
    assert part["x"].tolist() == part["file"].tolist()
    frame = pandas.DataFrame({"word": ["a", "bb", "ccc"], "length": [1, 2, 3]})
    part = read_all(split(frame, tmp_path / "frame", partitions=1, seed=0))[0]
    assert [len(word) for word in part["word"].tolist()] == part["length"].tolist()


def test_arrays_of_every_kind_come_back(tmp_path: Path) -> None:
    data = {
        "none": np.zeros((4, 0)),
        "words": np.array(["a", "bb", "ccc", "d"], dtype=object),
        "moments": np.array(["2026-01-01", "2026-01-02", "2026-01-03", "NaT"], dtype="datetime64[D]"),
        "flags": np.array([True, False, True, True]),
        "turned": np.asfortranarray(np.arange(8.0).reshape(4, 2)),
        "records": np.zeros(4, dtype=[("a", "i4"), ("b", "f8")]),
        "row": np.arange(4),
    }
    (part,) = read_all(split(data, tmp_path, partitions=1, seed=0))
    for name, array in data.items():
        assert part[name].tolist() == array[part["row"]].tolist(), name


def test_the_same_split_is_not_written_again(tmp_path: Path) -> None:
    first = split(table(20), tmp_path, partitions=3, seed=4, validation=0.2)
    again = split(table(20), tmp_path, partitions=3, seed=4, validation=0.2)
    assert again == first  # with the times of change
    assert register(tmp_path) == first


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"seed": 5}, "seed 4 instead of 5"),
        ({"partitions": 2}, "partitions 3 instead of 2"),
        ({"data": table(21)}, "of other data"),
    ],
    ids=["seed", "partitions", "data"],
)
def test_another_split_is_not_overwritten(tmp_path: Path, options: dict[str, Any], told: str) -> None:
    split(table(20), tmp_path, partitions=3, seed=4)
    before = contents(tmp_path)
    usual: dict[str, Any] = {"data": table(20), "folder": tmp_path, "partitions": 3, "seed": 4}
    with pytest.raises(JobError, match=told):
        split(**usual | options)
    assert contents(tmp_path) == before


def test_an_interrupted_split_is_no_dataset_until_it_is_done_again(tmp_path: Path) -> None:
    """Interrupted in the middle: the file of one partition is a folder, so it cannot be written."""
    (tmp_path / "training-00002.npz").mkdir()
    with pytest.raises(JobError, match="training-00002"):
        split(table(20), tmp_path, partitions=4, seed=0)
    assert (tmp_path / "training-00001.npz").is_file()
    with pytest.raises(JobError, match="interrupted"):
        register(tmp_path)
    (tmp_path / "training-00002.npz").rmdir()
    dataset = split(table(20), tmp_path, partitions=4, seed=0)
    assert sum(part.rows or 0 for part in dataset.training) == 20


def test_a_file_of_a_split_that_was_cut_off_is_told(tmp_path: Path) -> None:
    split(table(20), tmp_path, partitions=2, seed=0)
    path = tmp_path / "training-00001.npz"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(JobError, match=r"training-00001\.npz: it has .* bytes, but data\.json"):
        register(tmp_path)


def test_a_manifest_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    split(table(4), tmp_path, partitions=2, seed=0)
    content = (tmp_path / "data.json").read_text()
    for changed in (content[:-9], content.replace('"elastune_split": 1', '"elastune_split": 99')):
        (tmp_path / "data.json").write_text(changed)
        with pytest.raises(JobError, match=r"data\.json: it cannot be read"):
            register(tmp_path)


def test_data_may_have_the_name_of_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text("[1, 2]")
    dataset = register(tmp_path, reader=lambda path: json.loads(Path(path).read_text()))
    assert read_all(dataset) == [[1, 2]]


def test_a_reader_may_leave_out_rows_of_a_split(tmp_path: Path) -> None:
    split(table(20), tmp_path, partitions=2, seed=0, validation=0.5)
    dataset = register(tmp_path, reader=lambda path: np.load(path)["y"][:3])
    assert [len(part) for part in (*read_all(dataset), *read_all(dataset, validation=True))] == [3] * 4


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ([1, 2], "got a list"),
        ({"x": np.zeros(3), "y": np.zeros(4)}, r"different lengths \(x: 3, y: 4\)"),
        ({"x": np.array([1, None], dtype=object)}, "'x' with Python objects"),
        ({"arr_0": np.zeros(3)}, "names that stand for arrays without names"),
        ({3: np.zeros(3)}, "a column 3"),
        (np.zeros((0, 2)), "no rows"),
        (np.float64(3.0), "without dimensions"),
    ],
)
def test_what_cannot_be_split_is_told(tmp_path: Path, data: Any, told: str) -> None:
    with pytest.raises(JobError, match=told):
        split(data, tmp_path / "new", partitions=2, seed=0)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"partitions": 11}, "only 10 rows"),
        ({"partitions": 0}, "partitions is 0"),
        ({"validation": 1.0}, "validation is 1.0"),
        ({"validation": 0.2, "validation_partitions": 3}, "validation_partitions is 3, but only 2 rows"),
        ({"validation_partitions": 3}, "validation is 0"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_options_that_do_not_fit_are_told(tmp_path: Path, options: dict[str, Any], told: str) -> None:
    with pytest.raises(JobError, match=told):
        split(table(10), tmp_path, **{"partitions": 2, "seed": 0} | options)


def test_a_split_can_lie_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    url = f"memory://{tmp_path.name}/digits"
    dataset = split(table(9), url, partitions=3, seed=0, validation=0.34)
    assert dataset.training[0].sources == (f"{url}/training-00000.npz",)
    assert split(table(9), url, partitions=3, seed=0, validation=0.34) == dataset
    assert sum(len(part["y"]) for part in read_all(pickle.loads(pickle.dumps(dataset)))) == 6


def test_a_split_can_be_grouped_anew(tmp_path: Path) -> None:
    split(table(20), tmp_path, partitions=4, seed=0, validation=0.2, validation_partitions=2)
    dataset = register(tmp_path, partitions=2, validation_partitions=1)
    assert [len(part.sources) for part in dataset.training] == [2, 2]
    assert [part.rows for part in (*dataset.training, *dataset.validation)] == [8, 8, 4]
    assert [len(part["y"]) for part in read_all(dataset)] == [8, 8]
