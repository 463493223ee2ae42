"""Where the data of a job are: files in lists, on some machines only, in a cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elastune.errors import JobError
from elastune.job.job import Job
from elastune.setup.data import data_terms, find_data, with_rows


def score(config: dict[str, Any]) -> float:
    return float(config["x"])


BASE: dict[str, Any] = {
    "trainable": f"{__file__}:score",
    "execution": "hopper",
    "space": {"x": {"float": [0.0, 1.0]}},
    "metric": "score",
    "search": {"algorithm": "random", "trials": 2, "max_iterations": 2},
    "profile": {"iteration": 1.0},
    "cluster": {"provider": "simulated", "nodes": 2, "slots_per_node": 1, "price_per_hour": 1},
}


def job_with(**data: Any) -> Job:
    return Job.model_validate({**BASE, "data": data})


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for number in range(4):
        np.save(tmp_path / f"{number}.npy", np.arange(number + 1))
    return [str(tmp_path / f"{number}.npy") for number in (3, 0, 2)]


def test_a_list_of_files_keeps_its_order(files: list[str]) -> None:
    job = with_rows(job_with(path=files, validation=[files[1]]), for_real=False)
    assert job.data is not None
    assert job.data.rows == (4.0, 1.0, 3.0)
    assert job.data.validation_rows == (1.0,)


def test_the_files_of_each_machine_are_the_partitions() -> None:
    """Cerebro's availability map; this machine has none of the files."""
    job = job_with(
        hosts={"10.0.0.1": ["/data/a.npz", "/data/b.npz"], "node-b": ["/data/b.npz"]},
        validation_hosts={"node-b": "/data/v.npz"},
    )
    section = job.data
    assert section is not None
    assert section.path == ("/data/a.npz", "/data/b.npz")
    assert section.hosts == {0: ("10.0.0.1",), 1: ("10.0.0.1", "node-b")}
    dataset = find_data(section)
    assert [part.hosts for part in (*dataset.training, *dataset.validation)] == [
        ("10.0.0.1",),
        ("10.0.0.1", "node-b"),
        ("node-b",),
    ]
    terms = data_terms(with_rows(job, for_real=True))
    assert terms is not None
    assert (len(terms.rows), len(terms.validation_rows)) == (2, 1)
    assert dict(terms.hosts)[1] == {"10.0.0.1", "node-b"}
    again = Job.model_validate(job.model_dump())
    assert again.data == section, "the journal has it by number"


def test_machines_with_files_exclude_a_path() -> None:
    with pytest.raises(JobError, match="expected no path beside it"):
        job_with(path="data", hosts={"node-a": ["/data/a.npz"]})


def test_hosts_of_partitions_that_are_not_there_are_refused() -> None:
    with pytest.raises(JobError, match="names partition 5, but there are only 2"):
        job_with(path="data", validation="v", validation_partitions=2, validation_hosts={5: ["node-a"]})
    with pytest.raises(JobError, match="needs validation"):
        job_with(path="data", validation_hosts={0: ["node-a"]})


def test_a_cache_implies_that_files_are_mapped(files: list[str], tmp_path: Path) -> None:
    section = job_with(path=files, cache=str(tmp_path / "cache"), memory=1e-9).data
    assert section is not None
    dataset = find_data(section)
    assert (dataset.is_mapped, dataset.cache) == (True, str(tmp_path / "cache"))
    job = with_rows(job_with(path=files, load="mapped", memory=1e-9), for_real=False)
    assert job.data is not None
    assert job.data.partitions_per_worker is None, "mapped files take no memory of a worker"


def test_a_partition_larger_than_memory_is_refused_with_advice(files: list[str]) -> None:
    with pytest.raises(JobError, match=r"a partition takes .* data\.load: mapped"):
        with_rows(job_with(path=files, memory=1e-9), for_real=True)


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(JobError, match="at least one file"):
        job_with(path=[])
