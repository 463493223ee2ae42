"""The measuring policy in virtual time: what is known there must come out again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import elastune
from elastune.core.commands import Train
from elastune.core.events import Row
from elastune.core.trials import Activity
from elastune.errors import ExecutionError, JobError
from elastune.history.gangs import GangLife
from elastune.history.measured import Measurements, measure
from elastune.history.recorder import history_of
from elastune.history.trials import TIMES_ONLY
from elastune.job.measurement_files import read_measurements
from elastune.journal.writer import MemoryJournal
from elastune.model.ids import NodeId, Slot, TrialId
from elastune.model.rows import Rows
from elastune.providers.simulated_faults import NodeFaults
from elastune.runs.profiling import Effort, keep
from elastune.runs.simulation import Simulation, unnamed
from elastune.runtime.simulated.cloud import NO_FAULTS, Faults
from elastune.setup.run_setup import prepare
from tests.fire.trial import RUN
from tests.runs.checked_run import checked_run, job_of


def measured(
    boots: int = 0, faults: Faults = NO_FAULTS, most_s: float = 300.0, **changes: object
) -> Measurements:
    setup = prepare(job_of(**changes), "profile")
    setup = replace(setup, measuring=Effort(boots=boots, most_s=most_s).to_options())
    journal = MemoryJournal()
    run = Simulation(setup, seed=1, journal=journal, record=unnamed(setup), faults=faults)
    run.run()
    assert run.core.state.ended == "complete"
    return measure(journal.read(run.record.run))


def test_what_is_known_comes_out_again(tmp_path: Path) -> None:
    found = measured()
    fitted = keep(found, tmp_path / "profile.json", "key")
    assert fitted.iteration.mean == pytest.approx(10.0)
    assert dict(fitted.speedup.points) == pytest.approx({1: 1.0, 2: 1.8, 4: 3.2, 8: 3.2})
    assert fitted.startup.mean == pytest.approx(2.0)
    assert fitted.save.mean == pytest.approx(1.0)
    assert found.spread == pytest.approx(0.0, abs=1e-9)
    assert read_measurements(tmp_path / "profile.json") == fitted


def test_a_gang_that_was_lost_with_its_node_is_not_taken_for_the_next_one() -> None:
    found = measured(faults=Faults(nodes=NodeFaults(lost_per_hour=40.0)), most_s=900.0)
    assert len(found.startup) > len(measured(most_s=900.0).startup)
    assert {round(seconds, 6) for seconds in found.startup} == {2.0}
    assert {round(seconds, 6) for seconds in found.typical()[1]} == {10.0}


def test_a_gang_that_stays_at_barriers_has_one_start_and_all_its_saves() -> None:
    changes: dict[str, object] = {
        "search": {"algorithm": "sha", "trials": 8, "max_iterations": 15, "eta": 2, "max_slots_per_trial": 1},
        "cluster__max_nodes": None,
        "cluster__nodes": 4,
    }
    run = checked_run(job_of(**changes))
    found = measure(run.journal.read(RUN))
    assert found.startup == pytest.approx([2.0] * 8)
    assert found.save == pytest.approx([1.0] * (8 + 4 + 2 + 1))
    assert {round(seconds, 6) for seconds in found.typical()[1]} == {10.0}
    history = history_of(run.journal.read(RUN), TIMES_ONLY)
    best = max(history.gangs, key=lambda gang: gang.until_s)
    starts, trains, saves = Activity.STARTING, Activity.TRAINING, Activity.SAVING
    assert [span.activity for span in best.spans] == [starts, *[trains, saves] * 4]
    assert (best.generation, best.rows, best.end) == (1, 15, "paused")


def test_boots_are_reported_by_how_many_come_at_once() -> None:
    found = measured(boots=4, cluster__max_nodes=8)
    assert {count: len(boots) for count, boots in found.boot.items()} == {1: 2, 2: 2, 4: 4}
    assert all(seconds == pytest.approx(10.0) for boots in found.boot.values() for seconds in boots)
    assert all(seconds == pytest.approx(5.0) for seconds in found.queue)


def test_the_barrier_between_stages_is_measured(tmp_path: Path) -> None:
    found = measured(profile__sync=3.0)
    assert len(found.sync) > 2
    assert found.sync == pytest.approx([3.0] * len(found.sync))
    assert keep(found, tmp_path / "profile.json", "key").sync.mean == pytest.approx(3.0)


def test_every_configuration_is_measured_with_its_factor_and_iterations(tmp_path: Path) -> None:
    found = measured(profile__spread=0.3)
    speeds = found.speeds()
    assert len(speeds) == Effort().configurations
    assert len({each.config for each in speeds}) == len(speeds)
    assert sum(each.factor for each in speeds) / len(speeds) == pytest.approx(1.0)
    assert all(each.weight >= 2 for each in speeds)
    assert keep(found, tmp_path / "profile.json", "key").speeds == speeds


def test_the_average_and_the_spread_are_those_of_what_a_run_draws_not_of_the_extremes_measured() -> None:
    """Time is proportional to the width; the corners of the space were measured, most draws are small."""
    widths = (16, 16, 32, 1024, 1024, 512)
    found = Measurements(configs={TrialId(at): {"width": width} for at, width in enumerate(widths)})
    found.iterations[1] = {TrialId(at): [width / 100] * 5 for at, width in enumerate(widths)}
    drawn = [{"width": width} for width in (16, 20, 24, 32, 40, 64)]
    told = found.as_drawn(drawn)
    mean = sum(width / 100 for width in (16, 20, 24, 32, 40, 64)) / 6
    assert sum(told.typical()[1]) / len(told.typical()[1]) == pytest.approx(mean, rel=0.1)
    assert 0.35 < told.spread < 0.7 < found.spread
    for each in told.speeds():
        width = dict(each.config)["width"]
        assert isinstance(width, int)
        assert each.factor == pytest.approx(width / 100 / mean, rel=0.1)


def test_an_iteration_that_is_shorter_than_the_message_of_its_start_takes_a_little_time() -> None:
    """The start is stamped when the driver hears of it, a row when the worker has trained it."""
    slot = Slot(NodeId("n0"), 0)
    command = Train(trial=TrialId(0), generation=1, gang=(slot,), after_iteration=0, until_iteration=1)
    gang = GangLife.of(command, 1.0)
    gang.iteration_from_s = 2.0
    gang.report(Rows([Row(1, 1.999, {"accuracy": 0.5})], "accuracy"))
    assert gang.iterations_s == [pytest.approx(1e-4)]


def test_what_makes_no_profile_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    broken = Measurements(startup=[-1.0])
    broken.iterations[1][TrialId(0)] = [1.0]
    with pytest.raises(ExecutionError, match=r"make no profile and are not kept: .*startup: value 1 is -1"):
        keep(broken, path, "key")
    assert not list(tmp_path.iterdir())


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
