"""`elastune machines`: kinds of several providers side by side; and the quote that compares them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elastune.api.planning import quote
from elastune.job.job import load_job
from tests.cli.commands import elastune

JOB = """
search: {algorithm: sha, trials: 8, min_iterations: 1, max_iterations: 9, eta: 3}
deadline: 40m
profile: {iteration: 20s}
cluster:
  slots_per_node: 4
  max_nodes: 4
  init: 30s
  kinds:
    - {name: queue, provider: slurm, queue: WAIT, options: {price_per_node_hour: 1}}
    - {name: cloud, provider: ec2, price_per_hour: 4, options: {instance_type: g5.12xlarge, image: ami-1}}
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))  # no Slurm, and no AWS, is asked
    path = tmp_path / "job.yaml"
    path.write_text(JOB.replace("WAIT", "10m"), encoding="utf-8")
    return path


def test_machines_of_all_kinds_are_shown(job: Path, tmp_path: Path) -> None:
    done = elastune("machines", job, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [line.split()[:5] for line in done.stdout.splitlines()]
    assert ["queue", "slurm", "4", "4", "$1.00"] in rows
    assert ["cloud", "ec2", "4", "4", "$4.00"] in rows
    assert "10m00s" in done.stdout


def test_a_wait_that_is_not_known_is_not_shown_as_none(job: Path, tmp_path: Path) -> None:
    text = JOB.replace("queue: WAIT, ", "").replace("  init: 30s\n", "")
    job.write_text(text, encoding="utf-8")
    done = elastune("machines", job, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("queue ")]
    assert row.count("not known") == 2


def test_machines_as_json_have_the_problem_of_a_kind(job: Path, tmp_path: Path) -> None:
    text = job.read_text(encoding="utf-8").replace("price_per_node_hour", "price_per_nodehour")
    job.write_text(text, encoding="utf-8")
    done = elastune("machines", job, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    queue, cloud = json.loads(done.stdout)["machines"]
    assert "did you mean 'price_per_node_hour'" in queue["problem"]
    assert (queue["usd_per_hour"], cloud["usd_per_hour"], cloud["problem"]) == (None, 4.0, "")
    job.write_text(text.split("    - {name: cloud")[0], encoding="utf-8")
    assert elastune("machines", job, cwd=tmp_path).returncode == 2


@pytest.mark.parametrize(("wait", "chosen"), [("10m", "queue"), ("50m", "cloud")])
def test_a_quote_compares_providers_with_their_waits(job: Path, wait: str, chosen: str) -> None:
    """A queue that is too long for the deadline is no choice, however cheap."""
    job.write_text(JOB.replace("WAIT", wait), encoding="utf-8")
    found = quote(load_job(job))
    assert [kind.name for kind in found.kinds if kind.chosen] == [chosen]


def test_a_kind_of_another_provider_has_options_and_a_minimum_charge_of_its_own(job: Path) -> None:
    given = load_job(job)
    queue, cloud = (given.of_kind(kind).cluster for kind in given.cluster.kinds)
    assert (queue.provider, queue.minimum_charge, queue.options) == ("slurm", 0.0, {"price_per_node_hour": 1})
    assert (cloud.provider, cloud.minimum_charge) == ("ec2", 60.0)
    assert "price_per_node_hour" not in cloud.options
