"""A quote knows how long nodes took to boot in earlier runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elastune.job.job import Job
from elastune.setup.remembered_boots import remember_boots, remembered_boot
from elastune.setup.run_setup import with_price


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ELASTUNE_HOME", str(tmp_path / "home"))


def job(**cluster: Any) -> Job:
    given = {"provider": "ssh", "options": {"hosts": ["a", "b"]}, "slots_per_node": 1, "price_per_hour": 0}
    return Job.from_dict(
        {
            "search": {"algorithm": "random", "trials": 2, "max_iterations": 3},
            "profile": {"iteration": "1s"},
            "cluster": {**given, "max_nodes": 2, **cluster},
        }
    )


def test_the_mean_of_earlier_boots_is_the_boot_of_the_next_quote() -> None:
    assert with_price(job()).cluster.init.mean == 0.0
    remember_boots(job().cluster, 2.0, 20.0)
    remember_boots(job().cluster, 2.0, 30.0)
    quoted = with_price(job())
    assert quoted.cluster.init.mean == 12.5
    assert with_price(quoted).cluster.init.mean == 12.5


def test_what_a_job_says_counts() -> None:
    remember_boots(job().cluster, 2.0, 20.0)
    assert with_price(job(init="3s")).cluster.init.mean == 3.0


def test_other_options_are_other_nodes() -> None:
    remember_boots(job().cluster, 2.0, 20.0)
    other = job(options={"hosts": ["c"]})
    assert remembered_boot(other.cluster) is None
    assert with_price(other).cluster.init.mean == 0.0


def test_nodes_of_this_machine_and_runs_without_nodes_are_not_remembered(tmp_path: Path) -> None:
    remember_boots(job(provider="local", options={}).cluster, 2.0, 20.0)
    remember_boots(job().cluster, 0.0, 0.0)
    assert not (tmp_path / "home").exists()


def test_only_the_last_runs_count_and_a_broken_file_is_none() -> None:
    for _ in range(15):
        remember_boots(job().cluster, 1.0, 100.0)
    for _ in range(10):
        remember_boots(job().cluster, 1.0, 8.0)
    found = remembered_boot(job().cluster)
    assert found is not None
    assert found.mean == 8.0


def test_a_home_that_cannot_be_read_is_no_error(tmp_path: Path) -> None:
    remember_boots(job().cluster, 1.0, 8.0)
    (path,) = (tmp_path / "home" / "boots").iterdir()
    path.write_text("[[1, 2], 3]")
    assert remembered_boot(job().cluster) is None
