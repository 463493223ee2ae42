"""Runs nodes as worker pods of a RayCluster of KubeRay. This process is on a machine of that cluster: the
head pod, or one that reaches it."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import time
from collections.abc import Mapping

from elastune.errors import ExecutionError
from elastune.model.ids import NodeId
from elastune.providers.kubernetes.api import (
    KubernetesApi,
    KubernetesError,
    KubernetesRefusedError,
    find_access,
)
from elastune.providers.kubernetes.broker import LEASE_S, GroupBroker, GroupPurpose
from elastune.providers.kubernetes.calls import GroupCalls, Pod, RayClusterCalls
from elastune.providers.kubernetes.inventory import note_use
from elastune.providers.kubernetes.keeper import start_keeper
from elastune.providers.kubernetes.options import KubernetesOptions
from elastune.providers.kubernetes.sweeping import drop_run, is_alive
from elastune.providers.protocol import ProviderSetting
from elastune.providers.ray_cluster import FinalCheck, RayLink, RayMembership
from elastune.providers.remote.brokered import BootResult, BrokeredProvider, failed_in_a_row

_log = logging.getLogger("elastune")

_MOST_LOGS = 4
_LAST_S = 120.0
"""For the last pods to end: they have a grace time of 30 s."""


class PodLink(RayLink):
    """A pod is the Ray node that has its address."""

    def __init__(self) -> None:
        self.addresses: Mapping[str, str] = {}

    def joined(self) -> Mapping[str, str]:
        import ray  # noqa: PLC0415 - heavy

        known = self.addresses
        nodes = (node for node in ray.nodes() if node["Alive"])
        return {
            known[node["NodeManagerAddress"]]: node["NodeID"]
            for node in nodes
            if node["NodeManagerAddress"] in known
        }


class KubernetesProvider(BrokeredProvider[GroupBroker]):
    """`calls` and `ray_link` are for tests; with a `ray_link`, this process is not connected to Ray, and no
    keeper is started."""

    service = "Kubernetes"
    service_error = KubernetesError
    refusal = KubernetesRefusedError

    def __init__(
        self,
        setting: ProviderSetting,
        *,
        slot_cpus: int = 1,
        slot_gpus: int = 0,
        calls: GroupCalls | None = None,
        ray_link: RayLink | None = None,
    ) -> None:
        super().__init__(setting, slot_cpus, slot_gpus, ray_link=ray_link)
        self._options = KubernetesOptions.parse(setting.options)
        self._calls = calls
        self._membership: RayMembership | None = None
        self._keeper: subprocess.Popen[bytes] | None = None
        self._logs: dict[NodeId, str] = {}

    def connect(self) -> None:
        options = self._options
        if self._calls is None:
            access = find_access(options.context, options.namespace)
            self._calls = RayClusterCalls(KubernetesApi(access), options.cluster, options.group)
        if self._ray_link is None:
            self._membership = RayMembership(options.ray)
            self._ray_link = PodLink()
            note_use()
            self._keeper = start_keeper(self._setting.run, options)

    def disconnect(self) -> None:
        """The keeper of a run that has left nothing is not needed; else it goes on."""
        check = self._final_check
        if self._keeper is not None and check is not None and not check.left:
            self._keeper.kill()
            self._keeper.wait()
        self._keeper = None
        if self._membership is not None:
            self._membership.leave()
            self._membership = None

    def broker_clock(self) -> float:
        return self._setting.clock()

    def make_broker(self) -> GroupBroker:
        setting = self._setting
        assert self._calls is not None
        return GroupBroker(
            self._calls,
            GroupPurpose(
                run=setting.run,
                job=setting.job,
                max_nodes=setting.terms.max_nodes,
                usd_per_hour=setting.terms.price_per_hour,
                expected_queue_s=setting.terms.queue.mean,
                patience_s=self._options.patience,
            ),
            clock=setting.clock,
            wall=time.time,
            lease_s=self._lease_s,
        )

    def check_terms(self, broker: GroupBroker) -> None:
        """Elastune has to be the only one that scales the group."""
        assert self._calls is not None
        self._calls.check_name(self._setting.run)
        group = self._calls.group()
        name = f"the worker group {group.name!r} of the RayCluster {group.cluster!r}"
        if group.has_autoscaler:
            raise ExecutionError(f"{name} is scaled by Ray; expected enableInTreeAutoscaling: false")
        if group.least:
            raise ExecutionError(f"{name} has minReplicas: {group.least}; expected 0")
        if group.unaccounted > 0:
            raise ExecutionError(
                f"{name} has {group.unaccounted} replicas that no run has asked for; expected a group of its "
                "own for Elastune, with replicas: 0 while no run is on"
            )

    def after_round(self, broker: GroupBroker) -> str | None:
        if isinstance(self._ray_link, PodLink):
            self._ray_link.addresses = broker.addresses()
        self._keep_logs(broker)
        failed = failed_in_a_row(
            BootResult(
                node=name,
                token=record.machine.token,
                is_up=record.machine.ready_s is not None,
                has_failed=record.is_failed_start,
            )
            for name, record in broker.records.items()
        )
        if not failed:
            return None
        last = _where(broker.records[failed[-1]].pod)
        return f"{len(failed)} pods in a row ended before their node was up, the last: {last}"

    def boot_logs(self) -> Mapping[NodeId, str]:
        with self._lock:
            return dict(self._logs)

    def end_and_check(self, broker: GroupBroker) -> FinalCheck:
        broker.wind_up()
        left, how = broker.alive(), "listing of Kubernetes"
        until = time.monotonic() + _LAST_S
        while time.monotonic() < until:
            broker.work()
            if broker.trouble is not None:
                how = f"Kubernetes could not be asked ({broker.trouble}); listing failed"
            else:
                left, how = self._left(), "listing of Kubernetes"
                if not left:
                    break
            time.sleep(0.5)
        return FinalCheck.now(left, how)

    def end_unchecked(self, broker: GroupBroker) -> FinalCheck:
        left, how = broker.alive(), "Kubernetes could not be asked to delete them"
        with contextlib.suppress(Exception):  # the interrupt is what gets raised
            assert self._calls is not None
            drop_run(self._calls, self._setting.run)
            left, how = (), "Kubernetes was asked to delete them, result not checked,"
        return FinalCheck.now(left, how)

    def billed_s(self, node: NodeId) -> float | None:
        return self._opened().billed_s(node)

    def outlived_s(self, node: NodeId, age_s: float, down_s: float) -> float:
        known = self.billed_s(node)
        return min(down_s, LEASE_S) if known is None else max(0.0, known - age_s)

    # Private.

    def _keep_logs(self, broker: GroupBroker) -> None:
        """Of the first pods whose node did not come up."""
        for name, record in broker.records.items():
            if record.is_failed_start and NodeId(name) not in self._logs and len(self._logs) < _MOST_LOGS:
                with self._lock:
                    self._logs[NodeId(name)] = f"pod {_where(record.pod)}"
                _log.warning("pod %s did not come up", _where(record.pod))

    def _left(self) -> tuple[str, ...]:
        """Pods that are ending are gone for the run: what they do has no effect, and they end."""
        assert self._calls is not None
        run = self._setting.run
        try:
            pods, group = self._calls.pods(), self._calls.group()
        except KubernetesError:
            return (f"pods of run {run}",)
        mine = tuple(pod.name for pod in pods if pod.run == run and is_alive(pod))
        return mine or ((f"share of run {run}",) if run in group.shares else ())

    def _lease_s(self) -> float | None:
        until_s = self._until_s
        return None if until_s is None else min(LEASE_S, until_s - self._setting.clock())


def _where(pod: Pod) -> str:
    where = f"{pod.name} on {pod.machine or 'an unknown machine'}"
    return f"{where}: {pod.trouble}" if pod.trouble else where
