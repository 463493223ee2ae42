"""Inventories: what is alive on this machine, and in a cloud that is a list here."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from elastune.errors import JobError
from elastune.model.cluster import ClusterTerms
from elastune.providers.ec2.calls import (
    EXPIRY,
    JOB,
    OWNER,
    PRICE,
    RUN,
    BusyError,
    Instance,
    InstancePhase,
    Launch,
    Market,
)
from elastune.providers.ec2.inventory import Ec2Inventory
from elastune.providers.local.processes import LocalInventory
from elastune.providers.local.provider import LocalProvider
from elastune.providers.protocol import (
    InventoryScope,
    LiveInstance,
    MachineState,
    ProviderSetting,
    UnseenError,
)
from elastune.providers.registry import known_inventories, load_inventory
from tests.waiting import wait_until


class VirtualCloud:
    """EC2 as a list; those in `stubborn` do not end."""

    def __init__(self, *instances: Instance, stubborn: Collection[str] = ()) -> None:
        self.all = {instance.id: instance for instance in instances}
        self.stubborn = stubborn
        self.error: Exception | None = None

    def launch(self, launch: Launch) -> tuple[Instance, ...]:
        raise NotImplementedError

    def instances(self, run: str | None = None) -> tuple[Instance, ...]:
        if self.error is not None:
            raise self.error
        return tuple(each for each in self.all.values() if run is None or each.tags.get(RUN) == run)

    def terminate(self, instances: Collection[str]) -> None:
        for name in set(instances) & self.all.keys() - set(self.stubborn):
            self.all[name] = replace(self.all[name], phase=InstancePhase.ENDED)

    def put_off(self, instances: Collection[str], expires: float) -> None:
        raise NotImplementedError


def instance(name: str, phase: InstancePhase = InstancePhase.RUNNING, **tags: str) -> Instance:
    return Instance(
        id=name,
        phase=phase,
        launched=1000.0,
        instance_type="g4dn.xlarge",
        market=Market.SPOT,
        tags={f"elastune:{key.replace('_', '-')}": value for key, value in tags.items()},
    )


def test_an_instance_is_told_with_all_that_its_tags_say() -> None:
    tags = {RUN: "3fa2c1", JOB: "digits", OWNER: "me", PRICE: "0.25", EXPIRY: "5000"}
    inventory = Ec2Inventory(VirtualCloud(replace(instance("i-1"), tags=tags)))
    assert inventory.instances() == (
        LiveInstance(
            provider="ec2",
            node="i-1",
            run="3fa2c1",
            job="digits",
            owner="me",
            kind="g4dn.xlarge spot",
            state="running",
            since=1000.0,
            usd_per_hour=0.25,
            expires=5000.0,
        ),
    )


def test_only_what_is_alive_is_told_and_exactly_that_is_ended() -> None:
    cloud = VirtualCloud(*(instance(f"i-{phase.value}", phase) for phase in InstancePhase))
    inventory = Ec2Inventory(cloud)
    assert [each.node for each in inventory.instances()] == [
        "i-ending",
        "i-pending",
        "i-running",
        "i-stopped",
    ]
    inventory.end(["i-pending", "i-never-was"])
    assert [each.node for each in inventory.instances()] == ["i-ending", "i-running", "i-stopped"]


def test_what_ec2_refuses_is_unseen_and_a_bug_is_a_bug() -> None:
    cloud = VirtualCloud()
    inventory = Ec2Inventory(cloud)
    cloud.error = BusyError("too many calls")
    with pytest.raises(UnseenError, match="too many calls") as caught:
        inventory.instances()
    assert not caught.value.is_absent
    cloud.error = ZeroDivisionError("ours")
    with pytest.raises(ZeroDivisionError):
        inventory.instances()


def test_aws_that_is_not_set_up_is_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("boto3")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(UnseenError, match="no AWS region is known") as caught:
        load_inventory("ec2")(InventoryScope())
    assert caught.value.is_absent
    with pytest.raises(UnseenError, match="Unable to locate credentials") as caught:
        load_inventory("ec2")(InventoryScope(region="us-east-1")).instances()
    assert caught.value.is_absent


def test_inventories_are_known_by_name() -> None:
    assert {"ec2", "kubernetes", "local", "slurm", "ssh"} <= set(known_inventories())
    with pytest.raises(JobError, match="there is no inventory 'moon', expected one of ec2, kubernetes"):
        load_inventory("moon")


DRIVER = """
import time
from elastune.model.cluster import ClusterTerms
from elastune.providers.protocol import ProviderSetting
from elastune.providers.local.provider import LocalProvider

terms = ClusterTerms(slots_per_node=1, max_nodes=2, price_per_hour=1.0)
fleet = LocalProvider(ProviderSetting(run="def456", terms=terms, clock=time.monotonic))
fleet.open()
fleet.request("a", 1)
while not any(machine.ready_s is not None for machine in fleet.survey().machines):
    time.sleep(0.01)
print("open", flush=True)
time.sleep(3600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
class TestOnThisMachine:
    @pytest.fixture
    def fleet(self) -> Iterator[LocalProvider]:
        pytest.importorskip("ray")
        terms = ClusterTerms(slots_per_node=1, max_nodes=2, price_per_hour=1.0)
        with LocalProvider(ProviderSetting(run="abc123", terms=terms, clock=time.monotonic)) as fleet:
            fleet.request("a", 2)
            self.wait(fleet, 2)
            yield fleet

    def wait(self, fleet: LocalProvider, ready: int) -> None:
        wait_until(lambda: sum(each.state is MachineState.READY for each in fleet.survey().machines) == ready)

    def seen(self, run: str) -> dict[str, LiveInstance]:
        """By the last part of their names."""
        return {
            each.node.rpartition("/")[2]: each for each in LocalInventory().instances() if each.run == run
        }

    def test_nodes_are_seen_ended_one_by_one_and_gone_after_the_end(self, fleet: LocalProvider) -> None:
        first, second = (machine.node for machine in fleet.survey().machines)
        seen = self.seen("abc123")
        assert set(seen) == {"head", first, second}
        assert all(each.is_kept for each in seen.values())
        assert all(0.0 <= time.time() - each.since < 3600.0 for each in seen.values())
        LocalInventory().end([seen[first].node])
        self.wait(fleet, 1)
        assert set(self.seen("abc123")) == {"head", second}
        fleet.close()
        assert not self.seen("abc123")
        final_check = fleet.final_check()
        assert final_check is not None
        assert final_check.left == ()
        assert final_check.how.startswith("processes of this machine at ")

    def test_a_fleet_ends_with_its_head(self) -> None:
        """In a process of its own: Ray may end the driver too."""
        driver = subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, text=True)
        assert driver.stdout is not None
        try:
            assert driver.stdout.readline() == "open\n"
            LocalInventory().end([self.seen("def456")["head"].node])
            assert not self.seen("def456")
        finally:
            driver.kill()
            driver.communicate()
