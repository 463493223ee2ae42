"""How many bytes of a remote file are read: by HTTP on this machine, which counts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.hopper.serving import FarStore
from elastune.data import formats

pytest.importorskip("aiohttp")

ROWS = 3_000


def write_npz(path: Path, columns: dict[str, Any]) -> None:
    np.savez(path, **columns)


def write_npy(path: Path, columns: dict[str, Any]) -> None:
    np.save(path, columns["x"])


def write_parquet(path: Path, columns: dict[str, Any]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    numbered = {f"c{number}": column for number, column in enumerate(columns["x"].T[:500])}
    parquet.write_table(pyarrow.table(numbered), path, compression="none", use_dictionary=False)


KINDS: dict[str, Callable[[Path, dict[str, Any]], None]] = {
    "npz": write_npz,
    "npy": write_npy,
    "parquet": write_parquet,
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FarStore]:
    with FarStore(tmp_path, bytes_per_s=1e12).serving() as serving:
        yield serving


@pytest.mark.parametrize("kind", KINDS)
def test_a_remote_file_is_read_once_and_of_its_header_little(kind: str, store: FarStore) -> None:
    columns = {"x": np.random.default_rng(0).random((ROWS, 800)), "y": np.arange(ROWS)}
    path = store.folder / f"part.{kind}"
    KINDS[kind](path, columns)
    size = path.stat().st_size
    assert size > 10_000_000

    address = store.address(path.name)
    assert formats.outline(address).rows == ROWS
    header = store.sent_bytes
    data = formats.read(address)

    assert header < 0.1 * size
    assert store.sent_bytes - header < 1.3 * size
    first = data["x"] if kind == "npz" else data["c0"] if kind == "parquet" else data
    assert np.array_equal(first, columns["x"][:, 0] if kind == "parquet" else columns["x"])
