"""Instances that moto only lists, made real: each becomes a machine of its own processes on this one.

What EC2's hypervisor does is done here: a new instance gets its user data run by bash and a metadata service
that knows its tags as they are now; one that is terminated loses all its processes at once; one that shuts
itself down is terminated. The rest (script, watchdog, Ray, training) is the real thing.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elastune.providers.ec2.calls import EXPIRY, RUN
from elastune.providers.local.processes import FLEET, KEEP_READABLE, kill_all
from elastune.runtime.ray.agent import MACHINE
from tests.providers.ec2.fake_imds import FakeImds
from tests.waiting import PATIENCE_S, wait_until

REGION = "us-west-2"
"""Where no other test launches anything: all motos of one process are one."""
HEAD_IP = "127.0.0.2"
_FIRST_IP = 3
_LOOK_S = 0.5
"""Every look is a listing by moto, in the process of the tests."""
_OBJECT_STORE_BYTES = 100_000_000
NO_SPARE_WORKERS = {"RAY_prestart_worker_first_driver": "0", "RAY_enable_worker_prestart": "0"}
"""A node of Ray would start a worker for each CPU before any is wanted: a second of CPU time each."""

# The switch of a machine: what was said is noted, and "now" is heard by the hypervisor.
_SWITCH = """#!/bin/bash
echo "$@" >>{notes}
[[ ${{@: -1}} != now ]] || touch {off}
"""
# The image's Python. Ray nodes of one computer need folders of their own, or they get in each other's way.
_PYTHON = """#!/bin/bash
if [[ $2 == *.ray_start ]]; then set -- "$@" --temp-dir="$ELASTUNE_STATE/ray"; fi
exec {python} "$@"
"""


class Machine:
    """One instance: a folder, a metadata service, and processes that are found by their environment."""

    def __init__(self, instance: str, number: int, user_data: str, environment: Mapping[str, str]) -> None:
        self.instance = instance
        self.folder = Path(tempfile.mkdtemp(prefix="ec2-", dir="/tmp"))  # sockets have short paths
        self.state = self.folder / "s"
        self.imds = FakeImds()
        self.imds.data |= {"instance-id": instance, "local-ipv4": f"127.0.0.{_FIRST_IP + number}"}
        self._off = self.folder / "off"
        self._undo = contextlib.ExitStack()
        self._undo.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self._undo.enter_context(self.imds.running())
        self._undo.callback(kill_all, "ELASTUNE_STATE", str(self.state))
        self._undo.callback(self._keep_logs)
        self.logs: dict[str, str] = {}
        """What the script left behind, once the machine is gone."""
        self._boot = self._start(user_data, environment)

    def _start(self, user_data: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        script, switch = self.folder / "user-data", self.folder / "bin" / "shutdown"
        script.write_text(user_data)
        switch.parent.mkdir()
        switch.write_text(_SWITCH.format(notes=self.folder / "switch.log", off=self._off))
        switch.chmod(0o700)
        own = {
            "PATH": f"{switch.parent}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "ELASTUNE_SHUTDOWN": str(switch),
            "ELASTUNE_IMDS": self.imds.url,
            "ELASTUNE_STATE": str(self.state),
            "ELASTUNE_PER_BOOT": str(self.folder / "none"),
            "ELASTUNE_SYSTEMD_RUN": "false",
            "ELASTUNE_TICK": "1",
            "RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": str(_OBJECT_STORE_BYTES),
            MACHINE: self.instance,
            **KEEP_READABLE,
            **NO_SPARE_WORKERS,
        }
        with (self.folder / "console.log").open("w") as console:
            return subprocess.Popen(
                ["bash", script],
                env={**environment, **own},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )

    @property
    def shuts_down(self) -> bool:
        return self._off.exists()

    def console(self) -> str:
        return self.logs.get("console") or (self.folder / "console.log").read_text()

    def notice(self, in_s: float) -> None:
        """The spot market wants it back."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + in_s))
        self.imds.data["spot/instance-action"] = json.dumps({"action": "terminate", "time": at})

    def know(self, tags: Mapping[str, str]) -> None:
        self.imds.data |= {f"tags/instance/{key}": value for key, value in tags.items()}

    def end(self) -> None:
        """At once, as if the power were cut. May be repeated."""
        kill_all("ELASTUNE_STATE", str(self.state))
        self._boot.wait()
        self._undo.close()

    def _keep_logs(self) -> None:
        paths = (*self.folder.glob("*.log"), *self.state.glob("*.log"))
        self.logs = {path.stem: path.read_text(errors="replace") for path in paths}


class Hypervisor:
    """Of all instances of one moto that carry our tags. `role`: the AWS access that machines have."""

    def __init__(self, role: Mapping[str, str]) -> None:
        self.ec2 = client("ec2", role)
        self.machines: dict[str, Machine] = {}
        """All that ever were."""
        self.ignores: Callable[[Mapping[str, str]], bool] = lambda tags: False
        """Whether the machine of an instance with these tags never comes to be."""
        self._environment = {**role, "AWS_DEFAULT_REGION": REGION, "LANG": "C.UTF-8"}
        self._running: set[str] = set()
        self._ends = threading.Event()
        self._failure: BaseException | None = None

    @contextlib.contextmanager
    def watching(self) -> Iterator[Hypervisor]:
        thread = threading.Thread(target=self._serve, name="hypervisor")
        thread.start()
        try:
            yield self
        finally:
            self._ends.set()
            thread.join()
            for machine in self.machines.values():
                machine.end()
            self.ec2.close()
        if self._failure is not None:
            raise self._failure

    # As people see it.

    def instances(self, *states: str) -> list[dict[str, Any]]:
        """As moto lists them, in these states or in all."""
        found = self.ec2.describe_instances(Filters=[{"Name": "tag-key", "Values": [RUN]}])["Reservations"]
        listed = [each for group in found for each in group["Instances"]]
        return [each for each in listed if not states or each["State"]["Name"] in states]

    def alive(self) -> list[str]:
        return [each["InstanceId"] for each in self.instances("pending", "running", "shutting-down")]

    def wait_for_logs(self, instances: Iterable[str]) -> None:
        """Of machines that end: they are kept a moment later."""
        for id_ in instances:
            machine = self.machines.get(id_)
            wait_until(lambda: machine is None or machine.logs, f"no logs of {id_}")  # noqa: B023

    def user_data(self, instance: str) -> str:
        answer = self.ec2.describe_instance_attribute(InstanceId=instance, Attribute="userData")
        return base64.b64decode(answer["UserData"].get("Value", "")).decode()

    def shorten_leases(self, to_s: float) -> None:
        """As if time had passed without a driver: so long they still have."""
        tag = {"Key": EXPIRY, "Value": str(int(time.time() + to_s))}
        self.ec2.create_tags(Resources=self.alive(), Tags=[tag])

    # As EC2 does it.

    def _serve(self) -> None:
        try:
            while not self._ends.wait(_LOOK_S):
                self._look()
        except BaseException as error:
            self._failure = error
            raise

    def _look(self) -> None:
        listed = {each["InstanceId"]: each for each in self.instances("running")}
        for id_, instance in listed.items():
            if id_ not in self.machines and not self.ignores(tags_of(instance)):
                self.machines[id_] = Machine(id_, len(self.machines), self.user_data(id_), self._environment)
                self._running.add(id_)
            if id_ in self._running:
                self.machines[id_].know(tags_of(instance))
        self._power_off([id_ for id_ in self._running if self.machines[id_].shuts_down])
        for id_ in self._running - listed.keys():
            self.machines[id_].end()
            self._running.discard(id_)

    def _power_off(self, instances: Collection[str]) -> None:
        """Their shutdown behaviour is to terminate."""
        if instances:
            self.ec2.terminate_instances(InstanceIds=list(instances))


def tags_of(instance: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in instance["Tags"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A Ray cluster of one node without any CPU, as `ray start --head` makes it, that asks for a token."""

    address: str
    token: str
    python: str
    """For the nodes."""
    environment: Mapping[str, str]
    """In which a driver gets in."""


@contextlib.contextmanager
def ray_head() -> Iterator[Head]:
    """Ray listens on all interfaces here, or no node of another address could join: hence the token."""
    folder = Path(tempfile.mkdtemp(prefix="head-", dir="/tmp"))
    token = secrets.token_hex(32)
    (folder / "token").write_text(token)
    python = folder / "python"
    python.write_text(_PYTHON.format(python=sys.executable))
    python.chmod(0o700)
    access = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(folder / "token")}
    address = f"{HEAD_IP}:{_free_port()}"
    command = f"-m ray.scripts.scripts start --head --node-ip-address={HEAD_IP} --num-cpus=0"
    options = f"--port={address.rpartition(':')[2]} --include-dashboard=false --disable-usage-stats"
    own = f"--temp-dir={folder}/ray --object-store-memory={_OBJECT_STORE_BYTES}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    try:
        with (folder / "head.log").open("w") as log:
            subprocess.run(
                [sys.executable, *f"{command} {options} {own}".split()],
                env={**environment, **KEEP_READABLE, **NO_SPARE_WORKERS, FLEET: str(folder), **access},
                stdout=log,
                stderr=log,
                timeout=PATIENCE_S,
                check=True,
            )
        yield Head(address=address, token=token, python=str(python), environment=access)
    finally:
        kill_all(FLEET, str(folder))
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HEAD_IP, 0))
        port: int = probe.getsockname()[1]
        return port


def client(service: str, access: Mapping[str, str]) -> Any:
    """Of moto, whatever the environment of this process says."""
    import boto3  # noqa: PLC0415 - heavy

    return boto3.session.Session().client(
        service,
        region_name=REGION,
        endpoint_url=access["AWS_ENDPOINT_URL"],
        aws_access_key_id=access["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=access["AWS_SECRET_ACCESS_KEY"],
    )
