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
_HOSTS = "a mapping from partitions to machines, such as {0: [10.0.0.1, 10.0.0.2]}"


def _path(written: object) -> str:
    text = path_text(written)
    if text is None:
        raise ExpectedError("a folder, a pattern such as data/*.npz, or an address such as s3://bucket/data")
    return without_login(text)


def _validation(written: object) -> str | float:
    if isinstance(written, float | int) and not isinstance(written, bool):
        if 0.0 < written <= _LARGEST_PART:
            return float(written)
        raise ExpectedError(f"a part of the data above 0 and up to {_LARGEST_PART}, or a folder")
    return _path(written)


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


Spill = Annotated[
    str | Literal[True], BeforeValidator(lambda value: value if value is True else _path(value))
]


class DataSection(Section):
    """`path` leads to files that are partitions, or `make` is a function whose data are split with a seed.

    Without either, the job can be planned and simulated, but not run.
    """

    path: Annotated[str, BeforeValidator(_path)] | None = None
    make: AnyFunction | None = None
    partitions: Count | None = None
    replicas: Count = 1
    validation: Annotated[str | float, BeforeValidator(_validation)] | None = None
    validation_partitions: Count | None = None
    reader: AnyFunction | None = None
    hosts: Annotated[dict[int, tuple[str, ...]], BeforeValidator(_hosts)] | None = None
    memory: PositiveSizeGb | None = None
    """GB for data per worker."""
    partitions_per_worker: Count | None = None
    """The most that one worker may hold. Derived from `memory` and the files, unless there is a `spill`."""
    spill: Spill | None = None
    rows: Annotated[tuple[float, ...], BeforeValidator(_rows)] | None = None
    validation_rows: Annotated[tuple[float, ...], BeforeValidator(_rows)] | None = None
    """Of each partition. Filled in where there are files, so that the journal has them."""
    fingerprint: str | None = None
    """Of the files; a resumed run needs the same."""
    seed: Seed = 0
    scheduler: Annotated[str, BeforeValidator(one_of(*SCHEDULERS))] = DEFAULT_SCHEDULER

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
        if isinstance(self.validation, str) and self.path is None:
            raise MisfitError(("validation",), "is a folder, but there is no path to training data")
        if self.path is None and self.validation is None and self.validation_partitions is not None:
            raise MisfitError(("validation_partitions",), "needs validation data, and there is no validation")
        if self.spill is not None and self.memory is None:
            raise MisfitError(("spill",), "needs memory: how many GB a worker may hold before it spills")
        return self

    @model_validator(mode="after")
    def _hosts_are_of_partitions(self) -> Self:
        wrong = [n for n in self.hosts or () if self.partitions is not None and n >= self.partitions]
        if wrong:
            text = f"names partition {wrong[0]}, but there are only {self.partitions}, from 0"
            raise MisfitError(("hosts",), text)
        return self

    def to_hopping(self) -> Hopping:
        """As the planners see it."""
        partitions = self.partitions or len(self.rows or (1,))
        validation = len(self.validation_rows or ())
        if self.validation is not None and not validation:
            validation = self.validation_partitions or partitions
        return Hopping(
            partitions=partitions,
            replicas=self.replicas,
            validation=validation,
            most_per_worker=self.partitions_per_worker,
        )


def data_in(folder: Path, written: object) -> object:
    """As written in a job in `folder`, with paths as seen from the working folder."""
    if not isinstance(written, Mapping):
        return written
    paths = [key for key in ("path", "validation", "spill") if key in written]
    names = [key for key in ("make", "reader") if isinstance(written.get(key), str)]
    placed = {key: storage_in(folder, written[key]) for key in paths}
    return {**written, **placed, **{key: written_in(folder, written[key]) for key in names}}
