"""The worker group of a RayCluster and its pods, as the API server has them.

Runs share a group. What each of them wants is in an annotation of the RayCluster, which is changed in the
same call as the number of replicas, and only if no other client has changed the RayCluster since it was
read. A pod belongs to the run whose label it has; a run puts it on pods without one, as many as it has asked
for.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol, Self
from urllib.parse import quote

from elastune.providers.kubernetes.api import (
    KubernetesApi,
    KubernetesBusyError,
    KubernetesConflictError,
    KubernetesRefusedError,
)

MARK = "elastune.io"
RUN, REQUEST = f"{MARK}/run", f"{MARK}/request"
"""Labels of a pod."""
_CLUSTERS = "/apis/ray.io/v1/namespaces/{}/rayclusters"
_PODS = "/api/v1/namespaces/{}/pods"
ABSENT, _UNFIT = 404, 422
_STUCK = (
    "CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull",
    "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "RunContainerError",
)  # fmt: skip
_MOST_NAME = 63
"""Characters of the name of an annotation, behind its prefix."""


class PodPhase(enum.Enum):
    WAITING = "waiting"
    """For a machine."""
    STARTING = "starting"
    """On a machine, which is paid for: it pulls the image, or starts Ray."""
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """Times are seconds since 1970."""

    name: str
    phase: PodPhase
    version: str = ""
    run: str | None = None
    request: str = ""
    address: str = ""
    machine: str = ""
    since: float | None = None
    """When it got its machine."""
    ends: float | None = None
    """It was told to end, and has until then."""
    reason: str = ""
    """Why it waits."""
    trouble: str = ""
    """Why its container does not start, if it is stuck."""
    group: tuple[str, str] = ("", "")
    """The RayCluster and its worker group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """What is left of a request: nodes were refused, released or lost since."""

    asked: int
    wanted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunShare:
    """What a run has of a group. `spare`: replicas of nodes that were lost, which KubeRay starts again
    although no run asked for them."""

    job: str = ""
    usd: float = 0.0
    expires: float | None = None
    """The end of its lease, in seconds since 1970."""
    spare: int = 0
    booked: tuple[str, ...] = ()
    """Pods that are there, and whose release or loss is counted in `wants` and `spare`."""
    wants: Mapping[str, Want] = field(default_factory=dict)

    @property
    def replicas(self) -> int:
        return self.spare + sum(want.wanted for want in self.wants.values())

    def want(self, token: str, less: int) -> RunShare:
        """So many fewer of a request."""
        known = self.wants.get(token)
        if known is None:
            return self
        changed = replace(known, wanted=max(0, known.wanted - less))
        return replace(self, wants={**self.wants, token: changed})

    def encode(self) -> str:
        wants = {token: [want.asked, want.wanted] for token, want in self.wants.items()}
        values = {"job": self.job, "usd": self.usd, "expires": self.expires, "spare": self.spare}
        values |= {"booked": self.booked} if self.booked else {}
        return json.dumps({**values, "wants": wants}, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> Self:
        values = json.loads(text)
        wants = {token: Want(asked=asked, wanted=left) for token, (asked, left) in values["wants"].items()}
        return cls(**{**values, "wants": wants, "booked": tuple(values.get("booked", ()))})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerGroup:
    """A worker group as it was read. `index`: its position among the groups; `named`: pods to delete."""

    cluster: str
    name: str
    index: int
    version: str
    replicas: int
    least: int
    most: int
    named: tuple[str, ...] = ()
    shares: Mapping[str, RunShare] = field(default_factory=dict)
    """By run."""
    has_autoscaler: bool = False
    has_annotations: bool = True

    @property
    def unaccounted(self) -> int:
        """Replicas that no run has asked for."""
        return self.replicas - sum(share.replicas for share in self.shares.values())

    def with_share(self, run: str, share: RunShare | None) -> WorkerGroup:
        others = {name: each for name, each in self.shares.items() if name != run}
        return replace(self, shares=others if share is None else {**others, run: share})

    def less(self, count: int, pods: Collection[str] = ()) -> WorkerGroup:
        """So many fewer replicas, and these pods are to be deleted."""
        named = tuple(dict.fromkeys([*self.named, *pods]))
        return replace(self, replicas=max(self.least, self.replicas - count), named=named)


class GroupCalls(Protocol):
    """Raises `KubernetesError`."""

    def check_name(self, run: str) -> None:
        """Whether the share of a run can be noted."""

    def group(self) -> WorkerGroup: ...

    def pods(self) -> tuple[Pod, ...]:
        """Of the group, oldest first."""

    def change(self, old: WorkerGroup, new: WorkerGroup) -> None:
        """Only if it has not changed since it was read; else `KubernetesConflictError`."""

    def claim(self, pod: Pod, run: str, request: str) -> None:
        """As `change`."""


class RayClusterCalls:
    """One group of one RayCluster by the API."""

    def __init__(self, api: KubernetesApi, cluster: str, group: str) -> None:
        self._api = api
        self._cluster, self._group = cluster, group
        self._path = f"{_CLUSTERS.format(api.namespace)}/{quote(cluster)}"

    def check_name(self, run: str) -> None:
        name = f"{run}.{self._group}"
        if len(name) > _MOST_NAME:
            raise KubernetesRefusedError(
                f"the name of the worker group {self._group!r} is too long to be noted with run {run}; "
                f"expected at most {_MOST_NAME - len(run) - 1} characters"
            )

    def group(self) -> WorkerGroup:
        found = [each for each in read_groups(self._api.get(self._path)) if each.name == self._group]
        if not found:
            raise KubernetesRefusedError(
                f"the RayCluster {self._cluster!r} has no worker group {self._group!r}"
            )
        return found[0]

    def pods(self) -> tuple[Pod, ...]:
        return list_pods(self._api, f"ray.io/cluster={self._cluster},ray.io/group={self._group}")

    def change(self, old: WorkerGroup, new: WorkerGroup) -> None:
        group = f"/spec/workerGroupSpecs/{old.index}"
        operations = [
            _operation("replace", "/metadata/resourceVersion", old.version),
            _operation("test", f"{group}/groupName", old.name),
        ]
        if not old.has_annotations:
            operations.append(_operation("add", "/metadata/annotations", {}))
        if (new.replicas, new.named) != (old.replicas, old.named):
            operations.append(_operation("add", f"{group}/replicas", new.replicas))
            strategy = {"workersToDelete": list(new.named)}
            operations.append(_operation("add", f"{group}/scaleStrategy", strategy))
        for run in {**old.shares, **new.shares}:
            path = f"/metadata/annotations/{MARK}~1{run}.{old.name}"
            share = new.shares.get(run)
            if share is None:
                operations.append({"op": "remove", "path": path})
            elif share != old.shares.get(run):
                operations.append(_operation("add", path, share.encode()))
        try:
            self._api.json_patch(self._path, operations)
        except KubernetesRefusedError as error:
            if error.code == _UNFIT:  # other groups or annotations, which is seen before the version
                raise KubernetesBusyError(str(error)) from None
            raise

    def claim(self, pod: Pod, run: str, request: str) -> None:
        metadata = {"resourceVersion": pod.version, "labels": {RUN: run, REQUEST: request}}
        path = f"{_PODS.format(self._api.namespace)}/{quote(pod.name)}"
        try:
            self._api.merge_patch(path, {"metadata": metadata})
        except KubernetesRefusedError as error:
            if error.code == ABSENT:
                raise KubernetesConflictError(str(error)) from None
            raise


def all_groups(api: KubernetesApi) -> list[tuple[WorkerGroup, tuple[Pod, ...]]]:
    """Those of the namespace in which a run has something, with their pods."""
    listed = api.get(_CLUSTERS.format(api.namespace))
    pods = list_pods(api, "ray.io/group")
    found = []
    for group in (group for item in listed["items"] for group in read_groups(item)):
        own = tuple(pod for pod in pods if pod.group == (group.cluster, group.name))
        if group.shares or any(pod.run is not None for pod in own):
            found.append((group, own))
    return found


def list_pods(api: KubernetesApi, labels: str) -> tuple[Pod, ...]:
    """Worker pods, oldest first."""
    selector = quote(f"{labels},ray.io/node-type=worker")
    listed = api.get(f"{_PODS.format(api.namespace)}?labelSelector={selector}")
    items = sorted(listed["items"], key=lambda item: item["metadata"].get("creationTimestamp", ""))
    return tuple(read_pod(item) for item in items)


def _operation(verb: str, path: str, value: object) -> dict[str, Any]:
    return {"op": verb, "path": path, "value": value}


def read_groups(item: Mapping[str, Any]) -> tuple[WorkerGroup, ...]:
    """The worker groups of a RayCluster."""
    metadata, spec = item["metadata"], item["spec"]
    annotations = metadata.get("annotations")
    return tuple(
        WorkerGroup(
            cluster=metadata["name"],
            name=each["groupName"],
            index=index,
            version=metadata["resourceVersion"],
            replicas=each.get("replicas") or 0,
            least=each.get("minReplicas") or 0,
            most=each.get("maxReplicas", 2**31 - 1),
            named=tuple((each.get("scaleStrategy") or {}).get("workersToDelete") or ()),
            shares=_read_shares(annotations or {}, each["groupName"]),
            has_autoscaler=bool(spec.get("enableInTreeAutoscaling")),
            has_annotations=annotations is not None,
        )
        for index, each in enumerate(spec.get("workerGroupSpecs") or [])
    )


def _read_shares(annotations: Mapping[str, str], group: str) -> dict[str, RunShare]:
    found = {}
    for key, text in annotations.items():
        run, _, name = key.removeprefix(f"{MARK}/").partition(".")
        if key.startswith(f"{MARK}/") and name == group:
            found[run] = RunShare.decode(text)
    return found


def read_pod(item: Mapping[str, Any]) -> Pod:
    metadata, status = item["metadata"], item.get("status") or {}
    labels = metadata.get("labels") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or []}
    scheduled = conditions.get("PodScheduled") or {}
    has_machine = scheduled.get("status") == "True"
    return Pod(
        name=metadata["name"],
        phase=_phase(status.get("phase", "Pending"), has_machine),
        version=metadata["resourceVersion"],
        run=labels.get(RUN),
        request=labels.get(REQUEST, ""),
        address=status.get("podIP", ""),
        machine=(item.get("spec") or {}).get("nodeName", ""),
        since=_time(scheduled.get("lastTransitionTime")) if has_machine else None,
        ends=_time(metadata.get("deletionTimestamp")),
        trouble=_trouble(status),
        group=(labels.get("ray.io/cluster", ""), labels.get("ray.io/group", "")),
        reason=": ".join(filter(None, (scheduled.get("reason"), scheduled.get("message")))),
    )


def _trouble(status: Mapping[str, Any]) -> str:
    containers = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    for each in containers:
        waiting = (each.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _STUCK:
            return ": ".join(filter(None, (waiting["reason"], waiting.get("message"))))
    return ""


def _phase(phase: str, has_machine: bool) -> PodPhase:
    if phase in ("Succeeded", "Failed"):
        return PodPhase.ENDED
    if phase == "Running":
        return PodPhase.RUNNING
    return PodPhase.STARTING if has_machine else PodPhase.WAITING


def _time(text: str | None) -> float | None:
    return None if text is None else datetime.fromisoformat(text).timestamp()
