"""What is chosen to be measured, where the result is kept, and how it is found again."""

from __future__ import annotations

import copy
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from elastune.api.profiling import find_profile, with_measurements
from elastune.history.measured import Measurements
from elastune.job.job import Job
from elastune.journal.run_folders import RunFolder
from elastune.model.distributions import Constant
from elastune.model.ids import TrialId
from elastune.runs.code_bundle import ship
from elastune.runs.profiling import Effort, choose_configurations, keep, key_of
from elastune.setup.run_setup import SetupPurpose, prepare
from tests.runtime.real.runs import job_of

UNMEASURED: dict[str, Any] = {
    "space": {"x": {"float": [0.0, 1.0]}, "sleep": {"choice": [0.1, 0.2, 0.4]}},
    "profile": None,
    "cluster": {"slots_per_node": 2, "max_nodes": 4, "price_per_hour": 3.6},
    "search": {"algorithm": "sha", "trials": 9, "max_iterations": 8},
}


def changed(**changes: Any) -> Job:
    """A change names its key with `__` for the dot."""
    data: dict[str, Any] = copy.deepcopy(UNMEASURED)
    for name, value in changes.items():
        *above, key = name.split("__")
        target = data
        for part in above:
            target = target[part]
        target[key] = value
    return job_of(**data)


def key(job: Job, address: str | None = None) -> str:
    return key_of(job, ship(job, "score"), address)


def some(slots: int = 1) -> Measurements:
    found = Measurements(startup=[0.5], save=[0.1], queue=[4.0, 6.0], sync=[0.2])
    found.boot[1] = [3.0, 5.0]
    found.iterations[slots][TrialId(0)] = [1.0, 1.1]
    return found


def kept(job: Job, root: Path, found: Measurements, at: str) -> Path:
    folder = RunFolder(path=root / f"job-{at}T000000Z-abcdef")
    folder.path.mkdir(parents=True)
    keep(found, folder.profile, key(job))
    return folder.profile


def test_the_chosen_configurations_differ_and_are_recorded_in_the_job() -> None:
    job = changed()
    chosen = choose_configurations(job, Effort())
    assert len(chosen) == Effort().configurations
    assert {each["sleep"] for each in chosen} == {0.1, 0.2, 0.4}
    measuring = job.model_copy(update={"start_configurations": chosen})
    assert Job.from_dict(measuring.to_dict()).start_configurations == chosen
    sampler = prepare(measuring, "profile", purpose=SetupPurpose.RUN).tuning.make_sampler(0)
    assert [sampler.ask(trial) for trial in range(len(chosen))] == list(chosen)


def test_start_configurations_count_and_no_more_are_chosen_than_the_search_has_trials() -> None:
    job = changed(start_configurations=[{"sleep": 0.2}], search__trials=3)
    chosen = choose_configurations(job, Effort())
    assert chosen[0]["sleep"] == 0.2
    assert len(chosen) == 3
    assert (
        len(Job.from_dict({**job.to_dict(), "start_configurations": list(chosen)}).start_configurations) == 3
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"search__min_slots_per_trial": 2},
        {"search__max_slots_per_trial": 2},
        {"cluster__slots_per_node": 4},
        {"cluster__max_nodes": 16},
        {"cluster__provider": "simulated"},
        {"slot": {"cpus": 2}},
        {"space": {"x": {"float": [0.0, 1.0]}, "sleep": {"choice": [0.1]}}},
        {"storage": "/elsewhere"},
        {"pickles": True},
    ],
    ids=str,
)
def test_the_key_covers_all_that_a_measurement_depends_on(changes: dict[str, Any]) -> None:
    assert key(changed(**changes)) != key(changed())


def test_the_key_leaves_out_what_does_not_matter() -> None:
    same = changed(deadline="1h", budget=7, seed=3, cluster__price_per_hour=9.0, cluster__max_nodes=5)
    assert key(same) == key(changed())
    assert key(changed(), "auto") != key(changed())


def test_the_newest_measurement_that_can_be_read_is_found(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = changed()
    assert find_profile(job, "score", tmp_path) is None
    older = kept(job, tmp_path, some(), "20260101")
    newer = kept(job, tmp_path, some(), "20260102")
    assert find_profile(job, "score", tmp_path) == newer
    newer.write_text(json.dumps({"iteration": {}, "key": key(job)}))
    with caplog.at_level(logging.WARNING, logger="elastune"):
        assert find_profile(job, "score", tmp_path) == older
    assert "an earlier measurement cannot be used and is skipped" in caplog.text
    assert find_profile(changed(search__min_slots_per_trial=2), "score", tmp_path) is None


def test_measurements_without_one_slot_are_kept_and_planned_with(tmp_path: Path) -> None:
    job = changed(search__min_slots_per_trial=2)
    planned = with_measurements(job, kept(job, tmp_path, some(slots=2), "20260101"))
    assert planned.profile.iteration.mean / planned.profile.speedup.at(2) == pytest.approx(1.05)
    assert planned.to_problem().profile == planned.profile


def test_queue_boots_and_barrier_are_used_where_the_job_does_not_say(tmp_path: Path) -> None:
    job = changed()
    path = kept(job, tmp_path, some(), "20260101")
    planned = with_measurements(job, path)
    assert planned.cluster.queue.mean == pytest.approx(5.0)
    assert planned.cluster.init.mean == pytest.approx(4.0)
    assert planned.profile.sync == Constant(0.2)
    stated = with_measurements(changed(cluster__queue=1.0, cluster__init=2.0), path)
    assert stated.cluster.queue == Constant(1.0)
    assert stated.cluster.init == Constant(2.0)
