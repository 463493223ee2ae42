"""Data larger than memory: mapped files, a cache on the node's disk, and a shuffle that holds one block."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastune.data import formats, shuffling
from elastune.data.dataset import Dataset
from elastune.data.file_contents import FileContents
from elastune.data.formats import Format
from elastune.data.node_cache import NodeCache
from elastune.data.numpy_files import is_mapped, map_npz
from elastune.data.partition_cache import PartitionCache
from elastune.data.registering import register
from elastune.data.splitting import split, split_files
from elastune.errors import ExecutionError, JobError

ROWS = 1000


def columns(rows: int = ROWS) -> dict[str, Any]:
    return {"x": np.arange(rows * 3, dtype=np.float32).reshape(rows, 3), "y": np.arange(rows)}


def mapped(dataset: Dataset, **changes: Any) -> PartitionCache:
    return PartitionCache(replace(dataset, is_mapped=True, **changes), limit_bytes=0)


def test_the_files_of_a_split_are_mapped_and_take_no_memory_of_the_process(tmp_path: Path) -> None:
    cache = mapped(split(columns(), tmp_path, partitions=2, seed=1))
    taken = cache.take(0)
    assert is_mapped(taken.data["x"])
    assert taken.data["x"].flags.aligned
    assert (taken.bytes, cache.held_bytes, taken.rows) == (0, 0, ROWS // 2)
    with pytest.raises(ValueError, match="read-only"):
        taken.data["y"][0] = 1


def test_what_is_mapped_is_what_is_read(tmp_path: Path) -> None:
    dataset = split(columns(), tmp_path, partitions=3, seed=1)
    for number in range(3):
        read, map_ = PartitionCache(dataset).take(number).data, mapped(dataset).take(number).data
        assert all(np.array_equal(read[name], map_[name]) for name in ("x", "y"))


def test_a_tuple_and_a_fortran_array_keep_their_shapes_when_mapped(tmp_path: Path) -> None:
    split((np.arange(6).reshape(3, 2), np.arange(3)), tmp_path / "pair", partitions=1, seed=0)
    pair = mapped(register(tmp_path / "pair")).take(0).data
    assert [each.shape for each in pair] == [(3, 2), (3,)]
    np.save(tmp_path / "f.npy", np.asfortranarray(np.arange(6).reshape(3, 2)))
    np.testing.assert_array_equal(
        mapped(register(tmp_path / "f.npy")).take(0).data, np.arange(6).reshape(3, 2)
    )


def test_compressed_files_cannot_be_mapped_and_the_limit_holds_for_them(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", **columns())
    assert map_npz(str(tmp_path / "a.npz")) is None
    with pytest.raises(JobError, match=r"of memory; the limit is 0 bytes.* data\.spill"):
        mapped(register(tmp_path)).take(0)


def _write_parquet(folder: Path, count: int = 2) -> Path:
    parquet, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    folder.mkdir()
    for number in range(count):
        table = pa.table({"a": np.arange(100.0) + 100 * number, "b": np.arange(100) % 7})
        parquet.write_table(table, folder / f"{number}.parquet", row_group_size=16)
    return folder


def test_row_groups_become_arrays_on_the_disk_of_the_node(tmp_path: Path) -> None:
    dataset = register(_write_parquet(tmp_path / "data"))
    cache = mapped(dataset, cache=str(tmp_path / "cache"))
    taken = cache.take(1)
    assert is_mapped(taken.data["a"])
    assert taken.bytes == 0
    np.testing.assert_array_equal(taken.data["a"], np.arange(100.0, 200.0))
    (made,) = (tmp_path / "cache").glob("*.arrays")
    written = made.stat().st_mtime_ns
    assert mapped(dataset, cache=str(tmp_path / "cache")).take(1).rows == 100
    assert made.stat().st_mtime_ns == written, "another worker of the node maps the same files"


def test_a_csv_file_with_texts_is_read_although_there_is_a_cache(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "a.csv").write_text("name,n\nx,1\ny,2\n")
    taken = PartitionCache(
        replace(register(tmp_path / "a.csv"), is_mapped=True, cache=str(tmp_path / "cache"))
    ).take(0)
    assert taken.data["name"].tolist() == ["x", "y"]


@pytest.fixture
def remote() -> Iterator[str]:
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    folder = "memory://cached"
    split(columns(), folder, partitions=2, seed=4)
    yield folder
    system.rm("/cached", recursive=True)


def test_a_remote_file_is_copied_once_and_mapped(remote: str, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    dataset = replace(register(remote), is_mapped=True, cache=str(tmp_path))
    first = PartitionCache(dataset).take(0)
    assert is_mapped(first.data["x"])
    fsspec.filesystem("memory").rm("/cached/training-00000.npz")
    again = PartitionCache(dataset).take(0)
    np.testing.assert_array_equal(again.data["x"], first.data["x"])


def test_a_reader_gets_the_local_copy_of_a_remote_file(remote: str, tmp_path: Path) -> None:
    def read(path: str) -> Any:
        return np.load(path)["y"]

    dataset = replace(register(f"{remote}/training-*.npz", reader=read), cache=str(tmp_path))
    assert PartitionCache(dataset).take(1).rows == ROWS // 2


def test_a_cache_that_cannot_be_written_is_named(remote: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    dataset = replace(register(remote), cache=str(tmp_path / "file"))
    with pytest.raises(ExecutionError, match=r"the cache .*file cannot be used: .*data\.cache"):
        PartitionCache(dataset).take(0)


def _take(folder: str, cache: str, _number: int) -> float:
    dataset = replace(register(folder), is_mapped=True, cache=cache)
    return float(PartitionCache(dataset).take(0).data["a"].sum())


def test_workers_that_need_the_same_at_once_make_it_once(tmp_path: Path) -> None:
    folder = _write_parquet(tmp_path / "data", 1)
    arguments = [(str(folder), str(tmp_path / "cache"), number) for number in range(4)]
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert set(pool.starmap(_take, arguments)) == {float(np.arange(100.0).sum())}
    assert len(list((tmp_path / "cache").glob("*.arrays"))) == 1
    assert not list((tmp_path / "cache").glob("*.part"))


def test_what_a_worker_left_unfinished_is_made_again(tmp_path: Path) -> None:
    cache = NodeCache(str(tmp_path))
    name = "x"
    (tmp_path / f".{name}.part").write_text("half")

    def make(path: Path) -> None:
        path.write_text("whole")

    made = cache._once(name, make)
    assert made.read_text() == "whole"


def _everything(dataset: Dataset, *, validation: bool = False) -> Any:
    cache = PartitionCache(dataset)
    parts = dataset.validation if validation else dataset.training
    return [cache.take(part.number, validation).data for part in parts]


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    partitions=st.integers(1, 5),
    share=st.sampled_from([0.0, 0.25]),
    seed=st.integers(0, 2**32),
)
def test_files_are_shuffled_and_split_without_losing_a_row(
    sizes: list[int], partitions: int, share: float, seed: int
) -> None:
    total = sum(sizes)
    with TemporaryDirectory() as name:
        folder, start = Path(name), 0
        (folder / "in").mkdir()
        for number, size in enumerate(sizes):
            y = np.arange(start, start + size)
            np.savez(folder / f"in/{number}.npz", x=np.stack([y, -y], axis=1), y=y)
            start += size
        options: dict[str, Any] = {"partitions": partitions, "seed": seed, "validation": share}
        if partitions > total - (max(1, round(total * share)) if share else 0):
            with pytest.raises(JobError, match="rows are there"):
                split_files(folder / "in", folder / "out", **options)
            return
        dataset = split_files(folder / "in", folder / "out", **options)
        parts = [*_everything(dataset), *_everything(dataset, validation=True)]
        assert sorted(np.concatenate([part["y"] for part in parts])) == list(range(total))
        assert all(np.array_equal(part["x"][:, 1], -part["y"]) for part in parts)
        counts = [part.rows or 0 for part in dataset.training]
        assert max(counts) - min(counts) <= 1
        split_files(folder / "in", folder / "again", **options)
        for path in (folder / "out").glob("*.npz"):
            assert path.read_bytes() == (folder / "again" / path.name).read_bytes()
        assert not list((folder / "out").glob(".shuffle*"))


def test_every_row_is_as_likely_in_every_partition(tmp_path: Path) -> None:
    """A chi-square statistic with 31 degrees of freedom: above 80 is beyond one in a hundred thousand."""
    np.save(tmp_path / "a.npy", np.arange(32))
    source = shuffling.source_of_files(tmp_path / "a.npy")
    first = np.zeros(32)
    for seed in range(200):
        shuffling.ExternalShuffle(source, [8, 24], seed).write(
            [str(tmp_path / "p0.npz"), str(tmp_path / "p1.npz")], str(tmp_path)
        )
        first[np.load(tmp_path / "p0.npz")["array"]] += 1
    expected = 200 * 8 / 32
    assert ((first - expected) ** 2 / expected).sum() < 80


def test_a_split_of_files_that_was_interrupted_is_done_again(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **columns())
    dataset = split_files(tmp_path / "a.npz", tmp_path / "out", partitions=2)
    content = dataset.training[0].sources[0]
    Path(content).write_bytes(b"half")
    manifest = tmp_path / "out/data.json"
    manifest.write_text(manifest.read_text().replace('"is_whole": true', '"is_whole": false'))
    assert split_files(tmp_path / "a.npz", tmp_path / "out", partitions=2).training[0].rows == ROWS // 2
    with pytest.raises(JobError, match="another split is there already"):
        split_files(tmp_path / "a.npz", tmp_path / "out", partitions=4)


def test_texts_cannot_be_shuffled_on_the_disk_and_the_column_is_named(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "a.csv").write_text("name,n\nx,1\ny,2\n")
    with pytest.raises(JobError, match="name has texts or other objects; expected numbers only"):
        split_files(tmp_path / "a.csv", tmp_path / "out", partitions=1)


def test_a_dataset_of_torch_is_split_block_by_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(shuffling, "_ROWS_AT_ONCE", 7)

    class Squares(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
        def __len__(self) -> int:
            return 20

        def __getitem__(self, index: int) -> tuple[Any, int]:
            return torch.tensor([float(index), float(index**2)]), index

    dataset = split(Squares(), tmp_path, partitions=3, seed=2)
    parts = _everything(dataset)
    assert sorted(np.concatenate([y for _, y in parts])) == list(range(20))
    assert all(np.array_equal(x[:, 1], y.astype(np.float32) ** 2) for x, y in parts)


class _RayLike:
    """The two methods of a Ray dataset that are used."""

    def count(self) -> int:
        return 10

    def iter_batches(self, *, batch_size: int, batch_format: str) -> Iterator[dict[str, Any]]:
        assert batch_format == "numpy"
        for start in range(0, 10, 4):
            yield {"id": np.arange(start, min(start + 4, 10))}


def test_a_dataset_of_ray_is_split_block_by_block(tmp_path: Path) -> None:
    dataset = split(_RayLike(), tmp_path, partitions=2, seed=2)
    assert sorted(np.concatenate([part["id"] for part in _everything(dataset)])) == list(range(10))


def test_hdf5_files_are_read_and_mapped(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    for number, options in enumerate(({}, {"compression": "gzip"})):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            for name, array in columns(50).items():
                file.create_dataset(name, data=array, **options)
    dataset = register(tmp_path)
    assert [part.rows for part in dataset.training] == [50, 50]
    for number in (0, 1):
        np.testing.assert_array_equal(PartitionCache(dataset).take(number).data["x"], columns(50)["x"])
    assert is_mapped(mapped(dataset).take(0).data["y"])
    assert is_mapped(mapped(dataset, cache=str(tmp_path / "cache")).take(1).data["y"])


def _draw(folder: Path, sizes: tuple[int, ...] = (4, 4)) -> Path:
    image = pytest.importorskip("PIL.Image")
    for number, side in enumerate(sizes):
        for name in ("cat", "dog"):
            (folder / name).mkdir(parents=True, exist_ok=True)
            picture = image.fromarray(np.full((side, side, 3), number, np.uint8))
            picture.save(folder / name / f"{number}.png")
    return folder


def test_folders_of_images_are_lazy_partitions(tmp_path: Path) -> None:
    dataset = register([_draw(tmp_path / "a"), _draw(tmp_path / "b")])
    taken = PartitionCache(dataset).take(1)
    assert taken.rows == 4
    pixels, number = taken.data[3]
    assert (pixels.shape, pixels[0, 0, 0], number) == ((4, 4, 3), 1, 1)
    assert taken.data.classes == ("cat", "dog")


def test_images_of_one_size_can_be_split_and_others_are_told(tmp_path: Path) -> None:
    dataset = split_files([_draw(tmp_path / "a")], tmp_path / "out", partitions=2)
    assert {part["image"].shape for part in _everything(dataset)} == {(2, 4, 4, 3)}
    with pytest.raises(JobError, match=r"different sizes \(4x4, 5x5\)"):
        split_files([_draw(tmp_path / "b", (4, 5))], tmp_path / "other", partitions=2)


def test_a_format_of_another_package_is_found_by_its_suffix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Point:
        name, value = ".words", "words:FORMAT"

        def load(self) -> Format:
            return Format(
                name="words",
                outline=lambda path: FileContents(rows=len(Path(path).read_text().split()), columns={}),
                read=lambda path: Path(path).read_text().split(),
            )

    monkeypatch.setattr(formats, "_added", lambda: {".words": Point()})
    (tmp_path / "a.words").write_text("one two three")
    assert PartitionCache(register(tmp_path)).take(0).data == ["one", "two", "three"]
