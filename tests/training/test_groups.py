"""Groups of workers: formed again and again in the same processes, on one address, without leaks."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from elastune.errors import ExecutionError, InvariantError
from elastune.training.groups import Group, Solo, open_rendezvous
from elastune.training.running import join
from elastune.training.torch_group import interface_towards
from tests.training.gangs import Crew
from tests.waiting import PATIENCE_S, wait_until

on_linux = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="reads /proc")
_LISTENING = "0A"
_LOOPBACK = ("0100007F", "00000000000000000000000001000000")


def talk(group: Group) -> tuple[int, int, list[int], Any, Any]:
    agreed = [group.agree(group.rank + 10 * number) for number in range(3)]
    return group.rank, group.size, agreed, group.total(group.rank + 1), group.total(0.5)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_rank_0_decides_and_numbers_add_up(crew: Crew, size: int) -> None:
    whole = sum(range(1, size + 1))
    expected = [(rank, size, [0, 10, 20], whole, size / 2) for rank in range(size)]
    found = crew.run(size, talk)
    assert found == expected
    assert type(found[0][3]) is int


def total_of_tensors(group: Group) -> tuple[list[float], list[int], bool]:
    import torch  # noqa: PLC0415  for the worker, which has it already

    values = torch.ones(2, 3)[:, ::2] * (group.rank + 1)
    summed = group.total(values)
    flags = group.total(torch.tensor([True, group.rank == 0]))
    return summed.flatten().tolist(), flags.tolist(), bool((values == group.rank + 1).all())


def test_tensors_add_up_and_stay_what_they_were(crew: Crew) -> None:
    assert crew.run(2, total_of_tensors) == [([3.0] * 4, [2, 1], True)] * 2


def files_open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def open_files(group: Group) -> tuple[int, int]:
    """Once the timers are through: groups that were left are held for a moment."""
    wait_until(lambda: not any(isinstance(each, threading.Timer) for each in threading.enumerate()))
    threads = Path("/proc/self/status").read_text().split("Threads:")[1].split()[0]
    return files_open(), int(threads)


@on_linux
def test_forming_a_gang_many_times_in_the_same_processes_leaks_nothing(crew: Crew) -> None:
    for _ in range(4):
        crew.run(2, talk)
    after_warming = [crew.run(2, open_files)]
    for size in (1, 2, 4, 3, 2, 1, 2) * 3:
        crew.run(size, talk)
    assert crew.run(2, open_files) == after_warming[-1]


def listening_addresses(group: Group) -> set[str]:
    group.agree(1)
    own = set()
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            own.add(str(file.readlink()))
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENING and f"socket:[{fields[9]}]" in own:
                found.add(fields[1].partition(":")[0])
    return found


@on_linux
def test_nobody_listens_on_another_address_than_the_one_that_was_given(crew: Crew) -> None:
    found = set().union(*crew.run(3, listening_addresses))
    assert found
    assert found <= set(_LOOPBACK)


def test_a_rendezvous_is_on_its_address_alone_and_goes_when_it_is_closed() -> None:
    meeting = open_rendezvous("127.0.0.1")
    assert meeting.host == "127.0.0.1"
    with socket.create_connection((meeting.host, meeting.port), timeout=PATIENCE_S):
        pass
    meeting.close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((meeting.host, meeting.port), timeout=PATIENCE_S)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ExecutionError, match=r"cannot listen on 192\.0\.2\.1 .*expected an address of this"):
        open_rendezvous("192.0.2.1")


def wait_for_nobody(group: Group) -> tuple[str, int]:
    """Of a gang of one, whose worker then waits for a peer that never comes."""
    before = files_open()
    meeting = open_rendezvous("127.0.0.1")
    with pytest.raises(ExecutionError) as caught:
        join(meeting.host, meeting.port, rank=0, size=2, timeout_s=1.0, rendezvous=meeting)
    return str(caught.value), files_open() - before


@on_linux
def test_a_worker_that_does_not_come_is_told_in_time_and_the_process_can_go_on(crew: Crew) -> None:
    message, _ = crew.run(1, wait_for_nobody)[0]
    assert "rank 0 of 2 could not form a gang at 127.0.0.1:" in message
    assert "within 1 s (no message from rank 1)" in message
    _, leaked = crew.run(1, wait_for_nobody)[0]
    assert not leaked
    assert crew.run(2, talk)[1][0] == 1


def leave_before_the_others(group: Group) -> str:
    if group.rank == 1:
        group.close()
        return "left"
    with pytest.raises(ExecutionError) as caught:
        group.total(1.0)
    return str(caught.value)


def test_a_lost_peer_is_an_error_and_not_a_wait(crew: Crew) -> None:
    messages = crew.run(2, leave_before_the_others)
    assert "rank 0 of 2 lost the connection to a peer" in messages[0]
    assert crew.run(2, talk)[0][0] == 0


def test_only_rank_0_brings_the_rendezvous() -> None:
    with pytest.raises(InvariantError, match="only rank 0 has one"):
        join("127.0.0.1", 1, rank=0, size=2, timeout_s=1.0)
    meeting = open_rendezvous("127.0.0.1")
    with pytest.raises(InvariantError, match="only rank 0 has one"):
        join(meeting.host, meeting.port, rank=1, size=2, timeout_s=1.0, rendezvous=meeting)
    assert isinstance(
        join(meeting.host, meeting.port, rank=0, size=1, timeout_s=1.0, rendezvous=meeting), Solo
    )


@on_linux
def test_the_interface_is_the_one_that_leads_to_the_address() -> None:
    assert interface_towards("127.0.0.1") == "lo"
    assert interface_towards("127.0.0.7") == "lo"
    assert interface_towards("not an address") is None
    names = {name for _, name in socket.if_nameindex()}
    assert interface_towards("192.0.2.1") in names | {None}
