"""The measuring policy in virtual time: what is known there must come out again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import elastune
from elastune.errors import JobError
from elastune.history.measured import Measurements, measure
from elastune.job.measurement_files import read_measurements
from elastune.journal.writer import MemoryJournal
from elastune.providers.simulated_faults import NodeFaults
from elastune.runs.profiling import Effort, keep
from elastune.runs.simulation import Simulation, unnamed
from elastune.runtime.simulated.cloud import NO_FAULTS, Faults
from elastune.setup.run_setup import prepare
from tests.runs.rehearsal import job_of


def measured(boots: int = 0, faults: Faults = NO_FAULTS, **changes: object) -> Measurements:
    setup = prepare(job_of(**changes), "profile")
    setup = replace(setup, measuring=Effort(boots=boots).to_options())
    journal = MemoryJournal()
    run = Simulation(setup, seed=1, journal=journal, record=unnamed(setup), faults=faults)
    run.run()
    assert run.core.state.ended == "complete"
    return measure(journal.read(run.record.run))


def test_what_is_known_comes_out_again(tmp_path: Path) -> None:
    found = measured()
    fitted = keep(found, tmp_path / "profile.json", "key")
    assert fitted.iteration.mean == pytest.approx(10.0)
    assert dict(fitted.speedup.points) == pytest.approx({1: 1.0, 2: 1.8, 4: 3.2})
    assert fitted.startup.mean == pytest.approx(2.0)
    assert fitted.save.mean == pytest.approx(1.0)
    assert found.spread == pytest.approx(0.0, abs=1e-9)
    assert read_measurements(tmp_path / "profile.json") == fitted


def test_a_gang_that_was_lost_with_its_node_is_not_taken_for_the_next_one() -> None:
    found = measured(faults=Faults(nodes=NodeFaults(lost_per_hour=40.0)))
    assert len(found.startup) > len(measured().startup)
    assert {round(seconds, 6) for seconds in found.startup} == {2.0}
    assert {round(seconds, 6) for seconds in found.typical()[1]} == {10.0}


def test_boots_are_reported_by_how_many_come_at_once() -> None:
    found = measured(boots=4, cluster__max_nodes=8)
    assert {count: len(boots) for count, boots in found.boot.items()} == {1: 2, 2: 2, 4: 4}
    assert all(seconds == pytest.approx(10.0) for boots in found.boot.values() for seconds in boots)
    assert all(seconds == pytest.approx(5.0) for seconds in found.queue)


def test_noise_and_spread_are_separated() -> None:
    noisy = measured(profile__iteration={"mean": 10.0, "sd": 0.5}, profile__spread=0.3)
    assert noisy.spread > 0.01
    typical = noisy.typical()[1]
    assert max(typical) / min(typical) < 1.6


def test_a_step_that_takes_too_long_ends_with_what_it_has() -> None:
    found = measured(profile__iteration=100.0)
    assert set(found.typical()[1]) == {100.0}
    assert sum(map(len, found.typical().values())) < 10


def test_a_job_of_code_needs_no_profile_until_it_is_planned() -> None:
    job = elastune.Job(
        trainable="nowhere.py:train",
        space={"x": {"float": [0, 1]}},
        metric="score",
        search={"algorithm": "sha", "trials": 4, "max_iterations": 8},
        cluster={"slots_per_node": 2, "price_per_hour": 1},
    )
    assert not job.is_measured
    assert "profile" not in job.to_dict()
    assert not elastune.Job.from_dict(job.to_dict()).is_measured
    with pytest.raises(JobError, match="profile is missing: the speed of this training is not known"):
        elastune.plan(job)
    profile = elastune.Job.from_dict({**job.to_dict(), "profile": {"iteration": 2}}).profile
    assert job.with_profile(profile).is_measured
    assert elastune.plan(job.with_profile(profile)).cost > 0
