"""Every mistake in a job gets one clear line, and nothing but `JobError` ever comes out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from elastune.errors import JobError
from elastune.job.job import Job, load_job
from tests.job.example_jobs import job_data

DURATION = "such as 90s, 20m, 1h30m or 250ms (a bare number is seconds)"


def complaint(data: object) -> str:
    with pytest.raises(JobError) as caught:
        Job.from_dict(data, source="job.yaml")  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"deadline": "soon"}, f"deadline is 'soon'; expected a positive duration, {DURATION}"),
        ({"deadline": 0}, "deadline is 0; expected a positive duration"),
        ({"deadline": True}, "deadline is True; expected a positive duration"),
        ({"deadline": "1:30"}, "deadline is '1:30'; expected a positive duration"),
        ({"deadline": float("nan")}, "deadline is nan; expected a positive duration"),
        ({"budget": "€30"}, "budget is '€30'; expected a positive amount of US dollars, such as $30"),
        ({"budget": 0}, "budget is 0; expected a positive amount"),
        ({"confidence": 95}, "confidence is 95; expected a number above 0 and below 1, such as 0.95"),
        ({"confidence": None}, "confidence is empty; expected a number above 0"),
        ({"search": ...}, "search is missing; expected what to search, and how"),
        ({"search": 5}, "search is 5; expected a mapping with keys of: "),
        ({"search": {}}, "search.algorithm is missing; expected sha, hyperband, stages, asha"),
        ({"search__algorithm": "SHA"},
         "search.algorithm is 'SHA'; expected sha, hyperband, stages, asha"),
        ({"search__algorithm": ["x"]}, "search.algorithm is ['x']; expected sha, hyperband, stages, asha"),
        ({"search__trials": 0}, "search.trials is 0; expected a whole number from 1 to 1,000,000"),
        ({"search__trials": 2.5}, "search.trials is 2.5; expected a whole number from 1"),
        ({"search__trials": ...}, "search.trials is missing; expected the number of configurations to start"),
        ({"search__eta": 1},
         "search.eta is 1; expected a number above 1 and up to 1,000,000, such as 3 or 2.5"),
        ({"search__eta": 1.0001},
         "search.eta is 1.0001, which makes more than 1,000 stages up to 10 iterations"),
        ({"search": {"algorithm": "seer", "eta": 1}},
         "search.eta is 1; expected a number above 1"),
        ({"search": {"algorithm": "stages"}},
         "search.stages is missing; expected the trials of each stage and their new iterations, such as [{"),
        ({"search": {"algorithm": "stages", "stages": 3}},
         "search.stages is 3; expected a list of stages, such as"),
        ({"search": {"algorithm": "stages", "stages": []}},
         "search.stages has 0 stages; expected 1 to 1,000"),
        ({"search": {"algorithm": "stages", "stages": [3]}},
         "search.stages.0 is 3; expected a mapping with keys of: trials, iterations"),
        ({"search": {"algorithm": "stages", "stages": [{"trials": 3}]}},
         "search.stages.0.iterations is missing; expected the new iterations of each trial"),
        ({"search": {"algorithm": "stages", "stages": [{"trials": 3, "iterations": 0}]}},
         "search.stages.0.iterations is 0; expected a whole number from 1 to 1,000,000,000"),
        ({"search": {"algorithm": "stages", "stages": [{"trials": 2.5, "iterations": 1}]}},
         "search.stages.0.trials is 2.5; expected a whole number from 1 to 1,000,000"),
        ({"search": {"algorithm": "stages",
                     "stages": [{"trials": 3, "iterations": 1}, {"trials": 4, "iterations": 1}]}},
         "search.stages.1.trials is 4, more than the 3 of the stage before; expected at most as many"),
        ({"search": {"algorithm": "stages", "stages": [{"trials": 3, "iterations": 1}], "eta": 2}},
         "search.eta is not a key of search; expected one of: algorithm, sampler"),
        ({"search__min_iterations": 11}, "search.max_iterations is 10, less than min_iterations (11)"),
        ({"search__min_slots_per_trial": 5, "search__max_slots_per_trial": 4},
         "search.max_slots_per_trial is 4, less than min_slots_per_trial (5)"),
        ({"search__min_slots_per_trial": 9, "cluster__max_nodes": 2},
         "search.min_slots_per_trial is 9, but the cluster has at most 8 slots (2 nodes of 4)"),
        ({"search": {"algorithm": "hyperband", "max_iterations": 10_000_000}},
         "search.max_iterations is more than 1,000,000 times min_iterations"),
        ({"search": {"algorithm": "hyperband", "max_iterations": 9, "trials": 3}},
         "search.trials is not a key of search; expected one of: "),
        ({"profile": ...}, "profile is missing; expected what was measured, or the path of a file"),
        ({"profile": 5}, "profile is 5; expected a mapping with keys of: iteration, spread, speedup"),
        ({"profile__iteration": ...},
         "profile.iteration is missing; expected the time of an iteration at 1 slot"),
        ({"profile__iteration": 0}, "profile.iteration is 0 on average; an iteration takes time"),
        ({"profile__iteration": {"mean": 0, "sd": 1}}, "profile.iteration is 0 on average"),
        ({"profile__iteration": [1]},
         "profile.iteration is [1]; expected a mapping with keys of: distribution"),
        ({"profile__iteration": None}, "profile.iteration is empty; expected a duration, 0 or more"),
        ({"profile__iteration": {}}, "profile.iteration.mean is missing; a normal latency needs it"),
        ({"profile__iteration": {"mean": "x"}},
         "profile.iteration.mean is 'x'; expected a duration, 0 or more"),
        ({"profile__iteration": {"distribution": "gamma", "mean": 1}},
         "profile.iteration.distribution is 'gamma'; expected constant, normal, lognormal or empirical"),
        ({"profile__iteration": {"distribution": "log-normal", "mean": 1, "sd": 1}},
         "did you mean 'lognormal'?"),
        ({"profile__iteration": {"distribution": "normal", "mean": 1}},
         "profile.iteration.sd is missing; a normal latency needs it"),
        ({"profile__iteration": {"distribution": "constant", "value": 1, "sd": 1}},
         "profile.iteration.sd goes with normal or lognormal, not with constant"),
        ({"profile__iteration": {"values": [1, 2]}},
         "profile.iteration.values goes with empirical, not with normal"),
        ({"profile__iteration": {"distribution": "lognormal", "mean": 0, "sd": 1}},
         "profile.iteration.mean is 0; the mean of a lognormal latency is positive"),
        ({"profile__iteration": {"distribution": "lognormal", "mean": 1e-9, "sd": 1}},
         "profile.iteration.sd is more than 1,000 times the mean"),
        ({"profile__iteration": {"distribution": "empirical", "values": []}},
         "profile.iteration.values is an empty list; expected at least one measured duration"),
        ({"profile__iteration": {"distribution": "empirical", "values": 3}},
         "profile.iteration.values is 3; expected a list of durations"),
        ({"profile__iteration": {"distribution": "empirical", "values": [1, -1]}},
         "profile.iteration.values.1 is -1; expected a duration, 0 or more"),
        ({"profile__iteration": {"meen": 1}},
         "profile.iteration.meen is not a key of profile.iteration; did you"),
        ({"profile__spread": -1}, "profile.spread is -1; expected a number from 0 to 100"),
        ({"profile__speedup": 3},
         "profile.speedup is 3; expected a mapping of slots to speed-up, such as {1: 1.0"),
        ({"profile__speedup": {}}, "profile.speedup is {}; expected a mapping of slots to speed-up"),
        ({"profile__speedup": {1: 2}}, "profile.speedup.1 is 2; the speed-up at 1 slot is 1.0 by definition"),
        ({"profile__speedup": {2: -1}}, "profile.speedup.2 is -1; expected a positive number, such as 1.89"),
        ({"profile__speedup": {"two": 2}},
         "profile.speedup.two is not a number of slots; expected a whole number"),
        ({"profile__speedup": {0: 2}},
         "profile.speedup.0 is not a number of slots; expected a whole number from 1"),
        ({"profile__speedup": {2: 2, "2": 2}}, "profile.speedup.2 is given twice"),
        ({"cluster": 5}, "cluster is 5; expected a mapping with keys of: slots_per_node, max_nodes"),
        ({"cluster__slots_per_node": ...},
         "cluster.slots_per_node is missing; expected the slots of one node"),
        ({"cluster__slots_per_node": 0}, "cluster.slots_per_node is 0; expected a whole number from 1"),
        ({"cluster__price_per_hour": -1},
         "cluster.price_per_hour is -1; expected US dollars, 0 or more, such as $30"),
        ({"cluster__nodes": 3, "cluster__max_nodes": 4}, "cluster.nodes and max_nodes exclude each other"),
        ({"cluster__billing": "instanse"},
         "cluster.billing is 'instanse'; expected instance or function; did you mean 'instance'?"),
        ({"cluster__minimum_charge": "1 hour"}, "cluster.minimum_charge is '1 hour'; expected a duration"),
        ({"cluster__queue": "-1s"}, "cluster.queue is '-1s'; expected a duration, 0 or more"),
        ({"cluster__data_gb": "150 G"},
         "cluster.data_gb is '150 G'; expected a size, 0 or more, such as 150GB"),
        ({"cluster__data_price_per_gb": "x"},
         "cluster.data_price_per_gb is 'x'; expected US dollars, 0 or more"),
        ({"dedline": "5m"}, "dedline is not a key of a job; did you mean 'deadline'?"),
        ({"trials": 5}, "trials is not a key of a job; did you mean 'search.trials'?"),
        ({"zzz": 5},
         "zzz is not a key of a job; expected one of: name, trainable, fidelity, saves, space,"),
        ({"a\nb": 5}, "'a\\nb' is not a key of a job"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_that_says_where_what_and_what_instead(
    changes: dict[str, object], message: str
) -> None:
    text = complaint(job_data(**changes))
    assert text.startswith("job.yaml: ")
    assert message in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("wrong", "right", "changes"),
    [
        ("cluster.price_per_hours", "price_per_hour",
         {"cluster__price_per_hours": 3, "cluster__price_per_hour": ...}),
        ("cluster.slots", "slots_per_node", {"cluster__slots": 3, "cluster__slots_per_node": ...}),
        ("search.algoritm", "algorithm", {"search__algoritm": "sha", "search__algorithm": ...}),
        ("serach", "search", {"serach": {}, "search": ...}),
    ],
)  # fmt: skip
def test_a_misspelt_key_and_the_key_missing_for_it_are_one_problem(
    wrong: str, right: str, changes: dict[str, object]
) -> None:
    text = complaint(job_data(**changes))
    assert wrong in text
    assert f"did you mean '{right}'?" in text
    assert "\n" not in text


def test_all_mistakes_are_listed_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(
        "search: {algorithm: sha, trials: none, max_iterations: 50}\n"
        "dedline: 20m\n"
        "profile:\n"
        "  iteration: {mean: 60s, sd: -2s}\n"
        "  speedup:\n"
        "    1: 1.0\n"
        "    2: fast\n"
        "cluster:\n"
        "  price_per_hour: 12.24\n",
        encoding="utf-8",
    )
    with pytest.raises(JobError) as caught:
        load_job(path)
    assert str(caught.value).splitlines() == [
        f"{path}: 5 problems",
        "  line 1: search.trials is 'none'; expected a whole number from 1 to 1,000,000",
        "  line 2: dedline is not a key of a job; did you mean 'deadline'?",
        f"  line 4: profile.iteration.sd is '-2s'; expected a duration, 0 or more, {DURATION}",
        "  line 7: profile.speedup.2 is 'fast'; expected a positive number, such as 1.89",
        (
            "  line 8: cluster.slots_per_node is missing; expected the slots of one node, such as 4 "
            "for a machine with 4 GPUs"
        ),
    ]


def test_a_single_mistake_is_named_with_file_and_line() -> None:
    text = yaml.safe_dump(job_data(deadline="soon"), sort_keys=False)
    with pytest.raises(JobError, match=r"^my\.yaml, line 5: deadline is 'soon'; expected"):
        Job.from_yaml_text(text, "my.yaml")


@pytest.mark.parametrize(
    ("written", "advice"), [("deadline", "may_exceed: deadline"), (None, "may_exceed"), ("a b", "may_exceed")]
)
def test_a_key_that_was_renamed_is_named_with_its_new_name(written: object, advice: str) -> None:
    text = yaml.safe_dump(job_data(yields=written), sort_keys=False)
    with pytest.raises(
        JobError, match=rf"^my\.yaml, line \d+: yields is now called may_exceed; write {advice}$"
    ):
        Job.from_yaml_text(text, "my.yaml")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the job is empty; expected at least search, profile and cluster"),
        (b"# only a comment\n", "the job is empty"),
        (b"- a\n- b\n", "the job is ['a', 'b']; expected a mapping with the keys of a job"),
        (b"hello\n", "the job is 'hello'; expected a mapping"),
        (b"deadline: \xff\n", "not UTF-8 text (byte 11); expected a job file"),
    ],
)
def test_a_file_that_is_no_job_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(content)
    with pytest.raises(JobError) as caught:
        load_job(path)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"nowhere\.yaml: there is no such file; expected a job file"):
        load_job(tmp_path / "nowhere.yaml")
    with pytest.raises(JobError, match="this is a folder; expected a job file"):
        load_job(tmp_path)
    with pytest.raises(JobError, match="not the name of a file"):
        load_job("job\0.yaml")
    (tmp_path / "file").touch()
    with pytest.raises(JobError, match="cannot be read: Not a directory"):
        load_job(tmp_path / "file" / "job.yaml")


@pytest.mark.parametrize("data", [None, 5, "x", [], ()])
def test_data_that_is_no_mapping_is_refused(data: object) -> None:
    assert "expected a mapping with the keys of a job" in complaint(data)


def test_a_huge_value_made_of_aliases_is_cut_short() -> None:
    bomb: object = "x"
    for _ in range(50):
        bomb = [bomb] * 9
    for changes in ({"profile__speedup": {2: bomb}}, {"deadline": bomb}, {"cluster": bomb}):
        assert len(complaint(job_data(**changes))) < 600


def test_a_job_that_contains_itself_is_refused() -> None:
    data = job_data()
    data["cluster"] = data
    assert "cluster.slots_per_node is missing" in complaint(data)


KEYS = st.sampled_from(
    [
        "search", "deadline", "budget", "confidence", "profile", "cluster", "algorithm", "trials",
        "max_iterations", "eta", "iteration", "spread", "speedup", "startup", "distribution", "mean", "sd",
        "value", "values", "slots_per_node", "nodes", "price_per_hour", "queue", "billing", "name",
        "trainable", "curves", "task", "space", "metric", "mode", "may_exceed", "slot", "gpus", "seed",
        "retries", "checkpoint_every", "sampler", "kind", "replace", "checkpoint", "size", "per_second",
        "provider",
    ]
)  # fmt: skip
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9), st.binary(max_size=3),
    st.sampled_from(["20m", "$30", "sha", "asha", "normal", "empirical", "instance", "x.npz", 1]),
)  # fmt: skip
GARBAGE = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | SCALARS, inner, max_size=6),
    max_leaves=30,
)


def job_or_error(make: Callable[..., Job], data: object) -> Job | JobError:
    """Whatever else is raised goes through and fails the test."""
    try:
        return make(data)
    except JobError as error:
        return error


@given(GARBAGE)
def test_garbage_as_data_is_a_job_or_a_job_error(data: object) -> None:
    assert isinstance(job_or_error(Job.from_dict, data), Job | JobError)


@given(st.sampled_from(["search__", "profile__", "cluster__", ""]), KEYS, GARBAGE)
def test_a_job_with_garbage_in_one_place_is_a_job_or_a_job_error(place: str, key: str, value: object) -> None:
    message = ""
    try:
        Job.from_dict(job_data(**{place + key: value})).to_problem()
    except JobError as error:
        message = str(error)
    assert "Input should" not in message
    assert "Value error" not in message


@given(st.text(alphabet=st.characters(codec="utf-8")) | GARBAGE.map(yaml.dump))
def test_garbage_as_yaml_is_a_job_or_a_job_error(text: str) -> None:
    assert isinstance(job_or_error(Job.from_yaml_text, text), Job | JobError)


@given(st.binary())
def test_any_bytes_as_a_file_are_a_job_or_a_job_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("garbage") / "job.yaml"
    path.write_bytes(content)
    assert isinstance(job_or_error(load_job, path), Job | JobError)


def test_a_wrong_algorithm_hides_no_other_mistake_of_the_search() -> None:
    wrong = {"trails": 4, "max_iterations": -6, "sampler": "tpee", "reduction": 3, "eta": 3}
    for search, about in (
        ({"algorithm": "ashaa", **wrong}, "search.algorithm is 'ashaa'"),
        (wrong, "search.algorithm is missing"),
    ):
        message = complaint({**job_data(), "search": search})
        assert "5 problems" in message, message
        for text in (
            about,
            "search.max_iterations is -6; expected a whole number",
            "search.sampler.kind is 'tpee'",
            "search.trails is not a key of search; did you mean 'trials'?",
            "search.reduction is not a key of search",
        ):
            assert text in message
