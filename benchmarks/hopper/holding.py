"""What data a worker process holds, and how much memory it takes: noted in a file per process."""

from __future__ import annotations

import functools
import itertools
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from elastune.data.partition_cache import PartitionCache, measure
from elastune.data.registering import register

_PAGE = os.sysconf("SC_PAGE_SIZE")
_held: dict[tuple[str, int], int] = {}
"""Bytes of the partitions that this process holds. Without a limit a shelf drops none."""


def note_memory(folder: str, where: str, partition: int, data: Any) -> None:
    """One file per process: bytes of data, and of all its memory, at their most."""
    known = (where, partition) in _held
    _held[where, partition] = measure(data)
    path = Path(folder) / f"{os.getpid()}.json"
    before = json.loads(path.read_text()) if path.exists() else {"rss": 0}
    rss = int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    if not known or rss > before["rss"]:
        now = {"held": sum(_held.values()), "rss": max(rss, before["rss"])}
        path.write_text(json.dumps(now), encoding="utf-8")


@functools.cache
def all_of(folder: str, notes: str) -> tuple[Any, int]:
    """Every partition in a folder as one, and their rows: once per process, whatever trial comes."""
    dataset = register(folder)
    shelf = PartitionCache(dataset)
    parts = [shelf.take(number).data for number in range(len(dataset.training))]
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    note_memory(notes, folder, 0, whole)
    return whole, len(next(iter(whole.values())))


@functools.cache
def shard_of(folder: str, notes: str, rank: int, size: int) -> tuple[Any, int]:
    """The partitions of one of `size` workers as one, and the rows of all workers: once per process."""
    dataset = register(folder)
    shelf = PartitionCache(dataset)
    parts = [shelf.take(number).data for number in range(rank, len(dataset.training), size)]
    mine = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    note_memory(notes, folder, 0, mine)
    return mine, sum(part.rows or 0 for part in dataset.training)


@functools.cache
def number_of(notes: str) -> int:
    """Of this worker process among those of a run, from 0."""
    for number in itertools.count():
        try:
            (Path(notes) / f"worker-{number}").touch(exist_ok=False)
        except FileExistsError:
            continue
        return number
    raise AssertionError
