"""What may happen to pods and to drivers, on a stand-in for an API server."""

from __future__ import annotations

import base64
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from elastune.api.nodes import Supervision
from elastune.core.events import NodeLost, NodeNoticed
from elastune.errors import ExecutionError, JobError
from elastune.providers.kubernetes import broker as broking
from elastune.providers.kubernetes.api import (
    ClusterAccess,
    KubernetesApi,
    KubernetesBusyError,
    KubernetesConflictError,
    KubernetesRefusedError,
    find_access,
)
from elastune.providers.kubernetes.calls import Pod, PodPhase, RayClusterCalls
from elastune.providers.kubernetes.inventory import KubernetesInventory, note_use
from elastune.providers.kubernetes.keeper import keep
from elastune.providers.kubernetes.options import KubernetesOptions
from elastune.providers.kubernetes.provider import KubernetesProvider
from elastune.providers.kubernetes.sweeping import drop_run
from elastune.providers.protocol import UnseenError
from elastune.providers.registry import billing_rule, is_elsewhere, price_lookup
from elastune.providers.watcher import Watcher
from tests.providers.contract import nodes, status
from tests.providers.kubernetes.stage import PodStage
from tests.providers.kubernetes.stand_in import CLUSTER, GROUP, NAMESPACE, TOKEN, StandIn, serving
from tests.waiting import wait_until


def follow(provider: KubernetesProvider, watcher: Watcher, seen: list[object]) -> list[object]:
    seen += watcher.observe(provider.survey())
    return seen


def test_a_pod_that_fails_is_lost_and_its_replacement_is_deleted(pod_stage: PodStage) -> None:
    """KubeRay makes a new one although nobody asked for it."""
    provider, watcher = pod_stage.provider(), Watcher()
    provider.request(watcher.expect(1), 3)
    first, second, third = nodes(pod_stage.settle(provider))
    watcher.observe(provider.survey())
    pod_stage.stand_in.lose(second)
    seen: list[object] = []
    wait_until(lambda: follow(provider, watcher, seen))
    assert [event.node for event in seen if isinstance(event, NodeLost)] == [second]
    wait_until(lambda: pod_stage.stand_in.group["replicas"] == 2)
    assert nodes(provider.survey()) == [first, third]
    assert pod_stage.stand_in.alive() == [first, third]


def test_the_next_request_takes_the_replacement(pod_stage: PodStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broking, "SPARE_S", 600.0)
    provider = pod_stage.provider()
    provider.request("a", 1)
    (node,) = nodes(pod_stage.settle(provider))
    pod_stage.stand_in.lose(node)
    wait_until(lambda: not provider.survey().machines)
    provider.request("b", 1)
    pod_stage.settle(provider)
    assert (pod_stage.stand_in.made, pod_stage.stand_in.group["replicas"]) == (2 + 2, 1)


def test_a_drained_machine_gives_notice(pod_stage: PodStage) -> None:
    provider, watcher = pod_stage.provider(), Watcher()
    provider.request(watcher.expect(1), 1)
    (node,) = nodes(pod_stage.settle(provider))
    watcher.observe(provider.survey())
    pod_stage.stand_in.evict(node, 30.0)
    seen: list[object] = []
    wait_until(lambda: follow(provider, watcher, seen))
    (event,) = seen
    assert isinstance(event, NodeNoticed)
    assert 0.0 < event.until_s - event.at_s <= 30.0


def test_pods_without_a_machine_are_refused_with_the_schedulers_words(pod_stage: PodStage) -> None:
    pod_stage.stand_in.machines = 1
    provider = pod_stage.make("full", options={"patience": "0.5s"})
    provider.request("a", 3)
    answer = status(pod_stage.settle(provider), "a")
    assert (len(answer.granted), answer.refused) == (1, 2)
    assert "Insufficient nvidia.com/gpu" in answer.reason
    wait_until(lambda: pod_stage.stand_in.group["replicas"] == 1)
    assert pod_stage.stand_in.alive() == list(answer.granted)


def test_pods_whose_container_does_not_start_are_given_up(
    pod_stage: PodStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broking, "STUCK_S", 0.1)
    pod_stage.stand_in.image_error = 'Back-off pulling image "tuning:1"'
    provider, watcher = pod_stage.provider(), Watcher()
    for number in range(1, 5):
        provider.request(watcher.expect(number), 1)
        seen: list[object] = []
        wait_until(lambda: any(isinstance(each, NodeLost) for each in follow(provider, watcher, seen)))  # noqa: B023
    wait_until(lambda: provider.broken)
    assert "4 pods in a row ended before their node was up" in str(provider.broken)
    assert 'ImagePullBackOff: Back-off pulling image "tuning:1"' in str(provider.broken)
    assert all("tuning:1" in text for text in provider.boot_logs().values())
    wait_until(lambda: pod_stage.stand_in.alive() == [])


def test_a_group_with_too_long_a_name_is_not_used(pod_stage: PodStage) -> None:
    """Kubernetes would accept no annotation of it."""
    with pytest.raises(ExecutionError, match=r"is too long to be noted .* at most 2 characters"):
        pod_stage.make("r" * 60)


def test_without_a_lease_nothing_is_asked_for(pod_stage: PodStage) -> None:
    leases: list[float | None] = [None]
    provider = pod_stage.make("poor", lease=lambda: leases[0])
    provider.request("a", 1)
    for lease in (None, time.monotonic() - 5.0):
        leases[0] = lease
        wait_until(lambda: not provider._inbox)
        assert pod_stage.stand_in.group["replicas"] == 0
    leases[0] = time.monotonic() + 300.0
    assert len(pod_stage.settle(provider).machines) == 1


def test_more_than_the_group_allows_is_refused(pod_stage: PodStage) -> None:
    pod_stage.stand_in.group["maxReplicas"] = 2
    provider = pod_stage.provider()
    provider.request("a", 3)
    answer = status(pod_stage.settle(provider), "a")
    assert (len(answer.granted), answer.refused) == (2, 1)
    assert answer.reason == "the group has at most 2 replicas"


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("enableInTreeAutoscaling",), True, "is scaled by Ray; expected enableInTreeAutoscaling: false"),
        (("workerGroupSpecs", 1, "minReplicas"), 1, "has minReplicas: 1; expected 0"),
        (("workerGroupSpecs", 1, "replicas"), 2, "has 2 replicas that no run has asked for"),
        (("workerGroupSpecs", 1, "groupName"), "other", "has no worker group 'workers'"),
    ],
)
def test_a_group_that_others_scale_is_not_used(path: tuple[Any, ...], value: Any, told: str) -> None:
    stand_in = StandIn()
    where: Any = stand_in.cluster["spec"]
    for part in path[:-1]:
        where = where[part]
    where[path[-1]] = value
    with serving(stand_in) as address, pytest.raises(ExecutionError, match=told):
        PodStage(stand_in, address).provider()


def test_a_pod_or_a_group_that_has_moved_meanwhile_is_looked_for_again(pod_stage: PodStage) -> None:
    calls = RayClusterCalls(pod_stage.api, CLUSTER, GROUP)
    group = calls.group()
    with pytest.raises(KubernetesConflictError, match="not found"):
        calls.claim(Pod(name="gone", phase=PodPhase.RUNNING, version="7"), "run", "1")
    with pytest.raises(KubernetesBusyError, match=r"testing .* failed"):
        calls.change(replace(group, index=0), replace(group, index=0, replicas=1))
    with pytest.raises(KubernetesConflictError, match="modified"):
        calls.change(replace(group, version="99"), replace(group, version="99", replicas=1))


def list_nodes(stage: PodStage, at: float, tmp_path: Path) -> Supervision:
    inventories = {"kubernetes": KubernetesInventory(stage.api)}
    return Supervision(
        provider="kubernetes",
        inventories=inventories,
        runs_folder=tmp_path,
        clock=lambda: at,
        sleep=lambda _: time.sleep(0.05),
    )


def test_the_pods_of_a_killed_driver_are_listed_and_swept(pod_stage: PodStage, tmp_path: Path) -> None:
    """With those that have no machine yet; and the pods of a living run stay."""
    pod_stage.stand_in.machines = 2
    living, killed = pod_stage.make("living"), pod_stage.make("killed")
    living.request("a", 1)
    (kept,) = nodes(pod_stage.settle(living))
    killed.request("a", 2)
    wait_until(lambda: len(killed.survey().machines) == 1)
    pod_stage.abandon(killed)
    now = list_nodes(pod_stage, time.time(), tmp_path).look("killed")
    assert [node.orphan for node in now.nodes] == [None, None]
    assert {node.instance.state for node in now.nodes} == {"running", "waiting"}
    assert {(node.instance.job, node.instance.usd_per_hour) for node in now.nodes} == {("tune it", 3.0)}
    later = list_nodes(pod_stage, time.time() + 3600.0, tmp_path)
    orphans = later.look("killed").orphans
    text = pod_stage.stand_in.annotations[f"elastune.io/killed.{GROUP}"]
    over = json.dumps({**json.loads(text), "expires": 1.0})
    pod_stage.stand_in.annotations[f"elastune.io/killed.{GROUP}"] = over
    assert len(later.end(orphans).ended) == 2
    assert pod_stage.stand_in.alive() == [kept]
    assert pod_stage.stand_in.group["replicas"] == 1


def test_the_keeper_ends_what_a_driver_left_when_its_lease_is_over(pod_stage: PodStage) -> None:
    provider = pod_stage.make("kept")
    provider.request("a", 2)
    pod_stage.settle(provider)
    pod_stage.abandon(provider)
    now, looks = time.time(), 0

    def sleep(_: float) -> None:
        nonlocal now, looks
        now, looks = now + 60.0, looks + 1
        if looks == 2:
            assert len(pod_stage.stand_in.alive()) == 2

    keep(RayClusterCalls(pod_stage.api, CLUSTER, GROUP), "kept", wall=lambda: now, sleep=sleep)
    assert looks > 4
    assert pod_stage.stand_in.alive() == []


@pytest.mark.parametrize(("cluster", "is_up"), [("no-such-cluster", True), (CLUSTER, False)])
def test_the_keeper_of_a_run_that_never_had_anything_ends(
    pod_stage: PodStage, cluster: str, *, is_up: bool
) -> None:
    """Its driver could not open the group either: the name is wrong, or the server is not there."""
    api = pod_stage.api
    if not is_up:
        api = KubernetesApi(ClusterAccess(server="http://127.0.0.1:9", namespace="n", token=lambda: None))
    now, looks = time.time(), 0

    def sleep(_: float) -> None:
        nonlocal now, looks
        now, looks = now + 60.0, looks + 1
        assert looks < 10

    keep(RayClusterCalls(api, cluster, GROUP), "typo", wall=lambda: now, sleep=sleep)


def test_an_interrupted_end_asks_for_everything_to_be_deleted(pod_stage: PodStage) -> None:
    provider = pod_stage.make("cut")
    provider.request("a", 3)
    pod_stage.settle(provider)
    assert provider._broker is not None
    assert provider.end_unchecked(provider._broker).left == ()
    wait_until(lambda: pod_stage.stand_in.alive() == [])
    assert pod_stage.stand_in.group["replicas"] == 0
    pod_stage.abandon(provider)


def test_a_run_that_has_nothing_changes_nothing(pod_stage: PodStage) -> None:
    drop_run(RayClusterCalls(pod_stage.api, CLUSTER, GROUP), "never-was")
    assert pod_stage.stand_in.cluster["metadata"]["resourceVersion"] == "100"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"group": "g"}, "cluster is missing; expected the name of a RayCluster"),
        ({"cluster": "c", "group": "G"}, "group is 'G'"),
        ({"cluster": "c", "group": "g", "contxt": "x"}, "contxt is no option of kubernetes.*'context'"),
        ({"cluster": "c", "group": "g", "patience": "long"}, "patience is 'long'; expected"),
        ({"cluster": "c", "group": "g", "price_per_node_hour": -1}, "price_per_node_hour is -1"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], told: str) -> None:
    with pytest.raises(JobError, match=rf"(?s)cluster.options\..*{told}"):
        KubernetesOptions.parse(options)


def test_the_price_is_that_of_the_node_pool() -> None:
    teller = price_lookup("kubernetes")
    assert teller is not None
    assert teller({"cluster": "c", "group": "g", "price_per_node_hour": 3.2}).usd_per_hour == 3.2
    assert is_elsewhere("kubernetes")
    assert billing_rule("kubernetes").shutdown_s > 0.0


def write_kubeconfig(path: Path, server: str, user: dict[str, Any]) -> None:
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")


def test_a_kubeconfig_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a token, a file of one, and a command that prints one."""
    said = json.dumps({"status": {"token": TOKEN}})
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    command = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", f"print({said!r})"],
    }
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with serving(StandIn()) as address:
        for user in ({"token": TOKEN}, {"tokenFile": "token"}, {"exec": command}):
            write_kubeconfig(tmp_path / "config", address, user)
            found = RayClusterCalls(KubernetesApi(find_access()), CLUSTER, GROUP).group()
            assert (found.name, found.replicas) == (GROUP, 0)
        write_kubeconfig(tmp_path / "config", address, {"token": "wrong"})
        with pytest.raises(KubernetesRefusedError, match="Unauthorized"):
            RayClusterCalls(KubernetesApi(find_access()), CLUSTER, GROUP).pods()
        command["args"] = ["-c", "print('log in first')"]
        write_kubeconfig(tmp_path / "config", address, {"exec": command})
        with pytest.raises(KubernetesRefusedError, match="printed no token"):
            KubernetesApi(find_access()).get("/")


def test_without_a_cluster_the_reason_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(KubernetesRefusedError, match="no pod with a service account, and there is no"):
        find_access()
    (tmp_path / "none").write_text("contexts: []\ncurrent-context: x\n")
    with pytest.raises(KubernetesRefusedError, match="cannot be used"):
        find_access()
    broken = base64.b64encode(b"no certificate").decode()
    write_kubeconfig(tmp_path / "none", "https://127.0.0.1:1", {"client-certificate-data": broken})
    with pytest.raises(KubernetesBusyError, match="does not answer"):
        KubernetesApi(find_access()).get("/")


@pytest.mark.parametrize("is_used", [False, True])
def test_a_cluster_that_does_not_answer_is_news_to_those_who_have_used_it(
    is_used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELASTUNE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    write_kubeconfig(tmp_path / "config", "http://127.0.0.1:1", {})
    if is_used:
        note_use()
    with pytest.raises(UnseenError) as seen:
        KubernetesInventory().instances()
    assert seen.value.is_absent is not is_used
