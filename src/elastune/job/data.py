"""The data section: where the partitions of a hopping job are, and how they are spread over the workers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, PlainSerializer, model_validator

from elastune.hopping.partitions import Hopping
from elastune.hopping.schedulers import DEFAULT_SCHEDULER, SCHEDULERS
from elastune.job.outputs import storage_in
from elastune.job.section import MisfitError, Section, path_text, without_login
from elastune.job.trainable import written_in
from elastune.model.quantities import Count, ExpectedError, PositiveSizeGb, Seed, one_of

_LARGEST_PART = 0.5
# If not measured: evaluating a row takes a third of the time of training on it.
_EVALUATION_PER_ROW = 1 / 3
_HOSTS = (
    "a mapping from partitions to machines, such as {0: [10.0.0.1, 10.0.0.2]}, or from machines to their "
    "files, such as {10.0.0.1: [/data/part-0.npz]}"
)


def _path(written: object) -> str:
    text = path_text(written)
    if text is None:
        raise ExpectedError("a folder, a pattern such as data/*.npz, or an address such as s3://bucket/data")
    return without_login(text)


def _paths(written: object) -> str | tuple[str, ...]:
    """One, or a list of files and patterns."""
    if not isinstance(written, list | tuple):
        return _path(written)
    if not written:
        raise ExpectedError("at least one file, or a folder")
    return tuple(_path(each) for each in written)


def _validation(written: object) -> str | tuple[str, ...] | float:
    if isinstance(written, float | int) and not isinstance(written, bool):
        if 0.0 < written <= _LARGEST_PART:
            return float(written)
        raise ExpectedError(f"a part of the data above 0 and up to {_LARGEST_PART}, or a folder")
    return _paths(written)


def _reference(written: object) -> object:
    if callable(written) or (isinstance(written, str) and ":" in written):
        return written
    raise ExpectedError("a function, such as path/to/file.py:read")


def _named(given: object) -> object:
    """A journal holds the name of a function."""
    if given is None or isinstance(given, str):
        return given
    return f"{getattr(given, '__module__', '?')}:{getattr(given, '__qualname__', type(given).__name__)}"


def _rows(written: object) -> tuple[float, ...]:
    listed = written if isinstance(written, list | tuple) else []
    rows = [each for each in listed if isinstance(each, int | float) and not isinstance(each, bool)]
    if not rows or len(rows) < len(listed) or not all(0 < each < float("inf") for each in rows):
        raise ExpectedError("the rows of each partition, such as [1000, 1000, 800]")
    return tuple(float(each) for each in rows)


AnyFunction = Annotated[object, BeforeValidator(_reference), PlainSerializer(_named)]


def _hosts(written: object) -> dict[int, tuple[str, ...]]:
    if not isinstance(written, Mapping):
        raise ExpectedError(_HOSTS)
    hosts = {}
    for number, names in written.items():
        listed = [names] if isinstance(names, str) else names
        if not str(number).isdecimal() or not isinstance(listed, list | tuple) or not listed:
            raise ExpectedError(_HOSTS)
        hosts[int(number)] = tuple(str(name) for name in listed)
    return hosts


PartitionHosts = Annotated[dict[int, tuple[str, ...]], BeforeValidator(_hosts)]
Spill = Annotated[
    str | Literal[True], BeforeValidator(lambda value: value if value is True else _path(value))
]


def _with_numbers(written: Mapping[str, object]) -> Mapping[str, object]:
    changed = dict(written)
    for key, files_key in (("hosts", "path"), ("validation_hosts", "validation")):
        found = written.get(key)
        if not isinstance(found, Mapping) or any(str(each).isdecimal() for each in found):
            continue
        if files_key in written:
            raise MisfitError((key,), f"names the files of each machine; expected no {files_key} beside it")
        holders: dict[str, list[str]] = {}
        for host, files in found.items():
            for file in [files] if isinstance(files, str) else files:
                holders.setdefault(str(file), []).append(str(host))
        changed[files_key] = list(holders)
        changed[key] = dict(enumerate(holders.values()))
    return changed


class DataSection(Section):
    """`path` leads to files that are partitions, or `make` is a function whose data are split with a seed.

    Without either, the job can be planned and simulated, but not run.
    """

    path: Annotated[str | tuple[str, ...], BeforeValidator(_paths)] | None = None
    make: AnyFunction | None = None
    partitions: Count | None = None
    replicas: Count = 1
    validation: Annotated[str | tuple[str, ...] | float, BeforeValidator(_validation)] | None = None
    validation_partitions: Count | None = None
    reader: AnyFunction | None = None
    hosts: PartitionHosts | None = None
    validation_hosts: PartitionHosts | None = None
    memory: PositiveSizeGb | None = None
    """GB for data per worker."""
    partitions_per_worker: Count | None = None
    """The most that one worker may hold. Derived from `memory` and the files, unless there is a `spill`."""
    spill: Spill | None = None
    load: Annotated[str, BeforeValidator(one_of("memory", "mapped"))] = "memory"
    """Whether files are read, or mapped into memory, which the workers of a node then share."""
    cache: Annotated[str, BeforeValidator(_path)] | None = None
    """A folder on each node's disk."""
    rows: Annotated[tuple[float, ...], BeforeValidator(_rows)] | None = None
    validation_rows: Annotated[tuple[float, ...], BeforeValidator(_rows)] | None = None
    """Of each partition. Filled in where there are files, so that the journal has them."""
    fingerprint: str | None = None
    """Of the files; a resumed run needs the same."""
    seed: Seed = 0
    scheduler: Annotated[str, BeforeValidator(one_of(*SCHEDULERS))] = DEFAULT_SCHEDULER
    overlap: bool = False
    """Whether a trial begins its next epoch before the others are through with theirs."""

    @model_validator(mode="before")
    @classmethod
    def _by_partition(cls, written: object) -> object:
        """Machines with the files that they have (Cerebro's availability map): hosts by number instead."""
        return _with_numbers(written) if isinstance(written, Mapping) else written

    @model_validator(mode="after")
    def _data_come_from_one_place(self) -> Self:
        if self.path is not None and self.make is not None:
            raise MisfitError(("make",), "and path exclude each other; expected one of them")
        if self.rows is not None and self.partitions not in (None, len(self.rows)):
            wrong = f"has {len(self.rows)} partitions, but partitions is {self.partitions}"
            raise MisfitError(("rows",), wrong)
        if self.path is None and self.partitions is None and self.rows is None:
            raise MisfitError(("partitions",), "is missing; expected a number, or path: a folder of files")
        if self.reader is not None and self.path is None:
            raise MisfitError(("reader",), "reads files, but there is no path to them")
        if isinstance(self.validation, float) and self.make is None and self.path is not None:
            wrong = f"is {self.validation:g}, a part of data that are split; expected a folder"
            raise MisfitError(("validation",), wrong)
        if isinstance(self.validation, str | tuple) and self.path is None:
            raise MisfitError(("validation",), "is a folder, but there is no path to training data")
        if self.path is None and self.validation is None and self.validation_partitions is not None:
            raise MisfitError(("validation_partitions",), "needs validation data, and there is no validation")
        if self.spill is not None and self.memory is None:
            raise MisfitError(("spill",), "needs memory: how many GB a worker may hold before it spills")
        return self

    @model_validator(mode="after")
    def _exact_needs_whole_epochs(self) -> Self:
        if self.overlap and self.scheduler == "exact":
            raise MisfitError(("overlap",), "has no whole epochs for scheduler: exact; expected another one")
        return self

    @model_validator(mode="after")
    def _hosts_are_of_partitions(self) -> Self:
        for key, hosts, count in (
            ("hosts", self.hosts, self.partitions),
            ("validation_hosts", self.validation_hosts, self.validation_partitions),
        ):
            wrong = [number for number in hosts or () if count is not None and number >= count]
            if wrong:
                text = f"names partition {wrong[0]}, but there are only {count}, from 0"
                raise MisfitError((key,), text)
        if self.validation_hosts is not None and self.validation is None:
            raise MisfitError(("validation_hosts",), "needs validation: the files for evaluation")
        return self

    def to_hopping(self) -> Hopping:
        """As the planners see it."""
        rows, validation_rows = self.all_rows()
        return Hopping(
            partitions=len(rows),
            replicas=self.replicas,
            validation=len(validation_rows),
            most_per_worker=self.partitions_per_worker,
            rows=rows,
            validation_rows=validation_rows,
            evaluation_share=self.evaluation_share,
            overlap=self.overlap,
            scheduler=self.scheduler,
        )

    def all_rows(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Of training and validation; all equal if not known."""
        rows = self.rows or (1.0,) * (self.partitions or 1)
        if self.validation_rows is not None:
            return rows, self.validation_rows
        if self.validation is None:
            return rows, ()
        held_out = self.validation if isinstance(self.validation, float) else 0.5
        count = self.validation_partitions or len(rows)
        return rows, (sum(rows) * held_out / (1.0 - held_out) / count,) * count

    @property
    def evaluation_share(self) -> float:
        """The part of an epoch that is evaluation."""
        rows, validation_rows = self.all_rows()
        evaluated = sum(validation_rows) * _EVALUATION_PER_ROW
        return evaluated / (sum(rows) + evaluated)


def data_in(folder: Path, written: object) -> object:
    """As written in a job in `folder`, with paths as seen from the working folder."""
    if not isinstance(written, Mapping):
        return written
    paths = [key for key in ("path", "validation", "spill", "cache") if key in written]
    names = [key for key in ("make", "reader") if isinstance(written.get(key), str)]
    placed = {key: _placed(folder, written[key]) for key in paths}
    return {**written, **placed, **{key: written_in(folder, written[key]) for key in names}}


def _placed(folder: Path, written: object) -> object:
    if isinstance(written, list | tuple):
        return [storage_in(folder, each) for each in written]
    return storage_in(folder, written)
