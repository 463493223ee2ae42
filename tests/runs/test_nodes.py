"""Which nodes are orphans, and that a sweep ends only those."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from elastune.api.nodes import Supervision
from elastune.core.commands import Ending, EndRun
from elastune.core.events import RunStarted
from elastune.errors import JobError
from elastune.journal.codec import encode
from elastune.journal.records import RunId, RunRecord, RuntimeKind
from elastune.journal.run_folders import RunFolder
from elastune.journal.store import Journal
from elastune.journal.writer import Writer
from elastune.providers.ec2.calls import BusyError
from elastune.providers.ec2.inventory import Ec2Inventory
from elastune.providers.protocol import LiveInstance
from elastune.runs.orphans import known_states, why_orphaned
from elastune.runs.run_list import RunState
from tests.providers.test_inventory import VirtualCloud, instance

NOW = 10_000.0
VALID, OVER = f"{NOW + 600.0}", f"{NOW - 60.0}"


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def journal_of(root: Path, run: str, *, ended: bool = False) -> Writer:
    created = datetime(2026, 11, 16, tzinfo=UTC)
    folder = RunFolder.create(root, name="job", now_utc=created, run=RunId(run))
    record = RunRecord(
        run=RunId(run), name="job", created_utc=created, body=RuntimeKind.RAY, policy="asha", seed=0
    )
    writer = Journal.open(folder.journal).start(record)
    lines = [encode(RunStarted(at_s=0.0, policy="asha", seed=0, job={}))]
    lines += [encode(EndRun(reason=Ending.COMPLETE, best=None))] if ended else []
    writer.append(1, lines)
    writer.commit()
    return writer


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Path]:
    """A running, an interrupted and a finished run."""
    journal_of(tmp_path, "b0b0b0").close()
    journal_of(tmp_path, "e0e0e0", ended=True).close()
    writer = journal_of(tmp_path, "a0a0a0")
    yield tmp_path
    writer.close()


@pytest.fixture
def cloud() -> VirtualCloud:
    return VirtualCloud(
        instance("i-alive", run="a0a0a0", expiry=VALID, usd_per_hour="3.6"),
        instance("i-broken", run="b0b0b0", expiry=VALID, usd_per_hour="3.6"),
        instance("i-ended", run="e0e0e0", expiry=VALID),
        instance("i-foreign", run="f0f0f0", expiry=VALID),
        instance("i-over", run="f0f0f0", expiry=OVER),
        instance("i-without", run="a0a0a0"),
        instance("i-nobody", expiry="soon"),
    )


def wardens(cloud: VirtualCloud, runs: Path, clock: Clock | None = None) -> Supervision:
    clock = clock or Clock()
    return Supervision(
        inventories={"ec2": Ec2Inventory(cloud)}, runs_folder=runs, clock=clock, sleep=clock.sleep
    )


def test_every_node_is_reported_with_its_reason(cloud: VirtualCloud, runs: Path) -> None:
    found = wardens(cloud, runs).look()
    assert {node.instance.node: node.orphan for node in found.nodes} == {
        "i-alive": None,
        "i-broken": "run b0b0b0 has no driver",
        "i-ended": "run e0e0e0 has ended (complete)",
        "i-foreign": None,
        "i-over": "its lease ended 1m00s ago",
        "i-without": "it has no lease: no driver ever set one",
        "i-nobody": "it has no lease: no driver ever set one",
    }
    (alive,) = (node for node in found.nodes if node.instance.node == "i-alive")
    assert alive.age_s == 9000.0
    assert alive.cost == pytest.approx(9.0)
    assert alive.to_dict(found.at)["lease_seconds"] == 600.0


def test_where_no_run_is_known_only_leases_count(cloud: VirtualCloud, tmp_path: Path) -> None:
    found = wardens(cloud, tmp_path / "none").look()
    assert {node.instance.node for node in found.orphans} == {"i-over", "i-without", "i-nobody"}


def test_a_sweep_ends_only_the_orphans(cloud: VirtualCloud, runs: Path) -> None:
    these = wardens(cloud, runs)
    swept = these.end(these.look().orphans)
    assert swept.ended == ("i-broken", "i-ended", "i-nobody", "i-over", "i-without")
    assert (swept.left.nodes, swept.left.unseen) == ((), ())
    assert [node.instance.node for node in these.look().nodes] == ["i-alive", "i-foreign"]


def test_of_one_run_only(cloud: VirtualCloud, runs: Path) -> None:
    these = wardens(cloud, runs)
    assert these.end(these.look("b0b").orphans).ended == ("i-broken",)


def test_a_node_whose_driver_came_back_meanwhile_is_spared(cloud: VirtualCloud, runs: Path) -> None:
    these = wardens(cloud, runs)
    shown = these.look().orphans
    renewed = instance("i-over", run="f0f0f0", expiry=VALID)
    cloud.all["i-over"] = renewed
    swept = these.end(shown)
    assert "i-over" not in swept.ended
    assert cloud.all["i-over"] == renewed
    assert swept.left.nodes == ()


def test_what_does_not_end_is_reported(cloud: VirtualCloud, runs: Path) -> None:
    cloud.stubborn = ("i-over",)
    clock = Clock()
    these = wardens(cloud, runs, clock)
    swept = these.end(these.look().orphans)
    assert [node.instance.node for node in swept.left.nodes] == ["i-over"]
    assert len(swept.ended) == 4
    assert clock.now > NOW


def test_a_cloud_that_does_not_answer_is_no_empty_cloud(cloud: VirtualCloud, runs: Path) -> None:
    these = wardens(cloud, runs)
    shown = these.look().orphans
    cloud.error = BusyError("too many calls")
    assert [(each.provider, each.reason) for each in these.look().unseen] == [("ec2", "too many calls")]
    swept = these.end(shown)
    assert swept.ended == ()
    assert [each.reason for each in swept.left.unseen] == ["too many calls"]


def test_an_unknown_provider_is_refused() -> None:
    with pytest.raises(JobError, match=r"provider is 'moon'; expected .*, whose nodes can be listed"):
        Supervision(provider="moon")


def test_where_the_provider_sees_the_driver_no_lease_is_needed() -> None:
    kept = LiveInstance(
        provider="local", node="n", run="e0e0e0", kind="1 process", state="running", since=0.0, is_kept=True
    )
    ended = {"e0e0e0": RunState.COMPLETE}
    assert why_orphaned(kept, NOW, ended) is None
    assert why_orphaned(replace(kept, is_kept=False), NOW, {}) == "its driver is gone"


def test_a_journal_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    journal_of(tmp_path, "b0b0b0").close()
    (folder,) = tmp_path.iterdir()
    assert known_states(tmp_path, ["b0b0b0"]) == {"b0b0b0": RunState.INTERRUPTED}
    (folder / "journal.sqlite").write_bytes(b"no database at all")
    assert known_states(tmp_path, ["b0b0b0"]) == {}
