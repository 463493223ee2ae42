"""The watchdog of a node, run by bash: who ends the machine, when, and what is left where it is killed."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import time
from collections.abc import Iterator

import pytest

from tests.providers.ec2.instances import (
    END,
    INSTANCE,
    LEASE,
    NOTES,
    FakeInstance,
    a_boot,
    instance,
)
from tests.waiting import wait_until

__all__ = ["instance"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
def head() -> Iterator[str]:
    """Something that listens where Ray's head would."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def minutes(command: str) -> int:
    found = re.fullmatch(r"--no-wall -P \+(\d+)", command)
    assert found is not None, command
    return int(found[1])


def test_a_lease_that_passes_ends_the_machine(instance: FakeInstance, head: str) -> None:
    instance.watch(a_boot(head=head, expires=instance.began + 100))
    instance.ticks()
    assert instance.switched == []
    instance.pass_time(100)
    wait_until(lambda: instance.ended)
    assert "elastune: the lease has passed" in instance.log("watch")
    assert set(instance.switched) == {END}


def test_a_lease_that_is_renewed_is_armed_anew_and_not_ended(instance: FakeInstance, head: str) -> None:
    instance.imds.data[LEASE] = str(instance.began + 1770)
    instance.watch(a_boot(head=head, expires=instance.began + 100))
    wait_until(lambda: bool(instance.switched))
    instance.imds.data[LEASE] = str(instance.began + 3570)
    wait_until(lambda: len(instance.switched) == 2)
    instance.pass_time(1800)
    instance.ticks()
    assert [minutes(command) for command in instance.switched] == [29, 59]


def test_a_lease_that_is_cut_short_is_armed_anew_and_ends_the_machine(
    instance: FakeInstance, head: str
) -> None:
    """More nodes share the same money: all of them may live less long unwatched."""
    instance.imds.data[LEASE] = str(instance.began + 3570)
    instance.watch(a_boot(head=head))
    wait_until(lambda: bool(instance.switched))
    instance.imds.data[LEASE] = str(instance.began + 1770)
    wait_until(lambda: len(instance.switched) == 2)
    instance.pass_time(1770)
    wait_until(lambda: instance.ended)
    assert [minutes(command) for command in instance.switched[:2]] == [59, 29]


def test_a_lease_far_ahead_is_the_word_of_a_clock_that_is_wrong(instance: FakeInstance, head: str) -> None:
    """It is cut to an hour, once: what does not change does not count again."""
    instance.environment["ELASTUNE_MOST_LEASE"] = "3600"
    instance.imds.data[LEASE] = str(instance.began + 10**6)
    instance.watch(a_boot(head=head, expires=instance.began + 100))
    wait_until(lambda: bool(instance.switched))
    instance.pass_time(1800)
    instance.ticks()
    assert [minutes(command) for command in instance.switched] == [60]
    instance.pass_time(3600)
    wait_until(lambda: instance.ended)


def test_xen_is_not_believed_where_ec2_says_otherwise(instance: FakeInstance, head: str) -> None:
    """A watchdog that was started anew sees the tag of the launch."""
    instance.environment["ELASTUNE_HYPERVISOR"] = "xen"
    instance.pass_time(60)  # of the uptime: from then on EC2 is asked
    instance.command("python", f"#!/bin/bash\necho {instance.began + 1830}\n")
    instance.imds.data[LEASE] = str(instance.began + 100)
    instance.state.mkdir()
    (instance.state / "lease").write_text(str(instance.began + 3570))
    instance.watch(a_boot(head=head, python=str(instance.folder / "bin/python")))
    wait_until(lambda: bool(instance.switched))
    instance.pass_time(200)
    instance.ticks()
    assert [minutes(command) for command in instance.switched] == [29]


@pytest.mark.parametrize("tag", ["soon", "", "-5", "1e300", "99999999999999", "0x7fffffff", "$(false)"])
def test_a_tag_that_is_no_time_is_ignored(instance: FakeInstance, head: str, tag: str) -> None:
    instance.imds.data[LEASE] = tag
    instance.watch(a_boot(head=head))
    instance.ticks(2)
    assert instance.switched == []


def test_a_fraction_of_a_second_is_no_matter(instance: FakeInstance, head: str) -> None:
    instance.imds.data[LEASE] = f"{instance.began + 7170:.3f}"
    instance.watch(a_boot(head=head))
    wait_until(lambda: bool(instance.switched))
    assert [minutes(command) for command in instance.switched] == [119]


def test_without_the_metadata_service_the_switch_stays_armed(instance: FakeInstance, head: str) -> None:
    instance.imds.data[LEASE] = str(instance.began + 7200)
    instance.watch(a_boot(head=head))
    wait_until(lambda: len(instance.switched) == 1)
    instance.imds.silent = True
    instance.ticks_in_silence()
    assert len(instance.switched) == 1
    instance.imds.silent = False
    instance.ticks(1)
    assert len(instance.switched) == 1


def test_ec2_itself_is_asked_before_a_lease_passes(instance: FakeInstance, head: str) -> None:
    """On Xen the metadata service shows the tags of the start for ever."""
    instance.command(
        "python", f'#!/bin/bash\necho "${{@:3}}" >>{instance.folder}/asked\necho {instance.began + 870}\n'
    )
    instance.environment["ELASTUNE_MARGIN"] = "120"
    instance.imds.data[LEASE] = str(instance.began + 1)
    python = str(instance.folder / "bin/python")
    instance.watch(a_boot(head=head, expires=instance.began + 1, python=python))
    wait_until(lambda: bool(instance.switched))
    instance.pass_time(60)
    instance.ticks()
    assert [minutes(command) for command in instance.switched] == [14]
    asked = (instance.folder / "asked").read_text().splitlines()
    assert asked == [f"{INSTANCE} elastune:expiry us-east-1"]


def test_a_head_that_is_lost_ends_the_machine(instance: FakeInstance) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        instance.watch(a_boot(head=address, lost_head_after=2))
        instance.ticks(1)
        instance.pass_time(100)
        instance.ticks()
        assert instance.switched == []
    instance.ticks()
    assert instance.switched == []
    instance.pass_time(102)
    wait_until(lambda: instance.ended)
    assert f"the head {address} has not answered for 2 s" in instance.log("watch")


def test_a_spot_notice_is_told_to_ray_once(instance: FakeInstance, head: str) -> None:
    notes = instance.folder / "ray.txt"
    instance.command("python", NOTES.format(notes=notes))
    instance.watch(a_boot(head=head, python=str(instance.folder / "bin/python")))
    (instance.state / "ray-node").write_text("c0ffee")
    instance.ticks(2)
    assert not notes.exists()
    taken = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(instance.began + 120))
    instance.imds.data["spot/instance-action"] = f'{{"action": "terminate", "time": "{taken}"}}'
    wait_until((instance.state / "drained").exists)
    instance.ticks()
    (command,) = notes.read_text().splitlines()
    assert command.startswith(f"-m ray.scripts.scripts drain-node --address={head} --node-id=c0ffee")
    assert command.endswith("=120")
    assert f"elastune: noticed: taken away at {taken}" in instance.log("watch")
    assert instance.switched == []


def test_a_notice_before_the_node_has_joined_is_told_when_it_has(instance: FakeInstance, head: str) -> None:
    notes = instance.folder / "ray.txt"
    instance.command("python", NOTES.format(notes=notes))
    instance.imds.data["spot/termination-time"] = "2026-05-02T08:22:00Z"
    instance.watch(a_boot(head=head, python=str(instance.folder / "bin/python")))
    instance.ticks(2)
    assert not notes.exists()
    (instance.state / "ray-node").write_text("c0ffee")
    wait_until(lambda: notes.exists() and notes.read_text())
    assert notes.read_text().splitlines()[0].endswith("--deadline-remaining-seconds=0")


def test_where_the_watchdog_is_killed_the_switch_has_the_last_word(instance: FakeInstance, head: str) -> None:
    instance.imds.data[LEASE] = str(instance.began + 570)
    watchdog = instance.watch(a_boot(head=head, expires=instance.began + 300))
    wait_until(lambda: bool(instance.switched))
    os.kill(watchdog.pid, signal.SIGKILL)
    watchdog.wait()
    assert [minutes(command) for command in instance.switched] == [9]


def test_a_new_watchdog_knows_the_lease_of_the_one_before(instance: FakeInstance, head: str) -> None:
    boot = a_boot(head=head, expires=instance.began + 100)
    instance.imds.data[LEASE] = str(instance.began + 3570)
    first = instance.watch(boot)
    wait_until(lambda: bool(instance.switched))
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    instance.imds.silent = True
    instance.pass_time(200)
    instance.watch(boot)
    instance.ticks_in_silence()
    assert len(instance.switched) == 1
