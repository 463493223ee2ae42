"""Every policy on real processes: an existing Ray serves as the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elastune.api.running import carry_out_run
from elastune.api.tuning import prepare_to_run
from elastune.core.commands import Ending
from tests.runtime.real.runs import job_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
    ),
]

SEARCHES: dict[str, dict[str, Any]] = {
    "asha": {"algorithm": "asha", "trials": 9, "max_iterations": 9},
    "hyperband": {"algorithm": "hyperband", "max_iterations": 9, "min_iterations": 9},
    "stages": {
        "algorithm": "stages",
        "stages": [{"trials": 7, "iterations": 2}, {"trials": 2, "iterations": 4}],
    },
    "bohb": {"algorithm": "bohb", "max_iterations": 9},
    "pbt": {"algorithm": "pbt", "max_iterations": 40, "trials": 4},
    "random": {"algorithm": "random", "trials": 6, "max_iterations": 5},
    "hypersched": {"algorithm": "hypersched", "max_iterations": 50},
    "seer": {"algorithm": "seer", "min_round": "2s"},
}


ENDLESS = {"hypersched", "seer"}
"""They use all the time that there is."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    import ray  # noqa: PLC0415

    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


@pytest.mark.parametrize("name", SEARCHES)
def test_a_policy_runs_for_real(name: str, address: str, tmp_path: Path) -> None:
    job = job_of(
        search=SEARCHES[name],
        deadline="90s" if name in ENDLESS else "10m",
        budget=1.0,
        cluster={"slots_per_node": 4, "nodes": 1, "price_per_hour": 3.6, "minimum_charge": 1},
    )
    finished = carry_out_run(prepare_to_run(job, address=address), folder=tmp_path)
    assert finished.result.ending in (Ending.COMPLETE, Ending.DEADLINE)
    assert finished.result.best is not None
    assert finished.result.best.checkpoint is not None
    assert Path(finished.result.best.checkpoint).is_file()
    assert finished.result.phases.get("failed", 0) == 0
    assert finished.standing.keeps_deadline
    assert finished.standing.keeps_budget
