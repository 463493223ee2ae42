"""A stand-in for an API server with the KubeRay operator and a scheduler, over HTTP.

It does what their documents and issues say, as far as the provider uses it. Objects have versions, and a
change of an older one is a conflict. The operator first deletes pods that failed, and does no more in that
round; then those that `workersToDelete` names; then it makes pods, or deletes any at random, until there are
as many as `replicas`, within `minReplicas` and `maxReplicas`. It counts pods that are ending, but for those
that are named. Names stay in `workersToDelete` until a client removes
them. Pods without a machine wait, and deleted ones take a while to end.
"""

from __future__ import annotations

import contextlib
import copy
import json
import random
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "let-me-in"
NAMESPACE, CLUSTER, GROUP = "tuning", "ray", "workers"


class RefusalError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class StandIn:
    machines: int = 100
    """That have room for a pod each."""
    most: int = 100
    grace_s: float = 0.05
    unheard: float = 0.0
    """The chance that a call fails without having been executed; `unanswered`: although it was."""
    unanswered: float = 0.0
    clock: Callable[[], float] = time.time
    luck: random.Random = field(default_factory=lambda: random.Random(0))
    is_patient: bool = True
    """The operator does nothing in a group while pods that it deleted are there, as newer ones do."""
    token: str = TOKEN
    image_error: str = ""
    """Of the registry: no container starts."""
    network: str = "10.1.0."
    deleted_at_random: list[str] = field(default_factory=list)
    made: int = 0
    addressed: int = 0

    def __post_init__(self) -> None:
        self.lock = threading.Lock()
        self.version = 100
        self.pods: dict[str, dict[str, Any]] = {}
        group = {
            "groupName": GROUP,
            "replicas": 0,
            "minReplicas": 0,
            "maxReplicas": self.most,
            "template": {},
        }
        other = {**group, "groupName": "users-own", "replicas": 2}
        self.cluster: dict[str, Any] = {
            "metadata": {"name": CLUSTER, "namespace": NAMESPACE, "resourceVersion": "100"},
            "spec": {"enableInTreeAutoscaling": False, "workerGroupSpecs": [other, group]},
        }

    # What tests look at and do.

    @property
    def group(self) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster["spec"]["workerGroupSpecs"][1]
        return found

    @property
    def annotations(self) -> dict[str, str]:
        found: dict[str, str] = self.cluster["metadata"].get("annotations", {})
        return found

    def alive(self, group: str = GROUP) -> list[str]:
        with self.lock:
            self._reconcile()
            return [
                name
                for name, pod in self.pods.items()
                if pod["metadata"]["labels"]["ray.io/group"] == group
                and "deletionTimestamp" not in pod["metadata"]
            ]

    def lose(self, name: str) -> None:
        """Its machine failed."""
        with self.lock:
            self._touch(self.pods[name])["status"]["phase"] = "Failed"

    def evict(self, name: str, grace_s: float) -> None:
        """Its machine is drained."""
        with self.lock:
            self._delete(self.pods[name], grace_s)

    # The API server.

    def answer(self, login: str | None, verb: str, path: str, body: Any, kind: str) -> Any:
        if login != f"Bearer {self.token}":
            raise RefusalError(401, "Unauthorized")
        with self.lock:
            if self.luck.random() < self.unheard:
                raise RefusalError(503, "the server is currently unable to handle the request")
            self._reconcile()
            url = urlsplit(path)
            answer = self._list(url.query, url.path) if verb == "GET" else self._patch(url.path, body, kind)
            self._reconcile()
            if self.luck.random() < self.unanswered:
                raise ConnectionResetError
            return copy.deepcopy(answer)

    def _list(self, query: str, path: str) -> Any:
        if path.endswith("/pods"):
            (selector,) = parse_qs(query)["labelSelector"]
            return {"items": [pod for pod in self.pods.values() if _matches(pod, selector)]}
        if path.endswith("/rayclusters"):
            return {"items": [self.cluster]}
        return self._find(path)

    def _find(self, path: str) -> dict[str, Any]:
        name = unquote(path.rpartition("/")[2])
        known = self.pods if "/pods/" in path else {CLUSTER: self.cluster}
        if f"/namespaces/{NAMESPACE}/" not in path or name not in known:
            raise RefusalError(404, f"{name!r} not found")
        return known[name]

    def _patch(self, path: str, body: Any, kind: str) -> Any:
        found = self._find(path)
        new = copy.deepcopy(found)
        if kind == "application/merge-patch+json":
            _merge(new, body)
        else:
            for operation in body:
                _apply(new, operation)
        if new["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
            raise RefusalError(
                409, "the object has been modified; please apply your changes to the latest version"
            )
        _check_names(new["metadata"])
        found.clear()
        found.update(new)
        return self._touch(found)

    def _touch(self, item: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        return item

    # KubeRay and the scheduler.

    def _reconcile(self) -> None:
        for group in self.cluster["spec"]["workerGroupSpecs"]:
            self._scale(group)
        now = self.clock()
        for name in [name for name, pod in self.pods.items() if pod["gone"] <= now]:
            del self.pods[name]
        for pod in self.pods.values():
            self._schedule(pod)

    def _scale(self, group: dict[str, Any]) -> None:
        own = {name: pod for name, pod in self.pods.items() if pod["group"] == group["groupName"]}
        if failed := [pod for pod in own.values() if pod["status"]["phase"] == "Failed"]:
            for pod in failed:
                self._delete(pod, 0.0)
            return
        if self.is_patient and any(pod.get("is_expected") for pod in own.values()):
            return
        named = (group.get("scaleStrategy") or {}).get("workersToDelete", [])
        for name in named:
            if name in own:
                self._delete(own[name], self.grace_s)
                own[name]["is_expected"] = True
        there = [name for name in own if name not in named]
        wanted = max(group["minReplicas"], min(group["replicas"], group["maxReplicas"]))
        for _ in range(wanted - len(there)):
            self._make(group["groupName"])
        for name in there[: max(0, len(there) - wanted)]:
            self.deleted_at_random.append(name)
            self._delete(own[name], self.grace_s)

    def _make(self, group: str) -> None:
        self.made += 1
        name = f"{CLUSTER}-{group}-worker-{self.made:05}"
        labels = {"ray.io/cluster": CLUSTER, "ray.io/group": group, "ray.io/node-type": "worker"}
        metadata = {"name": name, "labels": labels, "creationTimestamp": self._now()}
        self.pods[name] = {
            "metadata": metadata,
            "spec": {},
            "status": {"phase": "Pending"},
            "group": group,
            "gone": float("inf"),
        }
        self._touch(self.pods[name])

    def _schedule(self, pod: dict[str, Any]) -> None:
        status = pod["status"]
        if status["phase"] != "Pending" or "deletionTimestamp" in pod["metadata"]:
            return
        if (
            sum("nodeName" in each["spec"] for each in self.pods.values() if each["group"] == GROUP)
            >= self.machines
        ):
            message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
            why = {"reason": "Unschedulable", "message": message}
            status["conditions"] = [{"type": "PodScheduled", "status": "False", **why}]
            return
        if "nodeName" in pod["spec"]:
            return
        pod["spec"]["nodeName"] = f"machine-{self.made}"
        status["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": self._now()}]
        if self.image_error:
            waiting = {"reason": "ImagePullBackOff", "message": self.image_error}
            status["containerStatuses"] = [{"name": "ray-worker", "state": {"waiting": waiting}}]
            self._touch(pod)
            return
        status |= {"phase": "Running", "podIP": f"{self.network}{self._address()}"}
        self._touch(pod)

    def _now(self) -> str:
        return _stamp(self.clock())

    def _address(self) -> int:
        self.addressed = self.addressed % 250 + 1
        return self.addressed

    def _delete(self, pod: dict[str, Any], grace_s: float) -> None:
        if "deletionTimestamp" not in pod["metadata"]:
            pod["gone"] = self.clock() + grace_s
            pod["metadata"]["deletionTimestamp"] = _stamp(pod["gone"])
            self._touch(pod)


def _check_names(metadata: dict[str, Any]) -> None:
    """Of labels and annotations: a prefix, and at most 63 characters."""
    for name in [*metadata.get("annotations", {}), *metadata.get("labels", {})]:
        if not re.fullmatch(r"(?:[a-z0-9.-]{1,253}/)?[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?", name):
            raise RefusalError(422, f"metadata: Invalid value: {name!r}: name part must be no more than 63")
    for value in metadata.get("labels", {}).values():
        if not re.fullmatch(r"(?:[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?)?", value):
            raise RefusalError(422, f"metadata.labels: Invalid value: {value!r}")


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _matches(pod: dict[str, Any], selector: str) -> bool:
    labels = pod["metadata"]["labels"]
    words = (word.partition("=") for word in selector.split(","))
    return all(name in labels and (not sign or labels[name] == value) for name, sign, value in words)


def _merge(item: dict[str, Any], changes: dict[str, Any]) -> None:
    for name, value in changes.items():
        if isinstance(value, dict):
            _merge(item.setdefault(name, {}), value)
        else:
            item[name] = value


def _apply(item: dict[str, Any], operation: dict[str, Any]) -> None:
    *folders, last = (part.replace("~1", "/").replace("~0", "~") for part in operation["path"][1:].split("/"))
    where: Any = item
    for part in folders:
        where = where[int(part)] if isinstance(where, list) else where.get(part)
        if where is None:
            raise RefusalError(422, f"the path {operation['path']} does not exist")
    match operation["op"]:
        case "test":
            if where.get(last) != operation["value"]:
                raise RefusalError(422, f"testing {operation['path']} failed")
        case "remove" | "replace" if last not in where:
            raise RefusalError(422, f"the path {operation['path']} does not exist")
        case "remove":
            del where[last]
        case _:
            where[last] = operation["value"]


@contextlib.contextmanager
def serving(stand_in: StandIn, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Its address."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            try:
                kind = self.headers.get("Content-Type") or ""
                said = stand_in.answer(self.headers.get("Authorization"), self.command, self.path, body, kind)
                code = 200
            except RefusalError as refusal:
                code, said = refusal.code, {"kind": "Status", "code": refusal.code, "message": str(refusal)}
            except ConnectionResetError:
                self.close_connection = True
                return
            data = json.dumps(said).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            with contextlib.suppress(BrokenPipeError):  # it waited for too long
                self.wfile.write(data)

        do_GET = do_PATCH = answer  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.02))
        thread.start()
        try:
            yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
