"""What a job says of prices, of what the provider alone understands, and of kinds of nodes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elastune.errors import JobError
from elastune.job.job import Job, load_job
from tests.job.example_jobs import job_data

P3 = {"name": "p3", "slots_per_node": 4, "price_per_hour": 12.24, "profile": {"iteration": "60s"}}
G5 = {"name": "g5", "slots_per_node": 4, "price_per_hour": 5.67, "profile": {"iteration": "90s"}}
KINDS = {"max_nodes": 8, "kinds": [P3, G5]}


def test_what_is_not_said_is_not_in_the_data() -> None:
    """Else the hash of every old journal would change."""
    assert set(Job.from_dict(job_data()).to_dict()["cluster"]) == {  # type: ignore[call-overload]
        "slots_per_node", "max_nodes", "nodes", "provider", "price_per_hour", "billing", "minimum_charge",
        "queue", "init", "data_gb", "data_price_per_gb",
    }  # fmt: skip


def test_what_is_said_comes_back() -> None:
    job = Job.from_dict(
        job_data(
            cluster__options={"instance_type": ["a", "b"], "disk_gb": 100},
            cluster__price_source="somewhere",
            cluster__most_price_per_hour=20,
            cluster__most_spend_per_hour="$50",
            cluster__interruptions_per_hour=0.1,
        )
    )
    again = Job.from_dict(json.loads(json.dumps(job.to_dict())))
    assert again.cluster == job.cluster
    terms = again.cluster.to_terms()
    assert (terms.price_source, terms.most_price_per_hour, terms.most_usd_per_hour) == (
        "somewhere",
        20.0,
        50.0,
    )
    assert terms.dearest_usd_per_s == pytest.approx(20.0 / 3600.0)


def test_a_job_with_kinds_comes_back() -> None:
    job = Job.from_dict(job_data(cluster=KINDS, profile=...))
    assert Job.from_dict(json.loads(json.dumps(job.to_dict()))) == job


def test_of_a_kind_it_is_a_plain_job() -> None:
    data = job_data(cluster={**KINDS, "options": {"region": "r", "image": "i"}}, profile=...)
    data["cluster"]["kinds"][1] = {**G5, "init": "30s", "options": {"image": "j"}}  # type: ignore[index]
    job = Job.from_dict(data)
    assert job.is_measured
    plain = job.of_kind(job.cluster.kinds[1])
    assert plain.cluster.kinds == ()
    assert plain.cluster.options == {"region": "r", "image": "j"}
    assert (plain.cluster.price_per_hour, plain.cluster.init.mean, plain.cluster.max_nodes) == (5.67, 30.0, 8)
    assert plain.profile.iteration.mean == 90.0


def test_profiles_of_kinds_are_files_beside_the_job(tmp_path: Path) -> None:
    (tmp_path / "p3.json").write_text('{"1": [10, 10], "2": [5, 5]}', encoding="utf-8")
    (tmp_path / "job.yaml").write_text(
        "search: {algorithm: sha, trials: 9, max_iterations: 10}\n"
        "cluster: {kinds: [{name: p3, slots_per_node: 1, price_per_hour: 1, profile: p3.json}]}\n",
        encoding="utf-8",
    )
    job = load_job(tmp_path / "job.yaml")
    assert job.of_kind(job.cluster.kinds[0]).profile.iteration.mean == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"cluster__options": [1]}, "cluster.options is [1]; expected a mapping of names to plain values"),
        ({"cluster__options": {"a": object}}, "expected a mapping of names to plain values"),
        ({"cluster__interruptions_per_hour": 100}, "interruptions_per_hour is 100; expected a number"),
        ({"cluster__most_spend_per_hour": 0}, "cluster.most_spend_per_hour is 0; expected a positive amount"),
        ({"cluster__kinds": 3}, "cluster.kinds is 3; expected a list of kinds"),
        ({"cluster__kinds": [{}]}, "cluster.kinds.0.name is missing; expected how the kind is called"),
        ({"cluster__kinds": [{"name": "a", "prise": 1}]}, "cluster.kinds.0.prise is not a key"),
        ({"cluster__kinds": [P3, P3]}, "cluster.kinds.1.name is 'p3' again"),
        (
            {"cluster__kinds": [{"name": "a", "max_nodes": 3}], "cluster__nodes": 2},
            "cluster.kinds.0.max_nodes does not go with cluster.nodes",
        ),
        (
            {"cluster__kinds": [{"name": "a", "profile": {"iteration": "x"}}]},
            "cluster.kinds.0.profile.iteration is 'x'",
        ),
        (
            {"cluster__kinds": [P3, {"name": "a"}], "profile": ..., "trainable": "a.py:f", "metric": "x"},
            "cluster.kinds.1.profile is missing, and the job has none for all",
        ),
        (
            {"cluster__kinds": [{"name": "a", "max_nodes": 1}], "search__min_slots_per_trial": 8},
            "search.min_slots_per_trial is 8, but the cluster has at most 4 slots (1 nodes of 4)",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_errors(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(JobError) as caught:
        Job.from_dict(job_data(**changes))
    assert complaint in str(caught.value)


def test_a_price_is_needed_where_the_provider_knows_none() -> None:
    with pytest.raises(JobError, match=r"cluster\.price_per_hour is missing; expected what one node costs"):
        Job.from_dict(job_data(cluster__price_per_hour=...))


def test_a_plan_keeps_to_what_nodes_may_cost_per_hour() -> None:
    cluster = {"slots_per_node": 4, "max_nodes": 8, "price_per_hour": 2.0, "most_spend_per_hour": 7}
    assert Job.from_dict(job_data(cluster=cluster)).cluster.to_terms().max_nodes == 3
    dearer = {**cluster, "most_price_per_hour": 3.5}
    assert Job.from_dict(job_data(cluster=dearer)).cluster.to_terms().max_nodes == 2
    too_little = {**cluster, "most_spend_per_hour": 1.5}
    with pytest.raises(JobError, match=r"most_spend_per_hour is \$1.5, but 1 node may cost \$2 per hour"):
        Job.from_dict(job_data(cluster=too_little)).cluster.to_terms()
