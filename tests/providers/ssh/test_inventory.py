"""`elastune nodes` on machines that are reached by SSH, with a real SSH server and real nodes."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastune.api.nodes import Supervision
from elastune.model.cluster import ClusterTerms
from elastune.providers.local.processes import NODE, tagged
from elastune.providers.protocol import ProviderSetting, UnseenError
from elastune.providers.remote.listing import registered_nodes
from elastune.providers.ssh import inventory
from elastune.providers.ssh.inventory import SshInventory, read_notes, write_note
from elastune.providers.ssh.options import SshOptions, ssh_command
from elastune.providers.ssh.provider import SshProvider
from tests.providers.contract import nodes
from tests.providers.ssh.server import SshServer, running_server
from tests.waiting import wait_until

PYTHONPATH = "export PYTHONPATH=" + ":".join(filter(None, sys.path))


@pytest.fixture(scope="module")
def machines() -> Iterator[SshServer]:
    with running_server(2) as made:
        yield made


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ELASTUNE_HOME", str(tmp_path / "home"))


def options(machines: SshServer) -> SshOptions:
    return SshOptions.parse({**machines.options, "setup": [PYTHONPATH]})


def look(run: str, at: float | None = None) -> Supervision:
    now = time.time() if at is None else at
    return Supervision(provider="ssh", clock=lambda: now, sleep=lambda _: None)


def test_without_any_run_there_is_nothing_to_ask() -> None:
    with pytest.raises(UnseenError) as seen:
        SshInventory().instances()
    assert seen.value.is_absent


def test_a_node_is_listed_and_swept_once_its_lease_is_over(machines: SshServer) -> None:
    """Its driver hangs: the connection is open."""
    chosen = options(machines)
    write_note("ssh-a", chosen)
    with socket.create_server(("127.0.0.1", 0)) as head:
        spec = {"head": f"127.0.0.1:{head.getsockname()[1]}", "token": "t", "node": "n0-swept", "cpus": 1}
        spec |= {"gpus": 0, "provider": "ssh", "run": "ssh-a", "job": "tune"}
        command = ssh_command(chosen, chosen.hosts[1], "elastune.providers.remote.node", "-")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, **pipes) as connection:  # type: ignore[call-overload]
            connection.stdin.write(json.dumps(spec).encode() + b"\n")
            connection.stdin.flush()
            wait_until(lambda: SshInventory().instances())
            (live,) = look("ssh-a").look().nodes
            assert (live.instance.node, live.instance.run, live.instance.job) == ("n0-swept", "ssh-a", "tune")
            assert live.orphan is None
            later = look("ssh-a", time.time() + 3600.0)
            assert [node.instance.node for node in later.look().orphans] == ["n0-swept"]
            assert later.end(later.look().orphans).ended == ("n0-swept",)
            connection.wait()
    assert look("ssh-a").look().nodes == ()


def test_a_machine_that_does_not_answer_is_listed_and_not_swept(machines: SshServer) -> None:
    write_note("ssh-b", SshOptions.parse({**machines.options, "hosts": ["127.0.0.1:1"]}))
    seen = look("ssh-b").look()
    (live,) = seen.nodes
    assert (live.instance.node, live.instance.state, live.orphan) == ("127.0.0.1:1", "not seen", None)
    assert "Connection refused" in live.instance.kind


def test_the_note_of_a_driver_that_is_gone_is_forgotten(
    machines: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once if no machine has a node of it, else some time after the last lease."""
    for run, hosts in (("ssh-c", options(machines).hosts), ("ssh-d", ("127.0.0.1:1",))):
        path = write_note(run, options(machines).model_copy(update={"hosts": hosts}))
        assert path is not None
        note = json.loads(path.read_text())
        path.write_text(json.dumps({**note, "began": 0.0}))
    assert [each.run for each in SshInventory().instances()] == ["ssh-d"]
    assert [note.run for note in read_notes().values()] == ["ssh-d"]
    monkeypatch.setattr(inventory, "_FORGET_S", -1.0)
    assert SshInventory().instances() == ()
    assert read_notes() == {}


@pytest.mark.slow  # a head and two nodes of Ray
def test_a_run_leaves_neither_notes_nor_processes(machines: SshServer) -> None:
    """Also of a node whose program was killed: what it had started is found, and ended."""
    given = {**machines.options, "setup": [PYTHONPATH], "lost_head_after": "10s"}
    terms = ClusterTerms(slots_per_node=1, max_nodes=2, price_per_hour=0.0)
    setting = ProviderSetting(run="ssh-e", terms=terms, clock=time.monotonic, options=given, job="tune")
    provider = SshProvider(setting)
    provider.open()
    try:
        provider.request("a", 2)
        wait_until(lambda: sum(each.ready_s is not None for each in provider.survey().machines) == 2)
        names = nodes(provider.survey())
        live = SshInventory().instances()
        assert sorted(each.node for each in live) == sorted(names)
        assert all(each.expires is not None and each.job == "tune" for each in live)
        entries = {entry.node: entry for _, entry in registered_nodes()}
        victim = entries[names[0]]
        subprocess.run(["kill", "-9", str(victim.pid)], check=True)
        wait_until(lambda: nodes(provider.survey()) == names[1:])
        look("ssh-e").end(look("ssh-e").look().orphans)
        assert tagged(NODE, victim.tag) == ()
    finally:
        provider.close()
    assert read_notes() == {}
    assert all(tagged(NODE, entries[name].tag) == () for name in names)
