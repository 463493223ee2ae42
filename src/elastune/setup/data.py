"""The partitioned data of a job: found or made, and the facts that the core needs."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from elastune.data.dataset import Dataset
from elastune.data.registering import register
from elastune.data.splitting import split
from elastune.errors import JobError
from elastune.hopping.partitions import DataTerms
from elastune.job.data import DataSection
from elastune.job.job import Job
from elastune.training.recipe import Recipe, load


def data_terms(job: Job) -> DataTerms | None:
    """None: models do not hop."""
    section = job.data
    if section is None:
        return None
    rows, validation_rows = section.all_rows()
    terms = DataTerms(
        rows=rows,
        validation_rows=validation_rows,
        replicas=section.replicas,
        scheduler=section.scheduler,
        most_per_worker=section.partitions_per_worker,
        hosts=tuple((number, frozenset(names)) for number, names in (section.hosts or {}).items()),
        evaluation_share=section.evaluation_share,
        overlap=section.overlap,
    )
    workers = job.cluster.most_nodes * job.cluster.slots_per_node
    if terms.least_workers > workers:
        raise JobError(
            f"the data need {terms.least_workers} workers of {terms.most_per_worker} partitions each, but "
            f"the cluster has at most {workers} slots; expected more slots, more data.memory, or data.spill"
        )
    return terms


def with_rows(job: Job, *, for_real: bool) -> Job:
    """The job with the sizes of its files, so that its journal alone determines how it was scheduled."""
    section = job.data
    if section is None or section.path is None or section.rows is not None:
        return job
    try:
        dataset = find_data(section, _input_fn(job.trainable) if for_real else None)
    except JobError:
        if for_real or section.partitions is None:
            raise
        return job  # the number of partitions suffices to plan and simulate
    rows, validation_rows = _sizes(dataset)
    update = {
        "partitions": len(rows),
        "rows": rows,
        "validation_rows": validation_rows or None,
        "partitions_per_worker": section.partitions_per_worker or _most_per_worker(section, dataset),
        "fingerprint": dataset.fingerprint() if for_real else None,
    }
    return job.model_copy(update={"data": section.model_copy(update=update)})


def find_data(section: DataSection, input_fn: object = None) -> Dataset:
    """The partition files; `input_fn` is the trainable's own reader."""
    if section.path is None:
        raise JobError("data.path is missing; expected a folder of files, or data.make: a function")
    reader: Any = section.reader or input_fn
    found = register(
        section.path,
        partitions=section.partitions,
        validation=None if isinstance(section.validation, float) else section.validation,
        validation_partitions=section.validation_partitions,
        reader=reader,
        hosts=section.hosts,
        validation_hosts=section.validation_hosts,
    )
    return _kept_as(section, found)


def _kept_as(section: DataSection, dataset: Dataset) -> Dataset:
    """How the workers keep it; a cache is for files that are mapped."""
    return replace(
        dataset, is_mapped=section.load == "mapped" or section.cache is not None, cache=section.cache
    )


def _input_fn(trainable: object) -> object:
    """The reader of a trainable made of Cerebro's functions."""
    user = load(trainable) if isinstance(trainable, str) else trainable
    return getattr(user, "input_fn", None)


def open_data(job: Job, folder: Path, recipe: Recipe) -> Dataset | None:
    """The data of a real run; raises `JobError` without data or if the trainable cannot evaluate them."""
    section = job.data
    if section is None:
        return None
    if section.validation is not None:
        _check_evaluates(recipe)
    if section.make is None:
        dataset = find_data(section, getattr(recipe.user, "input_fn", None))
        if section.fingerprint not in (None, dataset.fingerprint()):
            raise JobError(
                f"the data in {section.path} have changed since the run began, in size or in time; expected "
                "the same files: put them back, or begin a new run"
            )
        if dataset.validation:
            _check_evaluates(recipe)
        return dataset
    if section.partitions is None:
        raise JobError("data.partitions is missing; expected the number of parts to split the data into")
    # Data made in memory are split into files.
    where = str(folder / "data") if job.storage is None else f"{job.storage.rstrip('/')}/{folder.name}/data"
    with contextlib.suppress(JobError):  # a resumed run has its files already
        return _kept_as(section, register(where))
    make = load(section.make) if isinstance(section.make, str) else section.make
    if not callable(make):
        raise JobError(f"data.make is {make!r}; expected a function without arguments that returns the data")
    try:
        made = make()
    except Exception as error:
        raise JobError(f"data.make raised {type(error).__name__}: {error}") from error
    made_files = split(
        made,
        where,
        partitions=section.partitions,
        seed=section.seed,
        validation=section.validation if isinstance(section.validation, float) else 0.0,
        validation_partitions=section.validation_partitions,
    )
    return _kept_as(section, made_files)


def _most_per_worker(section: DataSection, dataset: Dataset) -> int | None:
    """By the size of the files, with their part of the validation data; None: no limit."""
    total = sum(part.bytes for part in (*dataset.training, *dataset.validation))
    if section.memory is None or section.spill is not None or not total or dataset.is_mapped:
        return None
    most = int(section.memory * 1e9 * len(dataset.training) / total)
    if not most:
        each = total / len(dataset.training) / 1e9
        raise JobError(
            f"data.memory is {section.memory:g} GB, but a partition takes {each:.3g} GB; expected more, "
            "smaller partitions, data.load: mapped, which reads only what is in use, or data.spill: a folder "
            "for what does not fit"
        )
    return min(most, len(dataset.training))


def _check_evaluates(recipe: Recipe) -> None:
    if not recipe.evaluates:
        raise JobError(
            f"there are validation data, but {recipe.name} has no method evaluate(); expected a class "
            "with one that returns the metrics on worker.data, or no validation data"
        )


def _sizes(dataset: Dataset) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Rows of training and validation or, if not all are known, the bytes of the files."""
    parts = (*dataset.training, *dataset.validation)
    known = all(part.rows for part in parts)
    sizes = [float((part.rows if known else part.bytes) or 1.0) for part in parts]
    return tuple(sizes[: len(dataset.training)]), tuple(sizes[len(dataset.training) :])
