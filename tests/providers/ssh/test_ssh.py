"""Machines by SSH: what every provider owes, and what may happen to a machine; with a real SSH server."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from elastune.errors import ExecutionError, JobError
from elastune.model.cluster import ClusterTerms
from elastune.providers.local.processes import tagged
from elastune.providers.protocol import Provider, ProviderSetting, Survey
from elastune.providers.ray_cluster import RayLink
from elastune.providers.registry import load_provider, price_lookup
from elastune.providers.remote.head import own_address
from elastune.providers.ssh.options import SshOptions, host_name
from elastune.providers.ssh.provider import SshProvider
from tests.providers.contract import ProviderContract, nodes, status
from tests.providers.ssh.server import SshServer, running_server, why_not
from tests.waiting import wait_until

MARK = "ELASTUNE_SSH_TEST"
_runs = itertools.count()


@pytest.fixture(scope="module")
def ssh_server() -> Iterator[SshServer]:
    with running_server() as made:
        yield made


class ConnectionsJoin(RayLink):
    """Every machine that has printed `up` has its Ray node."""

    def __init__(self) -> None:
        self.provider: SshProvider | None = None

    def joined(self) -> Mapping[str, str]:
        assert self.provider is not None
        live = self.provider._nodes.items()
        return {
            node: f"ray-{node}" for node, each in live if "up" in each.lines and each.process.poll() is None
        }

    def leaving(self) -> Mapping[str, float]:
        return {}


class SshStage:
    """The program on a machine is a shell that prints a line and ends with its input."""

    def __init__(self, server: SshServer) -> None:
        self.server = server
        self.open: list[SshProvider] = []

    def make(self, room: int = 4, **options: Any) -> SshProvider:
        terms = ClusterTerms(slots_per_node=2, max_nodes=room, price_per_hour=0.0)
        run = f"ssh{next(_runs)}"
        setup = [f"{MARK}={run} exec sh -c 'read spec; echo up; cat >/dev/null'"]
        chosen = {**self.server.options, "setup": setup, **options}
        setting = ProviderSetting(run=run, terms=terms, clock=time.monotonic, options=chosen)
        link = ConnectionsJoin()
        link.provider = made = SshProvider(setting, ray_link=link)
        made.open()
        self.open.append(made)
        return made

    def provider(self, *, room: int = 4) -> Provider:
        return self.make(room)

    def reopen(self, provider: Provider) -> Provider:
        assert isinstance(provider, SshProvider)
        provider.close()
        self.open.remove(provider)
        return self.make()

    def settle(self, provider: Provider) -> Survey:
        def settled() -> Survey | None:
            survey = provider.survey()
            return survey if all(machine.ready_s is not None for machine in survey.machines) else None

        survey = wait_until(settled, lambda: f"not settled: {provider.survey()}")
        assert survey is not None
        return survey

    def close(self) -> None:
        for provider in self.open:
            provider.close()
            check = provider.final_check()
            assert check is not None
            assert check.left == ()
            wait_until(lambda run=provider._setting.run: not tagged(MARK, run))  # type: ignore[misc]


@pytest.fixture
def stage(ssh_server: SshServer) -> Iterator[SshStage]:
    made = SshStage(ssh_server)
    yield made
    made.close()


@pytest.mark.slow  # minutes of waiting for real connections
class TestContract(ProviderContract):
    @pytest.fixture
    def stage(self, ssh_server: SshServer) -> Iterator[SshStage]:
        made = SshStage(ssh_server)
        yield made
        made.close()

    def test_a_new_driver_finds_what_the_old_one_left(self, stage: Any) -> None:
        """Which is nothing: nodes end with their driver. The names are new."""
        provider = stage.provider()
        provider.request("a", 2)
        left = nodes(stage.settle(provider))
        reopened = stage.reopen(provider)
        assert reopened.survey().machines == ()
        reopened.request("a", 2)
        assert not set(nodes(stage.settle(reopened))) & set(left)


@pytest.mark.slow
def test_more_than_there_are_is_refused(stage: SshStage) -> None:
    provider = stage.make(room=9)
    provider.request("a", 6)
    answer = status(stage.settle(provider), "a")
    assert (len(answer.granted), answer.refused) == (4, 2)
    assert "4 machines" in answer.reason


@pytest.mark.slow
def test_a_machine_that_cannot_be_reached_is_told_and_shunned(stage: SshStage) -> None:
    """Nothing listens on the port of the first."""
    hosts = ["127.0.0.11:1", f"127.0.0.12:{stage.server.port}"]
    provider = stage.make(hosts=hosts)
    provider.request("a", 2)
    wait_until(lambda: len(provider.survey().machines) == 1)
    provider.request("b", 1)
    answer = status(provider.survey(), "b")
    assert answer.refused == 1
    assert "127.0.0.11:1: " in answer.reason
    assert "Connection refused" in answer.reason
    assert any("Connection refused" in text for text in provider.boot_logs().values())


@pytest.mark.slow
def test_a_wrong_key_is_told(stage: SshStage, tmp_path: Any) -> None:
    provider = stage.make(key=str(tmp_path / "none"))
    provider.request("a", 1)
    wait_until(lambda: provider.survey().machines == ())
    (text,) = provider.boot_logs().values()
    assert "Permission denied" in text


@pytest.mark.slow
def test_a_connection_that_breaks_is_a_lost_node(stage: SshStage) -> None:
    provider = stage.make()
    provider.request("a", 2)
    first, second = nodes(stage.settle(provider))
    provider._nodes[first].process.kill()
    wait_until(lambda: nodes(provider.survey()) == [second])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "hosts is missing; expected a list of machines"),
        ({"hosts": []}, "hosts is"),
        ({"hosts": ["a", "a"]}, "'a' is there twice"),
        ({"hosts": ["-oProxyCommand=evil"]}, "'-oProxyCommand=evil' is none"),
        ({"hosts": ["a b"]}, "'a b' is none"),
        ({"hosts": "a", "prots": 1}, "prots is no option of ssh.*did you mean 'ports'"),
        ({"hosts": "a", "ports": [20000, 20001]}, "at least 50 ports"),
        ({"hosts": "a", "lost_head_after": "never"}, "expected a duration"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], told: str) -> None:
    with pytest.raises(JobError, match=rf"(?s)cluster.options\..*{told}"):
        SshOptions.parse(options)


def test_own_machines_cost_nothing() -> None:
    teller = price_lookup("ssh")
    assert teller is not None
    assert teller({"hosts": ["a"]}).usd_per_hour == 0.0


def test_a_name_that_cannot_be_found_is_told() -> None:
    with pytest.raises(JobError, match=r"no-such-machine.invalid cannot be found .* cluster.options.address"):
        own_address(None, "no-such-machine.invalid")
    assert own_address("127.0.0.5", "") == "127.0.0.5"
    assert own_address(None, "127.0.0.1") == "127.0.0.1"


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_a_name_in_the_configuration_of_ssh_stands_for_an_address(tmp_path: Path) -> None:
    """The machine with it reaches the others, although no other program knows the name."""
    config = tmp_path / "config"
    config.write_text("Host gpu-of-mine\n  HostName 127.0.0.11\n  User me\n  Port 2200\n")
    options = SshOptions.parse({"hosts": "gpu-of-mine", "ssh_options": f"-F {config}"})
    assert host_name(options, "gpu-of-mine") == "127.0.0.11"
    assert host_name(options, "you@gpu-of-mine:22") == "127.0.0.11"
    assert host_name(options, "you@127.0.0.12:22") == "127.0.0.12"


def test_without_ssh_the_reason_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    terms = ClusterTerms(slots_per_node=1, max_nodes=1, price_per_hour=0.0)
    options = {"hosts": ["a"], "slot_cpus": 1, "slot_gpus": 0}
    setting = ProviderSetting(run="r", terms=terms, clock=time.monotonic, options=options)
    provider = load_provider("ssh")(setting)
    assert isinstance(provider, SshProvider)
    with pytest.raises(ExecutionError, match="there is no ssh on this machine"):
        provider.open()
