"""Several runs of one job: the same luck for every policy, figures, interruptions, and a journal that others
can read meanwhile."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

import elastune
from elastune.journal.records import RunId, RunRecord, RuntimeKind
from elastune.journal.store import Journal
from elastune.journal.writer import MemoryJournal
from elastune.runs.campaign import CampaignInterrupted, CampaignProgress, Contestant, RunNaming, simulate_all
from elastune.runs.quotes.quoting import predict
from elastune.runs.simulation import Beat, Simulation
from elastune.runtime.simulated.cloud import NO_FAULTS
from elastune.setup.run_setup import RunSetup, prepare
from tests.runs.checked_run import SAMPLES, job_of, run_quickly

JOB = {**job_of().to_dict(), "trainable": "synthetic:hypersched", "metric": None, "mode": None, "space": None}
POLICIES = ("rubberband", "asha")


def curves(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path / "curves.npz"
    np.savez(path, score=rng.random((40, 13)), lr=rng.random(40))
    return path


@pytest.mark.parametrize("sampler", ["random", "grid", "table", "table with replacement"])
def test_trial_i_of_a_seed_has_the_same_configuration_under_every_policy(
    sampler: str, tmp_path: Path
) -> None:
    changes: dict[str, object] = {"space": {"x": {"float": [0.0, 1.0], "grid": 9}}}
    if sampler.startswith("table"):
        changes = {"trainable": str(curves(tmp_path)), "space": None}
    kind = sampler.partition(" ")[0]
    written = {"kind": kind, "replace": True} if "replacement" in sampler else kind
    search = {"algorithm": "sha", "trials": 9, "max_iterations": 13, "sampler": written}
    job = job_of(**changes, search=search)
    drawn: dict[int, dict[int, object]] = {}
    for policy in POLICIES:
        setup = prepare(job, policy, samples=SAMPLES)
        for seed in (3, 4):
            trials = run_quickly(setup, seed=seed).trials
            assert len(trials) == 9
            for number, trial in trials.items():
                known = drawn.setdefault(seed, {}).setdefault(number, trial.config)
                assert known == trial.config, (policy, seed, number)
    assert (drawn[3] == drawn[4]) == (sampler == "grid")


def test_trial_i_of_a_seed_learns_the_same_under_every_policy() -> None:
    values: dict[int, list[float]] = {}
    for policy in POLICIES:
        setup = prepare(elastune.Job.from_dict(JOB), policy, samples=SAMPLES)
        for number, trial in run_quickly(setup, seed=3).trials.items():
            known = values.setdefault(number, trial.values)
            shorter = min(len(known), len(trial.values))
            assert shorter
            assert known[:shorter] == trial.values[:shorter]


def test_figures_have_the_standard_error_of_the_mean_and_differences_are_paired() -> None:
    campaign = elastune.simulate_many(JOB, policies=POLICIES, seeds=5)
    first, second = campaign.summaries
    assert first.against is None
    best = {
        policy: [
            run.result.best.metric for run in campaign.runs if run.result.policy == policy and run.result.best
        ]
        for policy in POLICIES
    }
    assert second.metric is not None
    assert second.metric.se == pytest.approx(statistics.stdev(best["asha"]) / math.sqrt(5))
    differences = [b - a for a, b in zip(best["rubberband"], best["asha"], strict=True)]
    against = second.against
    assert against is not None
    assert (against.policy, against.seeds) == ("rubberband", 5)
    assert against.metric is not None
    assert against.metric.mean == pytest.approx(statistics.fmean(differences))
    assert against.metric.se == pytest.approx(statistics.stdev(differences) / math.sqrt(5))
    data = second.to_dict()
    for key in ("jct_seconds", "cost", "metric"):
        figures = data[key]
        assert isinstance(figures, dict)
        assert figures.keys() == {"mean", "sd", "se", "min", "max"}


def test_one_seed_has_no_standard_error() -> None:
    _, second = elastune.simulate_many(JOB, policies=POLICIES).summaries
    assert second.cost.se is None
    assert second.against is not None
    assert second.against.cost.se is None


def test_one_name_of_a_policy_need_not_be_in_a_list() -> None:
    campaign = elastune.simulate_many(JOB, policies="asha")
    assert [run.result.policy for run in campaign.runs] == ["asha"]


class Stubborn:
    """A function that is interrupted in its n-th call."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def __call__(self, config: Mapping[str, float], iteration: int) -> float:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt
        return config["x"]


def test_an_interrupted_campaign_has_what_is_complete_and_the_journal_has_the_rest(tmp_path: Path) -> None:
    job = job_of(Stubborn(100))
    with pytest.raises(CampaignInterrupted) as caught:
        elastune.simulate_many(job, seeds=9, folder=tmp_path)
    campaign = caught.value.campaign
    assert 0 < len(campaign.runs) < 9
    assert campaign.folder is not None
    assert campaign.cut is not None
    journal = Journal.open(campaign.folder.journal, read_only=True)
    assert len(journal.runs()) == len(campaign.runs) + 1
    summary = journal.summary(campaign.cut.run)
    assert (summary.head.events, summary.writer) == (campaign.cut.events, None)
    with pytest.raises(KeyboardInterrupt):
        elastune.simulate(job_of(Stubborn(5)))


def record_of(setup: RunSetup) -> RunRecord:
    return RunRecord(
        run=RunId("ab"),
        name="test",
        created_utc=datetime(2026, 1, 1, tzinfo=UTC),
        body=RuntimeKind.SIMULATED,
        policy=setup.policy,
        seed=0,
    )


def test_with_a_clock_others_see_how_far_a_run_is(tmp_path: Path) -> None:
    setup = prepare(job_of(), samples=SAMPLES)
    journal = Journal.open(tmp_path / "journal.sqlite", durable=False)
    reader = Journal.open(tmp_path / "journal.sqlite", read_only=True)
    simulation = Simulation(setup, seed=0, journal=journal, record=record_of(setup))
    ticks = iter(range(1_000_000))
    seen: list[tuple[int, int]] = []

    def look(now_s: float) -> None:
        summary = reader.summary(RunId("ab"))
        assert summary.writer is not None
        seen.append((summary.head.events, simulation.core.state.events))

    simulation.run(look, clock=lambda: float(next(ticks)))
    assert len(seen) > 10
    assert all(stored == happened for stored, happened in seen)


def test_a_clock_changes_nothing_in_the_journal() -> None:
    setup = prepare(job_of(), samples=SAMPLES)
    ticks = iter(range(1_000_000))
    hashes = set()
    for clock in (None, lambda: float(next(ticks))):
        simulation = Simulation(setup, seed=0, journal=MemoryJournal(), record=record_of(setup))
        simulation.run(clock=clock)
        hashes.add(simulation.writer.sha256)
    assert len(hashes) == 1


def test_a_beat_comes_four_times_per_second_of_its_clock() -> None:
    now_s = 0.0
    beat = Beat(lambda: now_s)
    beats = 0
    for step in range(1001):
        now_s = step / 100
        beats += beat.is_due(step)
    assert beats == 41


def test_progress_includes_the_deadline() -> None:
    setup = prepare(job_of(deadline=600.0), samples=SAMPLES)
    seen: list[CampaignProgress] = []
    simulate_all(
        [Contestant(setup=setup, predicted=predict(setup))],
        [0],
        faults=NO_FAULTS,
        journal=None,
        naming=RunNaming(run=RunId("ab"), now_utc=lambda: datetime(2026, 1, 1, tzinfo=UTC)),
        watch=seen.append,
    )
    assert {progress.deadline_s for progress in seen} == {600.0}
