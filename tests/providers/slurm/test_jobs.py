"""What Slurm may do with jobs, on a real one: each is told to the run, and nothing is left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastune.api.nodes import Supervision
from elastune.core.events import NodeLost, NodeNoticed
from elastune.errors import ExecutionError, JobError
from elastune.providers.slurm import broker as broking
from elastune.providers.slurm.calls import JobPhase, SlurmBusyError, SlurmCommands, SlurmRefusedError
from elastune.providers.slurm.inventory import SlurmInventory, expected_queue
from elastune.providers.slurm.provider import SlurmProvider
from elastune.providers.watcher import Watcher
from tests.providers.contract import nodes, status
from tests.providers.slurm.rig import SlurmRig
from tests.providers.slurm.stage import SlurmStage
from tests.waiting import wait_until


@pytest.fixture
def stage(slurm: SlurmRig, tmp_path: Path) -> Iterator[SlurmStage]:
    made = SlurmStage(tmp_path)
    yield made
    made.close()
    assert slurm.jobs() == []


def follow(provider: SlurmProvider, watcher: Watcher, kind: type) -> list[object]:
    """Until an event of this kind comes; all events."""
    seen: list[object] = []

    def has_come() -> bool:
        seen.extend(watcher.observe(provider.survey()))
        return any(isinstance(event, kind) for event in seen)

    wait_until(has_come, lambda: f"{seen}, {provider.survey()}")
    return seen


def test_a_job_carries_its_run_and_its_lease(stage: SlurmStage) -> None:
    provider = stage.provider()
    provider.request("7", 2)
    stage.settle(provider)
    jobs = SlurmCommands().jobs(provider._setting.run)
    assert [job.phase for job in jobs] == [JobPhase.RUNNING] * 2
    for job in jobs:
        assert (job.run, job.request, job.tags["asked"], job.tags["job"]) == (
            provider._setting.run, "7", "2", "con tract"
        )  # fmt: skip
        assert 0.0 < (job.number("expires") or 0.0) - time.time() <= 300.0
    live = [each for each in SlurmInventory().instances() if each.run == provider._setting.run]
    assert [(each.node, each.usd_per_hour, each.state) for each in live] == [
        (job.id, 3.0, "running") for job in sorted(jobs, key=lambda job: job.id)
    ]


def test_the_jobs_of_a_killed_driver_are_listed_and_swept(stage: SlurmStage, tmp_path: Path) -> None:
    provider = stage.provider()
    provider.request("a", 2)
    left = nodes(stage.settle(provider))
    stage.abandon(provider)
    later = time.time() + 3600.0  # its lease is over by then
    supervision = Supervision(
        provider="slurm", runs_folder=tmp_path, clock=lambda: later, sleep=lambda _: None
    )
    seen = supervision.look(provider._setting.run)
    assert sorted(node.instance.node for node in seen.orphans) == sorted(left)
    assert sorted(supervision.end(seen.orphans).ended) == sorted(left)
    assert supervision.look().nodes == ()


def test_a_node_that_is_cancelled_by_hand_is_lost(stage: SlurmStage, slurm: SlurmRig) -> None:
    provider = stage.provider()
    watcher = Watcher(billed_s=provider.billed_s)
    provider.request(watcher.expect(1), 2)
    watcher.observe(stage.settle(provider))
    victim = nodes(provider.survey())[0]
    slurm.call("scancel", victim)
    lost = [event for event in follow(provider, watcher, NodeLost) if isinstance(event, NodeLost)]
    assert [event.node for event in lost] == [victim]
    assert lost[0].billed_s is not None


def test_a_machine_that_fails_is_a_lost_node(stage: SlurmStage, slurm: SlurmRig) -> None:
    provider = stage.provider()
    watcher = Watcher(billed_s=provider.billed_s)
    provider.request(watcher.expect(1), 1)
    (node,) = nodes(stage.settle(provider))
    watcher.observe(provider.survey())
    (job,) = SlurmCommands().jobs(provider._setting.run)
    slurm.call("scontrol", "update", f"NodeName={job.host}", "State=DOWN", "Reason=test")
    try:
        events = follow(provider, watcher, NodeLost)
    finally:
        slurm.call("scontrol", "update", f"NodeName={job.host}", "State=RESUME", is_checked=False)
    assert [event.node for event in events if isinstance(event, NodeLost)] == [node]


def test_the_end_of_a_time_limit_is_noticed_before(stage: SlurmStage) -> None:
    stage.options |= {"time_limit": "1m", "notice": "59s", "partition": "short"}
    provider = stage.provider()
    watcher = Watcher(billed_s=provider.billed_s)
    provider.request(watcher.expect(1), 1)
    noticed = [e for e in follow(provider, watcher, NodeNoticed) if isinstance(e, NodeNoticed)]
    (machine,) = provider.survey().machines
    assert noticed[0].until_s == machine.until_s
    assert machine.until_s is not None
    assert machine.since_s < machine.until_s <= machine.since_s + 61.0


def test_a_longer_time_than_the_partition_allows_is_not_asked_for(stage: SlurmStage) -> None:
    stage.options |= {"partition": "short"}
    provider = stage.make("long", 1, needed_until=lambda: time.monotonic() + 7200.0)
    provider.request("a", 1)
    assert len(stage.settle(provider).machines) == 1


def test_what_is_needed_is_asked_for(stage: SlurmStage, slurm: SlurmRig) -> None:
    provider = stage.make("needed", 1, needed_until=lambda: time.monotonic() + 7200.0)
    provider.request("a", 1)
    stage.settle(provider)
    limits = slurm.call("squeue", "--noheader", "--format=%l").split()
    assert limits == ["2:10:00"]


def test_a_partial_grant_is_one_and_the_rest_comes_later(stage: SlurmStage, slurm: SlurmRig) -> None:
    provider, others = stage.provider(room=8), stage.provider()
    others.request("a", 3)
    theirs = nodes(stage.settle(others))
    provider.request("b", 3)
    wait_until(lambda: len(provider.survey().machines) == 1)
    assert status(provider.survey(), "b").open == 2
    others.release(theirs)
    assert len(stage.settle(provider).machines) == 3


def test_a_job_that_waits_for_too_long_is_given_up(stage: SlurmStage) -> None:
    others = stage.provider()
    others.request("a", 4)
    stage.settle(others)
    stage.options |= {"patience": "1s"}
    provider = stage.provider()
    provider.request("b", 2)
    answer = status(stage.settle(provider), "b")
    assert (answer.granted, answer.refused) == ((), 2)
    assert "in the queue (" in answer.reason


def test_a_partition_that_is_down_is_a_refusal(stage: SlurmStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broking, "HOPELESS_S", 0.5)
    stage.options |= {"partition": "closed"}
    provider = stage.provider()
    provider.request("a", 1)
    answer = status(stage.settle(provider), "a")
    assert answer.refused == 1
    assert "PartitionDown" in answer.reason


def test_of_several_partitions_the_one_that_is_up_is_used(stage: SlurmStage) -> None:
    stage.options |= {"partition": ["closed", "main"]}
    provider = stage.provider()
    provider.request("a", 1)
    assert len(stage.settle(provider).machines) == 1


def test_a_partition_that_does_not_exist_is_an_error_of_the_job(slurm: SlurmRig, tmp_path: Path) -> None:
    stage = SlurmStage(tmp_path, partition="mian")
    provider = stage.provider()
    provider.request("a", 1)
    wait_until(lambda: provider.broken)
    assert "invalid partition" in str(provider.broken).lower()
    assert "mian" in str(provider.broken) or "partition name" in str(provider.broken).lower()
    stage.close()


@pytest.mark.slow  # the commands of Slurm take ten seconds to give up
def test_a_controller_that_is_away_for_a_while_is_waited_for(stage: SlurmStage, slurm: SlurmRig) -> None:
    provider = stage.provider()
    provider.request("a", 1)
    before = stage.settle(provider).machines
    slurm.stop_controller()
    with pytest.raises(SlurmBusyError):
        SlurmCommands().jobs()
    assert provider.survey().machines == before
    slurm.start_controller()
    provider.request("b", 1)
    assert len(stage.settle(provider).machines) == 2


@pytest.mark.slow
def test_a_controller_that_forgot_a_job_loses_no_more_than_that(stage: SlurmStage, slurm: SlurmRig) -> None:
    """It crashed before it saved that the job runs: it starts it anew, or cancels it without a task."""
    provider = stage.provider()
    provider.request("a", 1)
    (machine,) = stage.settle(provider).machines
    slurm.kill("slurmctld")
    slurm.start_controller()
    provider.request("b", 1)
    wait_until(lambda: len(status(stage.settle(provider), "b").granted) == 1)
    answer = status(provider.survey(), "a")
    assert (answer.granted, answer.refused, answer.reason) == ((machine.node,), 0, "")


def test_without_slurm_the_reason_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ExecutionError, match="there is no sinfo on this machine"):
        SlurmStage(tmp_path).provider()
    with pytest.raises(SlurmRefusedError):
        SlurmCommands().jobs()
    assert expected_queue({}) is None


def test_an_estimate_of_the_wait_comes_from_slurm(slurm: SlurmRig) -> None:
    assert slurm.jobs() == []
    for options in ({}, {"partition": "short"}, {"partition": "short", "time_limit": "5h"}):
        found = expected_queue(options, cpus=2)
        assert found is not None
        assert 0.0 <= found.mean < 60.0


@pytest.mark.parametrize(
    ("options", "cpus", "told"),
    [
        ({"partition": "mian"}, 1, "a node with partition=mian; cpus-per-task=1: .*invalid partition name"),
        ({}, 64, "a node with cpus-per-task=64: .*node configuration is not available"),
    ],
)
def test_a_job_that_slurm_would_refuse_is_an_error_of_the_quote(
    options: dict[str, str], cpus: int, told: str, slurm: SlurmRig
) -> None:
    assert slurm.jobs() == []
    with pytest.raises(JobError, match=f"(?i)Slurm would refuse {told}"):
        expected_queue(options, cpus=cpus)
