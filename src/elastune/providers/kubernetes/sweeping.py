"""Ends pods without a driver: for `elastune nodes`, for an interrupted run, and for `keeper.py`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from elastune.providers.kubernetes.api import KubernetesConflictError
from elastune.providers.kubernetes.calls import GroupCalls, Pod, PodPhase, WorkerGroup

_TRIES = 8


def drop_run(calls: GroupCalls, run: str) -> None:
    """All that a run has in a group, and what it waits for. May be repeated."""
    _change(calls, lambda group, pods: _without_run(group, pods, run))


def drop_pods(calls: GroupCalls, names: Collection[str], now: float) -> None:
    """These pods, whatever they are doing; and the shares of runs whose lease was over at `now`, so that
    KubeRay makes no more for them."""

    def change(group: WorkerGroup, pods: tuple[Pod, ...]) -> WorkerGroup:
        for run, share in group.shares.items():
            if share.expires is None or share.expires <= now:
                group = _without_run(group, pods, run)
        for pod in pods:
            if pod.name in names and pod.name not in group.named:
                owner = group.shares.get(pod.run or "")
                group = group.less(1 if owner is not None or group.unaccounted > 0 else 0, [pod.name])
                if owner is not None and pod.run is not None:
                    group = group.with_share(pod.run, owner.want(pod.request, 1))
        return group

    _change(calls, change)


def waiting_for(group: WorkerGroup, pods: Collection[Pod]) -> dict[str, str]:
    """Pods that no run has claimed yet, and the runs that wait for them."""
    free = [pod.name for pod in pods if pod.run is None and pod.phase is not PodPhase.ENDED]
    owners = [
        run
        for run, share in group.shares.items()
        for _ in range(max(0, share.replicas - sum(pod.run == run and is_alive(pod) for pod in pods)))
    ]
    return dict(zip(free, owners, strict=False))


def is_alive(pod: Pod) -> bool:
    return pod.phase is not PodPhase.ENDED and pod.ends is None


def is_counted(pod: Pod) -> bool:
    """By KubeRay, against the replicas: also one that ends because its machine is drained."""
    return pod.phase is not PodPhase.ENDED


def _without_run(group: WorkerGroup, pods: Collection[Pod], run: str) -> WorkerGroup:
    share = group.shares.get(run)
    if share is None:
        return group
    owners = waiting_for(group, pods)
    names = [pod.name for pod in pods if is_counted(pod) and run in (pod.run, owners.get(pod.name))]
    names = [name for name in names if name not in group.named]
    return group.less(max(share.replicas, 0), names).with_share(run, None)


def _change(calls: GroupCalls, how: Callable[[WorkerGroup, tuple[Pod, ...]], WorkerGroup]) -> None:
    for tries in range(_TRIES):
        old, pods = calls.group(), calls.pods()
        there = {pod.name for pod in pods}
        new = how(replace(old, named=tuple(name for name in old.named if name in there)), pods)
        try:
            if new != old:
                calls.change(old, new)
        except KubernetesConflictError:
            if tries == _TRIES - 1:
                raise
        else:
            return
