"""Partitioned data as it is known before any of it is loaded.

A dataset lists its partitions and the machines that have them (the availability map of the user). `group`
puts files into partitions: neighbours stay together, and the largest partition is as small as possible.
`data.json`, the manifest of `split`, is written twice, as unfinished before the files and as whole after
them, so an interrupted split is never taken for a whole one.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any, TypeAlias

from elastune.data.files import File, file_errors, look, read_if_there, replace_file
from elastune.errors import InvariantError, JobError
from elastune.wording import plural, seen, without_secrets


@dataclass(frozen=True, slots=True)
class Partition:
    """One or several files that are read together.

    `rows` is None, and `bytes` 0, if they are known only after loading. `hosts` are names or addresses of the
    machines that have it; empty: all have. `modified`: when each file was changed, as the storage writes it.
    """

    number: int
    sources: tuple[str, ...]
    rows: int | None
    bytes: int
    hosts: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dataset:
    """Sent to the workers, which read their partitions themselves.

    `reader` names the user's function that reads a file; `reader_pickled` is one given as an object.
    `seed` is the one that `split` shuffled with.
    """

    training: tuple[Partition, ...]
    validation: tuple[Partition, ...] = ()
    reader: str | None = None
    reader_pickled: bytes | None = None
    seed: int | None = None
    is_mapped: bool = False
    """Files are mapped into memory where they allow it, and not read as a whole."""
    cache: str | None = None
    """A folder on each node's disk, for remote files and for arrays that are mapped."""

    def partition(self, number: int, *, validation: bool = False) -> Partition:
        """By its number; training and validation are numbered separately."""
        parts = self.validation if validation else self.training
        if not 0 <= number < len(parts):
            kind = "validation" if validation else "training"
            raise InvariantError(f"partition {number} was asked for; there are {len(parts)} of {kind}")
        return parts[number]

    def fingerprint(self) -> str:
        """The same for the same data, also in another folder or on other hosts."""
        reader = self.reader and re.split(r"[/\\]", self.reader)[-1]
        facts = [_facts(self.training), _facts(self.validation), reader]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _facts(parts: Sequence[Partition]) -> list[object]:
    names = [[source.rsplit("/", 1)[-1] for source in part.sources] for part in parts]
    return [
        [name, part.rows, part.bytes, list(part.modified)] for name, part in zip(names, parts, strict=True)
    ]


Hosts: TypeAlias = Mapping[int, Iterable[str]]
"""By the number of the partition; all machines have the partitions that are left out."""


def read_hosts(hosts: Hosts | None, partitions: int, name: str) -> dict[int, tuple[str, ...]]:
    """Checked: every partition that is named has at least one host."""
    if hosts is None:
        return {}
    if not isinstance(hosts, Mapping):
        raise JobError(f"{name} is {seen(hosts)}; expected hosts by partition number: {{0: ['node-a']}}")
    if hosts and not partitions:
        raise JobError(f"{name} is given, but there are no partitions")
    read = {}
    for number, names in hosts.items():
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < partitions:
            there = f"there {'is' if partitions == 1 else 'are'} {plural(partitions, 'partition')}"
            expected = f"expected numbers from 0 to {partitions - 1}"
            raise JobError(f"{name} has partition {seen(number)}; {there}, {expected}")
        listed = (names,) if isinstance(names, str) else tuple(names)
        if not listed or not all(isinstance(each, str) and each for each in listed):
            raise JobError(
                f"{name}: partition {number} has {seen(names)}; expected names or addresses of machines, or "
                "leave the partition out if all machines have it"
            )
        read[number] = tuple(dict.fromkeys(listed))
    return read


def group(sizes: Sequence[int], count: int) -> list[range]:
    """`count` ranges, none empty: the largest sum is the least possible, the others about equal."""
    sums = [0, *accumulate(sizes)]
    candidates = range(max(sizes), sums[-1])
    largest = candidates.start + bisect_left(candidates, True, key=lambda most: _fits(sums, 0, most, count))
    groups: list[range] = []
    start = 0
    for left in range(count, 0, -1):
        end = min(_reach(sums, start, largest), len(sizes) - left + 1)
        average = (sums[-1] - sums[start]) / left
        while _is_better_without_last(sums, start, end, average) and _fits(sums, end - 1, largest, left - 1):
            end -= 1
        groups.append(range(start, end))
        start = end
    return groups


def _fits(sums: Sequence[int], start: int, largest: int, count: int) -> bool:
    """Whether the files from `start` fit into `count` groups when each takes all it can."""
    end = len(sums) - 1
    while start < end and count:
        start = _reach(sums, start, largest)
        count -= 1
    return start == end


def _reach(sums: Sequence[int], start: int, largest: int) -> int:
    """The latest end of a group that begins at `start`."""
    return bisect_right(sums, sums[start] + largest) - 1


def _is_better_without_last(sums: Sequence[int], start: int, end: int, average: float) -> bool:
    without = sums[end - 1] - sums[start]
    return end - 1 > start and abs(without - average) < abs(sums[end] - sums[start] - average)


NAME = "data.json"
_MARK = "elastune_split"
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRecipe:
    """What determines every byte of a split; `data` is a hash of the arrays."""

    data: str
    seed: int
    partitions: int
    validation: float
    validation_partitions: int

    def differences(self, other: SplitRecipe) -> list[str]:
        mine, theirs = asdict(self), asdict(other)
        names = [name for name in mine if theirs[name] != mine[name]]
        return [n if n == "data" else f"{n} {theirs[n]} instead of {mine[n]}" for n in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    file: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    is_whole: bool
    recipe: SplitRecipe
    training: tuple[Piece, ...] = ()
    validation: tuple[Piece, ...] = ()


def write_manifest(folder: str, manifest: Manifest) -> None:
    text = json.dumps({_MARK: _VERSION, **asdict(manifest)}, indent=1)
    path = f"{folder}/{NAME}"
    with file_errors(path, "written"):
        replace_file(path, f"{text}\n".encode())


def find_manifest(folder: str) -> Manifest | None:
    """The manifest in a folder, whole or not; None also if `data.json` is a file of the user."""
    path = f"{folder}/{NAME}"
    with file_errors(path, "read"):
        content = read_if_there(path)
    if content is None or f'"{_MARK}"'.encode() not in content:
        return None
    try:
        return _parse(json.loads(content))
    except (ValueError, TypeError, KeyError) as error:
        raise JobError(
            f"{without_secrets(path)}: it cannot be read ({type(error).__name__}: {error}); expected what "
            "elastune.data.split wrote: delete the file and split the data again"
        ) from None


def check_file(folder: str, piece: Piece) -> File:
    """Raises if the size differs from the manifest, whose other facts are then in doubt as well."""
    found = look(f"{folder}/{piece.file}")
    if found.size != piece.bytes:
        raise JobError(
            f"{without_secrets(found.path)}: it has {found.size:,} bytes, but {NAME} beside it says "
            f"{piece.bytes:,}; split the data again, into an empty folder"
        )
    return found


def _parse(content: Any) -> Manifest:
    if content[_MARK] != _VERSION:
        raise ValueError(f"version {content[_MARK]}")
    training, validation = (
        tuple(Piece(**each) for each in content[kind]) for kind in ("training", "validation")
    )
    recipe = SplitRecipe(**content["recipe"])
    return Manifest(
        is_whole=bool(content["is_whole"]), recipe=recipe, training=training, validation=validation
    )
