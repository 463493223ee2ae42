"""What is known of partitioned data before any of it is loaded."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from elastune.errors import InvariantError


@dataclass(frozen=True, slots=True)
class Partition:
    """One or several files that are read together, as one piece.

    `rows` is None, and `bytes` 0, where only loading tells. `hosts` are names or addresses of the machines
    that have it; empty: all have. `modified` tells when the files were changed, in the storage's own words.
    """

    number: int
    sources: tuple[str, ...]
    rows: int | None
    bytes: int
    hosts: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dataset:
    """Travels to the workers, which read their partitions themselves.

    `reader` names the user's function that reads a file; `reader_pickled` is one that was given as it is.
    `seed` is the one that `split` shuffled with.
    """

    training: tuple[Partition, ...]
    validation: tuple[Partition, ...] = ()
    reader: str | None = None
    reader_pickled: bytes | None = None
    seed: int | None = None

    def partition(self, number: int, *, validation: bool = False) -> Partition:
        """By its number; training and validation are counted apart."""
        parts = self.validation if validation else self.training
        if not 0 <= number < len(parts):
            kind = "validation" if validation else "training"
            raise InvariantError(f"partition {number} was asked for; there are {len(parts)} of {kind}")
        return parts[number]

    def fingerprint(self) -> str:
        """The same for the same data, also where they lie in another folder or on other hosts."""
        reader = self.reader and re.split(r"[/\\]", self.reader)[-1]
        facts = [_facts(self.training), _facts(self.validation), reader]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _facts(parts: Sequence[Partition]) -> list[object]:
    return [[_names(part), part.rows, part.bytes, list(part.modified)] for part in parts]


def _names(part: Partition) -> list[str]:
    return [source.rsplit("/", 1)[-1] for source in part.sources]
