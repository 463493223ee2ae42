"""A job without a cluster runs on this machine, and costs nothing; a search may be only a name."""

from __future__ import annotations

import io
import os

import pytest
from rich.console import Console

import elastune
from elastune.errors import InfeasibleError, JobError
from elastune.job.job import Job
from elastune.job.machine import count_cores, count_gpus, describe_crowding, on_this_machine
from elastune.job.policy_choice import choose
from elastune.job.search import SEARCHES
from elastune.planning.quote import Quote
from elastune.runs.prepared_run import narrowed
from elastune.runs.quotes.policy_quote import PolicyQuote
from elastune.runs.quotes.warnings import quote_warnings
from elastune.views.terminal.plan import render_any_quote

JOB: dict[str, object] = {"trainable": "synthetic:hypersched", "profile": {"iteration": "300ms"}}
LIMITED: dict[str, object] = {**JOB, "deadline": "2m"}


def test_without_a_cluster_it_is_one_free_node_with_a_slot_for_each_core() -> None:
    job = Job.from_dict({**LIMITED, "slot": {"cpus": 1}})
    assert (job.cluster.nodes, job.cluster.price_per_hour) == (1, 0.0)
    assert job.cluster.slots_per_node == count_cores() <= len(os.sched_getaffinity(0))
    assert Job.from_dict(job.to_dict()) == job


def test_slots_of_several_cpus_are_fewer() -> None:
    job = Job.from_dict({**LIMITED, "slot": {"cpus": 1_000}})
    assert job.cluster.slots_per_node == 1


def test_gpus_are_slots_if_there_are_any_and_none_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert count_gpus() == 0
    assert "slot" not in on_this_machine({})
    assert Job.from_dict(LIMITED).slot.cpus == 1


@pytest.mark.parametrize(
    "cluster",
    [
        {"slots_per_node": 2, "price_per_hour": 1, "nodes": 1},
        {"provider": "ec2", "nodes": 1},
        5,
        {"kinds": []},
    ],
)
def test_other_clusters_are_as_written(cluster: object) -> None:
    assert on_this_machine({"cluster": cluster}) == {}


def test_a_fixed_local_cluster_needs_no_price() -> None:
    job = Job.from_dict({**LIMITED, "cluster": {"nodes": 2, "slots_per_node": 3}})
    assert (job.cluster.nodes, job.cluster.slots_per_node, job.cluster.price_per_hour) == (2, 3, 0.0)


def test_a_budget_needs_a_price() -> None:
    with pytest.raises(JobError, match=r"budget is \$3\.00, but the job runs on this machine, which costs"):
        Job.from_dict({**LIMITED, "budget": 3})


def shown(quote: Quote | PolicyQuote) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(render_any_quote(quote))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


@pytest.mark.parametrize("algorithm", [name for name in SEARCHES if name != "stages"])
def test_every_search_may_be_a_name_and_its_quote_has_no_dollars(algorithm: str) -> None:
    quote = elastune.quote({**LIMITED, "search": algorithm, **_space(algorithm)})
    text = shown(quote)
    assert "$" not in text
    assert "cost " not in text.replace("cost nothing", "")
    assert quote.to_dict()["cost"] == 0.0
    assert quote.jct_seconds <= 120.0 * (1 + 1e-6)
    result = elastune.simulate({**LIMITED, "search": algorithm, **_space(algorithm)}, seed=1)
    assert "$" not in str(result)
    assert result.best is not None


@pytest.mark.parametrize("algorithm", ["sha", "asha", "hyperband"])
def test_a_named_search_fits_the_time_that_is_left_and_keeps_the_slots_that_a_check_allows(
    algorithm: str,
) -> None:
    job = Job.from_dict({**LIMITED, "search": algorithm})
    held = narrowed(job, 1).with_profile(job.profile)
    late = held.with_deadline(20.0)
    assert (held.search.max_slots_per_trial, late.search.max_slots_per_trial) == (1, 1)
    assert late.search.max_iterations < held.search.max_iterations  # type: ignore[attr-defined]
    assert elastune.quote(late).jct_seconds <= 20.0


def test_all_plans_and_all_planners_have_no_dollars_either() -> None:
    search = {"algorithm": "sha", "trials": 8, "max_iterations": 4}
    text = shown(elastune.plan({**LIMITED, "search": search}, frontier=True, compare=True))
    assert "that no other beats in time" in text
    assert "$" not in text


def _space(algorithm: str) -> dict[str, object]:
    """A grid needs points."""
    names = ("b0", "b1", "b2")
    return {"space": {name: [0.1, 0.5, 0.9] for name in names}} if algorithm == "grid" else {}


@pytest.mark.parametrize("algorithm", ["sha", "hyperband", "asha", "hypersched", "bohb", "pbt", "random"])
def test_without_a_limit_a_named_search_has_an_end(algorithm: str) -> None:
    result = elastune.simulate({**JOB, "search": algorithm}, seed=1)
    assert result.best is not None
    assert result.ending.value == "complete"


def test_the_options_of_a_named_search_follow_from_the_speed() -> None:
    def iterations(iteration: str, **more: object) -> int:
        job = Job.from_dict({**LIMITED, "search": "sha", "profile": {"iteration": iteration, **more}})
        found = getattr(job.search, "max_iterations", None)
        assert isinstance(found, int)
        return found

    assert iterations("10ms") > iterations("300ms") > iterations("20s")
    assert iterations("300ms") > iterations("300ms", startup="2s", save="1s")


def test_a_named_search_waits_for_the_measurement() -> None:
    unmeasured = Job.from_dict(
        {"trainable": "mine.py:train", "metric": "x", "deadline": "2m", "search": "sha"}
    )
    assert getattr(unmeasured.search, "trials", None) == 27
    measured = unmeasured.with_profile(Job.from_dict(LIMITED).profile)
    assert getattr(measured.search, "trials", None) != 27
    assert "trials: " in str(choose(measured))
    assert Job.from_dict(measured.to_dict()).search == measured.search


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(JobError, match=r"search\.algorithm is 'ahsa'; expected .*; did you mean 'asha'?"):
        Job.from_dict({**LIMITED, "search": "ahsa"})
    with pytest.raises(JobError, match=r"search\.stages is missing"):
        Job.from_dict({**LIMITED, "search": "stages"})


def test_slots_that_share_cores_are_a_warning_with_the_factor() -> None:
    cores = count_cores()
    assert describe_crowding(cores, 1) is None
    text = describe_crowding(4 * cores, 1)
    assert text is not None
    assert "4.0 times as long" in text
    job = Job.from_dict({**LIMITED, "cluster": {"nodes": 1, "slots_per_node": 4 * cores}})
    quote = elastune.quote(job)
    assert any("4.0 times as long" in warning for warning in quote_warnings(job, quote))
    assert not list(quote_warnings(job, quote, address="ray://else:1"))


def test_a_quote_with_few_trials_says_what_would_help() -> None:
    search = {"algorithm": "seer", "min_round": "1m"}
    cluster = {"slots_per_node": 1, "nodes": 2, "price_per_hour": 1.5}
    job = Job.from_dict({**LIMITED, "budget": 0.1, "cluster": cluster, "search": search, "slot": {"gpus": 1}})
    (warning,) = quote_warnings(job, elastune.quote(job))
    assert warning.startswith(
        "about 2 trials will be tried, too few for a search; more would be with no search"
    )
    assert "search: hypersched" in warning
    assert "deadline: 10m00s or budget: $0.50" in warning
    enough = Job.from_dict({**LIMITED, "search": "asha", "slot": {"cpus": 1}})
    assert not list(quote_warnings(enough, elastune.quote(enough)))


def test_what_does_not_fit_says_so_without_dollars() -> None:
    search = {"algorithm": "sha", "trials": 81, "max_iterations": 81}
    with pytest.raises(InfeasibleError) as caught:
        elastune.quote({**JOB, "deadline": "2s", "search": search})
    assert "$" not in str(caught.value)
