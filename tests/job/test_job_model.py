"""What a job means once it is read."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from elastune.errors import JobError
from elastune.job.job import Job, load_job
from elastune.model.cluster import Billing, ClusterTerms
from elastune.model.distributions import Constant, Distribution, Empirical, LogNormal, Normal
from elastune.model.limits import GangLimits, Limits
from elastune.model.profile import Profile, Speedup
from elastune.model.stages import Spec, Stage, hyperband, successive_halving
from tests.job.example_jobs import job_data

FULL = """
search: {algorithm: sha, trials: 32, min_iterations: 1, max_iterations: 50, eta: 3,
         min_slots_per_trial: 2, max_slots_per_trial: 8}
deadline: 20m
budget: $30
confidence: 0.9
profile:
  iteration: {mean: 60s, sd: 2s}
  spread: 0.1
  speedup: {8: 6.67, 1: 1.0, 2: 1.89, 4: 3.63}
  startup: 5s
  save: {distribution: lognormal, mean: 2s, sd: 500ms}
  sync: 1e-3
cluster:
  slots_per_node: 4
  max_nodes: 16
  price_per_hour: $12.24
  billing: function
  minimum_charge: 1m
  queue: {distribution: empirical, values: [15s, 10s]}
  init: {distribution: constant, mean: 15}
  data_gb: 150GB
  data_price_per_gb: 0.01
"""


def test_every_key_reaches_the_planners(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(FULL, encoding="utf-8")
    problem = load_job(path).to_problem()
    assert problem.specs == (successive_halving(trials=32, min_iterations=1, max_iterations=50, eta=3),)
    assert problem.limits == Limits(deadline_s=1200.0, budget_usd=30.0, confidence=0.9)
    assert problem.gangs == GangLimits(min_slots=2, max_slots=8)
    assert problem.profile == Profile(
        iteration=Normal(60.0, 2.0),
        spread=0.1,
        speedup=Speedup(((1, 1.0), (2, 1.89), (4, 3.63), (8, 6.67))),
        startup=Constant(5.0),
        save=LogNormal(2.0, 0.5),
        sync=Constant(0.001),
    )
    assert problem.cluster == ClusterTerms(
        slots_per_node=4,
        max_nodes=16,
        price_per_hour=12.24,
        billing=Billing.FUNCTION,
        minimum_charge_s=60.0,
        queue=Empirical((10.0, 15.0)),
        init=Constant(15.0),
        data_usd_per_node=1.5,
    )


def test_what_is_left_out_has_a_default() -> None:
    problem = Job(**job_data(deadline=...)).to_problem()
    assert problem.specs == (successive_halving(trials=9, min_iterations=1, max_iterations=10, eta=3),)
    assert problem.limits == Limits(deadline_s=None, budget_usd=None, confidence=0.95)
    assert problem.gangs == GangLimits()
    assert problem.profile == Profile(iteration=Constant(60.0), speedup=Speedup(((1, 1.0),)))
    assert problem.cluster == ClusterTerms(
        slots_per_node=4, max_nodes=64, price_per_hour=12.24, minimum_charge_s=60.0
    )


def test_hyperband_declares_its_brackets() -> None:
    search = {"algorithm": "hyperband", "max_iterations": 81, "eta": 3}
    assert Job(**job_data(search=search)).to_problem().specs == hyperband(max_iterations=81, eta=3)


class Experiment:
    """RubberBand's Figure 6."""

    def num_stages(self) -> int:
        return 3

    def get_stage(self, stage_index: int) -> tuple[int, int]:
        return ((32, 1), (10, 3), (10, 8))[stage_index]


WRITTEN = [{"trials": 32, "iterations": 1}, {"trials": 10, "iterations": 3}, {"trials": 10, "iterations": 8}]


@pytest.mark.parametrize(
    "stages",
    [
        WRITTEN,
        tuple(WRITTEN),
        [Stage(trials=32, iterations=1), Stage(trials=10, iterations=3), Stage(trials=10, iterations=8)],
        Experiment(),
    ],
    ids=["as data", "as a tuple", "as stages", "as code"],
)
def test_stages_are_declared_one_by_one(stages: object) -> None:
    job = Job(**job_data(search={"algorithm": "stages", "stages": stages}))
    declared = tuple(Stage(trials=e["trials"], iterations=e["iterations"]) for e in WRITTEN)
    assert job.to_problem().specs == (Spec(name="stages", stages=declared),)
    assert Job.from_dict(json.loads(json.dumps(job.to_dict()))) == job


def test_code_that_declares_no_stages_is_refused() -> None:
    class Broken(Experiment):
        def get_stage(self, stage_index: int) -> tuple[int, int]:
            return 5  # type: ignore[return-value]

    with pytest.raises(JobError, match=r"expected a get_stage\(index\) that returns \(trials, iterations\)"):
        Job(**job_data(search={"algorithm": "stages", "stages": Broken()}))


@pytest.mark.parametrize(("written", "eta"), [(3, 3), (3.0, 3), ("3", 3), (2.5, 2.5), ("2.50", 2.5)])
def test_eta_is_any_number_above_one_and_a_whole_one_stays_whole(written: object, eta: float) -> None:
    search = Job(**job_data(search__eta=written)).to_dict()["search"]
    assert isinstance(search, dict)
    assert repr(search["eta"]) == repr(eta)


def test_nodes_instead_of_max_nodes_is_a_fixed_cluster() -> None:
    terms = Job(**job_data(cluster__nodes=8)).to_problem().cluster
    assert (terms.max_nodes, terms.fixed) == (8, True)


@pytest.mark.parametrize(
    ("written", "latency"),
    [
        ("90s", Constant(90.0)),
        (90, Constant(90.0)),
        ({"mean": "60s", "sd": "2s"}, Normal(60.0, 2.0)),
        ({"mean": "60s"}, Constant(60.0)),
        ({"mean": "60s", "sd": 0}, Constant(60.0)),
        ({"distribution": "constant", "value": "1m"}, Constant(60.0)),
        ({"distribution": "constant", "mean": "1m"}, Constant(60.0)),
        ({"distribution": "normal", "mean": 60, "sd": 2}, Normal(60.0, 2.0)),
        ({"distribution": "lognormal", "mean": 60, "sd": 2}, LogNormal(60.0, 2.0)),
        ({"distribution": "lognormal", "mean": 60, "sd": 0}, Constant(60.0)),
        ({"distribution": "empirical", "values": ["2s", 1, "0.5m"]}, Empirical((1.0, 2.0, 30.0))),
        (LogNormal(3.0, 1.0), LogNormal(3.0, 1.0)),
    ],
)
def test_a_latency_is_a_duration_or_names_its_distribution(written: object, latency: Distribution) -> None:
    job = Job(**job_data(profile__iteration=written, profile__startup=written, cluster__queue=written))
    assert job.profile.iteration == job.profile.startup == job.cluster.queue == latency


def test_the_speedup_may_have_text_for_keys_and_need_not_name_one_slot() -> None:
    sparse = Job(**job_data(profile__speedup={"4": "3.5", 2: 1.9})).profile.speedup
    assert sparse == Speedup(((1, 1.0), (2, 1.9), (4, 3.5)))
    almost = Job(**job_data(profile__speedup={1: 1 + 1e-12})).profile.speedup
    assert almost == Speedup(((1, 1.0),))


def test_a_profile_may_be_given_as_the_value_that_it_becomes() -> None:
    profile = Profile(iteration=Normal(60.0, 2.0), speedup=Speedup.of({2: 1.9}), spread=0.1)
    assert Job(**job_data(profile=profile)).profile == profile


@pytest.mark.parametrize("nodes", [{"cluster__nodes": 4}, {"cluster__max_nodes": 4}, {}])
def test_a_job_survives_the_way_to_plain_data_and_back(nodes: dict[str, object]) -> None:
    jobs = [Job.from_yaml_text(FULL), Job(**job_data(**nodes))]
    for job in jobs:
        assert Job.from_dict(job.to_dict()) == job
        assert Job.from_dict(json.loads(json.dumps(job.to_dict()))) == job
        assert Job.from_dict(json.loads(job.model_dump_json())) == job
        assert Job.from_dict(job.model_dump()) == job
        assert pickle.loads(pickle.dumps(job)) == job
        assert Job.from_dict(job.to_dict()).to_problem() == job.to_problem()


def test_an_empty_optional_key_is_the_same_as_none() -> None:
    job = Job.from_yaml_text(
        "search: {algorithm: sha, trials: 9, max_iterations: 10}\ndeadline:\nbudget: ~\n"
        "profile: {iteration: 1}\ncluster: {slots_per_node: 1, price_per_hour: 0}\n"
    )
    assert job.deadline is None
    assert job.budget is None


def test_a_byte_order_mark_and_windows_line_ends_are_no_trouble(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + FULL.replace("\n", "\r\n").encode())
    assert load_job(str(path)) == Job.from_yaml_text(FULL)


def test_the_error_of_the_python_constructor_is_ours() -> None:
    with pytest.raises(JobError) as caught:
        Job(**job_data(deadline=-1, cluster__price_per_hour=...))
    assert str(caught.value) == (
        "job: 2 problems\n"
        "  cluster.price_per_hour is missing; expected what one node costs per hour, such as 12.24 (for this "
        "machine: nodes: 1, and no price)\n"
        "  deadline is -1; expected a positive duration, such as 90s, 20m, 1h30m or 250ms "
        "(a bare number is seconds)"
    )
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(JobError):
        Job.model_validate({})
