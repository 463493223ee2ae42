"""A policy of another package: found by its entry point, with options of its own, and without `progress`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import elastune
from elastune.core.policy import Progress
from elastune.core.state import State
from elastune.errors import JobError
from elastune.job.job import Job
from elastune.setup.run_setup import prepare
from tests.test_documents import ROOT, blocks

POLICY = blocks((ROOT / "docs" / "core.md").read_text(encoding="utf-8"), "python")[0]
CREATE = """

def create(setup):
    if not isinstance(setup.search["chips"], int):
        raise ValueError("chips")
    return OneNode(trials=setup.search["chips"], iterations=3)
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    information = tmp_path / "my_package-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n", encoding="utf-8"
    )
    points = "[elastune.policies]\none-node = my_package:create\n"
    (information / "entry_points.txt").write_text(points, encoding="utf-8")
    (tmp_path / "my_package.py").write_text(POLICY + CREATE, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "my_package", raising=False)
    return {
        "trainable": "synthetic:hypersched",
        "search": {"algorithm": "one-node", "chips": 5},
        "profile": {"iteration": 10},
        "cluster": {"slots_per_node": 2, "max_nodes": 3, "price_per_hour": 1},
    }


def test_it_runs_with_options_of_its_own(job: dict[str, object]) -> None:
    result = elastune.simulate(job)
    assert result.trials == 5
    with pytest.raises(JobError, match="did you mean 'one-node'"):
        elastune.simulate(job, policy="one-nod")


def test_one_that_does_not_say_how_far_it_is_has_no_stages(job: dict[str, object]) -> None:
    setup = prepare(Job.from_dict(job))
    assert setup.make_policy(0).progress(State(setup.terms)) == Progress()
