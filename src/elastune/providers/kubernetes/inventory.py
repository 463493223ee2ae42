"""Lists and ends the pods of Elastune in the namespace that this machine reaches."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection

from elastune.providers.kubernetes.api import (
    KubernetesApi,
    KubernetesError,
    KubernetesRefusedError,
    find_access,
)
from elastune.providers.kubernetes.calls import Pod, PodPhase, RayClusterCalls, WorkerGroup, all_groups
from elastune.providers.kubernetes.sweeping import drop_pods, waiting_for
from elastune.providers.protocol import LiveInstance, UnseenError
from elastune.user_home import user_home

USED = "kubernetes"


def is_in_use() -> bool:
    """Whether a run of this user has ever had pods, or this is one. Else a kubeconfig is for something else,
    and a cluster that does not answer is no news."""
    home = user_home()
    used = home is not None and (home / USED).exists()
    return used or "KUBERNETES_SERVICE_HOST" in os.environ


def note_use() -> None:
    home = user_home()
    with contextlib.suppress(OSError):
        if home is not None:
            home.mkdir(parents=True, exist_ok=True)
            (home / USED).touch()


class KubernetesInventory:
    def __init__(self, api: KubernetesApi | None = None) -> None:
        self._api = api

    def instances(self) -> tuple[LiveInstance, ...]:
        try:
            api = self._opened()
            found = [
                _live_instance(group, pod, waiting_for(group, pods).get(pod.name))
                for group, pods in all_groups(api)
                for pod in pods
                if pod.phase is not PodPhase.ENDED
            ]
        except KubernetesError as error:
            is_absent = isinstance(error, KubernetesRefusedError) or not is_in_use()
            raise UnseenError(str(error), is_absent=is_absent) from error
        return tuple(sorted(found, key=lambda each: (each.since, each.node)))

    def end(self, nodes: Collection[str]) -> None:
        try:
            api = self._opened()
            for group, _ in all_groups(api):
                drop_pods(RayClusterCalls(api, group.cluster, group.name), nodes, time.time())
        except KubernetesError as error:
            raise UnseenError(str(error)) from error

    def _opened(self) -> KubernetesApi:
        if self._api is None:
            self._api = KubernetesApi(find_access())
        return self._api


def _live_instance(group: WorkerGroup, pod: Pod, waits_for: str | None) -> LiveInstance:
    """A pod that no run has claimed yet counts for one that waits for it."""
    run = pod.run or waits_for
    share = None if run is None else group.shares.get(run)
    return LiveInstance(
        provider="kubernetes",
        node=pod.name,
        run=run,
        job=None if share is None else share.job or None,
        kind=" ".join(filter(None, (group.cluster, group.name, pod.machine))),
        state="ending" if pod.ends is not None else pod.phase.value,
        since=pod.since or time.time(),
        usd_per_hour=None if share is None else share.usd or None,
        expires=None if share is None else share.expires,
    )
