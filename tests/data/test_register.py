"""Files become partitions, with their rows told by their headers; what does not fit together is told."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elastune.data.dataset import Dataset
from elastune.data.partition_cache import PartitionCache
from elastune.data.registering import register
from elastune.errors import JobError


def write_npz(folder: Path, name: str, rows: int, **more: Any) -> Path:
    folder.mkdir(exist_ok=True)
    columns: dict[str, Any] = {"x": np.full((rows, 3), rows, dtype=np.float32), "y": np.arange(rows)} | more
    np.savez(folder / name, **columns)
    return folder / name


def write_rows(path: Path, columns: dict[str, Any]) -> Path:
    """In the format of the suffix."""
    rows = pytest.importorskip("pyarrow").table(columns)
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow.parquet").write_table(rows, path)
    else:
        pytest.importorskip("pyarrow.csv").write_csv(rows, path)
    return path


def names(dataset: Dataset) -> list[list[str]]:
    return [[Path(source).name for source in part.sources] for part in dataset.training]


def test_each_file_of_a_folder_is_a_partition_in_natural_order(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        write_npz(tmp_path, f"part-{number}.npz", number)
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".part-1.npz.crc").touch()
    dataset = register(tmp_path)
    assert names(dataset) == [["part-1.npz"], ["part-2.npz"], ["part-10.npz"]]
    assert [part.number for part in dataset.training] == [0, 1, 2]
    assert [part.rows for part in dataset.training] == [1, 2, 10]
    assert [part.bytes for part in dataset.training] == [
        Path(part.sources[0]).stat().st_size for part in dataset.training
    ]
    assert register(tmp_path / "part-1*.npz").training[1].rows == 10
    assert register([tmp_path / "part-10.npz", tmp_path / "part-1.npz"]).training[0].rows == 10


def test_files_are_grouped_by_their_sizes(tmp_path: Path) -> None:
    for number, rows in enumerate((1000, 10, 10, 1000)):
        write_npz(tmp_path, f"{number}.npz", rows)
    dataset = register(tmp_path, partitions=3)
    assert names(dataset) == [["0.npz"], ["1.npz", "2.npz"], ["3.npz"]]
    taken = PartitionCache(dataset).take(1)
    assert (taken.rows, len(taken.data["x"]), dataset.training[1].rows) == (20, 20, 20)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables_become_arrays_by_column(tmp_path: Path, suffix: str) -> None:
    columns = {"age": [1, 2, 3], "name": ["a", 'line\nbreak, "quoted"', "c"], "score": [0.5, None, 1.5]}
    write_rows(tmp_path / f"0{suffix}", columns)
    dataset = register(tmp_path)
    assert dataset.training[0].rows == 3
    data = PartitionCache(dataset).take(0).data
    assert data["age"].tolist() == columns["age"]
    assert data["name"].tolist() == columns["name"]
    assert np.isnan(data["score"]).tolist() == [False, True, False]


def test_parquet_lists_become_rows_of_an_array(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    square = [[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]]]
    fixed = pa.array([[1.0, 2.0], [3.0, 4.0]], type=pa.list_(pa.float32(), 2))
    columns = {"x": [[1.0, 2.0], [3.0, 4.0]], "words": [["a"], ["b", "c"]], "square": square, "fixed": fixed}
    write_rows(tmp_path / "0.parquet", {**columns, "gap": [None, [1]], "nothing": pa.nulls(2)})
    data = PartitionCache(register(tmp_path)).take(0).data
    assert data["square"].tolist() == square
    assert data["fixed"].dtype == np.float32
    assert data["fixed"].tolist() == data["x"].tolist()
    assert data["gap"][0] is None
    assert np.isnan(data["nothing"]).all()
    assert data["x"].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert [list(words) for words in data["words"]] == [["a"], ["b", "c"]]


def test_a_csv_file_whose_lines_are_blank_or_wrong(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.csv"
    path.write_text("a,b\r\n1,2\r\n\r\n3,4")
    dataset = register(path)
    assert dataset.training[0].rows == PartitionCache(dataset).take(0).rows == 2
    path.write_text("a,b\n1,2\n3\n")
    with pytest.raises(JobError, match=r"a\.csv: cannot be read as csv: .*Expected 2 columns, got 1"):
        register(path)


@pytest.mark.parametrize(
    ("library", "path"), [("pyarrow", "0.csv"), ("pyarrow", "0.parquet"), ("fsspec", "memory://folder")]
)
def test_a_library_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, path: str
) -> None:
    if "://" not in path:
        (tmp_path / path).write_text("a\n1\n")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(JobError, match=f"needs {library}; pip install"):
        register(path if "://" in path else tmp_path / path)


def test_compressed_archives_and_arrays_without_names(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "0.npz", np.arange(6).reshape(3, 2), np.arange(3))
    dataset = register(tmp_path)
    x, y = PartitionCache(dataset).take(0).data
    assert (dataset.training[0].rows, x.shape, y.tolist()) == (3, (3, 2), [0, 1, 2])


def test_npy_files_are_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "0.npy", np.arange(6).reshape(3, 2))
    np.save(tmp_path / "1.npy", np.arange(2).reshape(1, 2))
    dataset = register(tmp_path, partitions=1)
    assert dataset.training[0].rows == 4
    assert PartitionCache(dataset).take(0).data.tolist() == [[0, 1], [2, 3], [4, 5], [0, 1]]


def test_validation_lies_in_files_of_its_own(tmp_path: Path) -> None:
    for number in range(4):
        write_npz(tmp_path / "train", f"{number}.npz", 5)
        write_npz(tmp_path / "test", f"{number}.npz", 3)
    dataset = register(tmp_path / "train", validation=tmp_path / "test", validation_partitions=2)
    assert [part.rows for part in dataset.validation] == [6, 6]
    assert PartitionCache(dataset).take(1, validation=True).rows == 6


def test_files_elsewhere_are_found_by_their_url(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    write_npz(tmp_path, "part-9.npz", 4)
    system = fsspec.filesystem("memory")
    for number in (10, 9):
        system.pipe_file(f"/{tmp_path.name}/part-{number}.npz", (tmp_path / "part-9.npz").read_bytes())
    url = f"memory://{tmp_path.name}"
    dataset = register(url)
    assert [part.sources for part in dataset.training] == [(f"{url}/part-9.npz",), (f"{url}/part-10.npz",)]
    assert register(f"{url}/*-10.npz").training[0].sources == (f"{url}/part-10.npz",)
    assert PartitionCache(dataset).take(1).rows == 4
    with pytest.raises(JobError, match=r"nothing\.npz: there is no such file; expected the address"):
        register(f"{url}/nothing.npz")
    with pytest.raises(JobError, match="cannot be reached"):
        register("quantum://data")


def test_a_reader_takes_files_of_any_kind(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("3 4")
    (tmp_path / "a.txt").write_text("1 2")

    def read(path: str) -> Any:
        return np.array([float(word) for word in Path(path).read_text().split()])

    dataset = register(tmp_path, reader=read)
    assert [part.rows for part in dataset.training] == [None, None]
    taken = PartitionCache(pickle.loads(pickle.dumps(dataset))).take(1)
    assert (taken.data.tolist(), taken.rows, taken.bytes) == ([3.0, 4.0], 2, 16)
    joined = PartitionCache(register(tmp_path, reader=read, partitions=1)).take(0)
    assert joined.data.tolist() == [1.0, 2.0, 3.0, 4.0]


class Lines:
    """A stream: it can only be read from its beginning, and knows how long it is."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[str]:
        with Path(self.path).open(encoding="utf-8") as file:
            yield from file


def test_a_reader_may_give_a_stream_with_a_declared_length(tmp_path: Path) -> None:
    (tmp_path / "part-0.txt").write_text("a\nb\nc\n", encoding="utf-8")
    taken = PartitionCache(register(tmp_path, reader=Lines), limit_bytes=1000).take(0)
    assert taken.rows == 3
    assert [*taken.data] == [*taken.data] == ["a\n", "b\n", "c\n"]


def test_a_reader_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("abc")
    (tmp_path / "mine.py").write_text(
        "import pathlib\n\ndef read(path):\n    return list(pathlib.Path(path).read_text())\n"
    )
    monkeypatch.chdir(tmp_path)
    dataset = register("data", reader="mine.py:read")
    monkeypatch.chdir("/")
    assert PartitionCache(dataset).take(0).data == ["a", "b", "c"]
    with pytest.raises(JobError, match="there is no 'reed'"):
        register(tmp_path / "data", reader=f"{tmp_path}/mine.py:reed")
    with pytest.raises(JobError, match="reader is 'read'"):
        register(tmp_path / "data", reader="read")


def test_what_a_reader_does_wrong_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "b.txt").write_text("y")
    with pytest.raises(JobError, match=r"a\.txt: the reader returned nothing"):
        PartitionCache(register(tmp_path, reader=lambda path: None)).take(0)
    with pytest.raises(JobError, match=r"partition 0 .*the reader gave a int"):
        PartitionCache(register(tmp_path, reader=lambda path: 3)).take(0)
    with pytest.raises(JobError, match="a str each, which cannot be joined"):
        PartitionCache(register(tmp_path, reader=lambda path: "text", partitions=1)).take(0)
    with pytest.raises(ZeroDivisionError) as caught:
        PartitionCache(register(tmp_path, reader=lambda path: 1 / 0)).take(1)
    assert "b.txt" in caught.value.__notes__[0]


def test_hosts_say_who_has_a_partition(tmp_path: Path) -> None:
    for number in range(3):
        write_npz(tmp_path, f"{number}.npz", 2)
    dataset = register(tmp_path, hosts={0: ["a", "b"], 2: "c"})
    assert [part.hosts for part in dataset.training] == [("a", "b"), (), ("c",)]
    with pytest.raises(JobError, match=r"hosts has partition 3; there are 3 partitions"):
        register(tmp_path, hosts={3: ["a"]})
    with pytest.raises(JobError, match=r"partition 1 has \[\]"):
        register(tmp_path, hosts={1: []})
    with pytest.raises(JobError, match="validation_hosts is given, but there are no partitions"):
        register(tmp_path, validation_hosts={0: ["a"]})
    both = register(tmp_path, validation=tmp_path / "0.npz", validation_hosts={0: ["a"]})
    assert both.validation[0].hosts == ("a",)


def test_files_that_only_their_hosts_have_are_taken_on_trust(tmp_path: Path) -> None:
    files: list[str | Path] = ["/elsewhere/0.npz", write_npz(tmp_path, "1.npz", 2)]
    dataset = register(files, hosts={0: ["a"], 1: ["b"]})
    assert [(part.rows, bool(part.bytes)) for part in dataset.training] == [(None, False), (2, True)]
    with pytest.raises(JobError, match=r"no such file on this machine .*hosts"):
        PartitionCache(dataset).take(0)
    with pytest.raises(JobError, match="does not say which machine has partition 0"):
        register(files, hosts={1: ["b"]})
    with pytest.raises(JobError, match="no such file"):
        register(files)
    with pytest.raises(JobError, match="a partition for each file"):
        register(files, hosts={0: ["a"]}, partitions=1)


def test_the_fingerprint_tells_whether_data_changed(tmp_path: Path) -> None:
    for number in range(2):
        write_npz(tmp_path, f"{number}.npz", 2)
    dataset = register(tmp_path)
    assert register(tmp_path).fingerprint() == dataset.fingerprint()
    assert register(tmp_path, hosts={0: ["a"]}).fingerprint() == dataset.fingerprint()
    assert pickle.loads(pickle.dumps(dataset)).fingerprint() == dataset.fingerprint()
    moved = tmp_path.with_name("moved")
    tmp_path.rename(moved)
    assert register(moved).fingerprint() == dataset.fingerprint()
    os.utime(moved / "1.npz", (1, 1))
    others = [
        register(moved),
        register(moved, partitions=1),
        register(moved, reader=lambda path: path),
        replace(dataset, training=dataset.training[:1]),
    ]
    assert len({each.fingerprint() for each in (dataset, *others)}) == 5


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"y": np.arange(3)}, r"different lengths \(x: 2, y: 3\)"),
        (
            {"y": np.zeros(2, dtype=np.float32)},
            r"1\.npz: its columns differ .*0\.npz: y is float32, not int64",
        ),
        ({"x": np.zeros((2, 4), dtype=np.float32)}, r"x is float32\[4\], not float32\[3\]"),
        ({"z": np.arange(2)}, "has z more"),
        ({"y": np.array([{}, {}], dtype=object)}, "y has Python objects"),
        ({"y": np.array(3)}, "y has no dimensions"),
        ({"x": np.zeros((0, 3), dtype=np.float32), "y": np.arange(0)}, "no rows in it"),
    ],
)
def test_files_that_do_not_fit_together_are_told(tmp_path: Path, columns: Any, told: str) -> None:
    write_npz(tmp_path, "0.npz", 2)
    write_npz(tmp_path, "1.npz", 2, **columns)
    with pytest.raises(JobError, match=told):
        register(tmp_path)


def test_columns_of_tables_and_validation_must_agree_too(tmp_path: Path) -> None:
    for suffix in (".csv", ".parquet"):
        write_rows(tmp_path / f"0{suffix}", {"a": [1], "b": [2]})
        write_rows(tmp_path / f"1{suffix}", {"a": [1]})
        with pytest.raises(JobError, match="has no b"):
            register(tmp_path / f"*{suffix}")
        with pytest.raises(JobError, match="has no b"):
            register(tmp_path / f"0{suffix}", validation=tmp_path / f"1{suffix}")


def test_texts_may_be_longer_in_one_file_than_in_another(tmp_path: Path) -> None:
    write_npz(tmp_path, "0.npz", 1, word=np.array(["a"]))
    write_npz(tmp_path, "1.npz", 1, word=np.array(["abc"]))
    assert PartitionCache(register(tmp_path, partitions=1)).take(0).data["word"].tolist() == ["a", "abc"]


@pytest.mark.parametrize("name", ["0.npz", "0.npy", "0.parquet", "0.csv"])
@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04 nonsense \xff\xfe,\n,,,,\n"], ids=["empty", "nonsense"]
)
def test_files_that_cannot_be_read_are_told(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(JobError, match=rf"{name}: (the file is empty|cannot be read as)"):
        register(tmp_path)


def test_what_is_no_data_is_told(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="no files in"):
        register(tmp_path)
    with pytest.raises(JobError, match="no file or folder"):
        register(tmp_path / "nothing")
    with pytest.raises(JobError, match="there are no files"):
        register(tmp_path / "*.npz")
    with pytest.raises(JobError, match="no files"):
        register([])
    with pytest.raises(JobError, match="expected a folder"):
        register(3)  # type: ignore[arg-type]
    path = write_npz(tmp_path, "0.npz", 2)
    with pytest.raises(JobError, match="listed more than once"):
        register([path, path])
    with pytest.raises(JobError, match="partitions is 2, but there is 1 file: a file is never cut"):
        register(path, partitions=2)
    with pytest.raises(JobError, match="partitions is 0"):
        register(path, partitions=0)
    (tmp_path / "1.txt").write_text("x")
    with pytest.raises(JobError, match=r"different kinds \(\.npz, \.txt\)"):
        register(tmp_path)
    with pytest.raises(JobError, match=r"1\.txt: this is no \.npz, \.npy, \.csv, .*\.hdf5 file; .*`reader`"):
        register(tmp_path / "1.txt")
