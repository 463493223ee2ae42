"""A whole cloud on this machine: EC2, S3, secrets and prices by moto, a Ray head, a hypervisor; and a user
with a working folder, who has nothing but the command line."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.aws import IMAGE, served_aws
from tests.clouds.gate import Gate
from tests.clouds.hypervisor import REGION, Head, Hypervisor, client, ray_head
from tests.providers.ec2.price_server import Prices, serving
from tests.waiting import PATIENCE_S, SLOW_BOOT_S, wait_until

BUCKET, SECRET = "models-of-elastune", "token-of-ray"
KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
SESSION = "IQoJb3JpZ2luX2VjEXAMPLE-of-a-session"
USD_PER_HOUR = 0.085
FIXED = {"nodes": 2}

TRAIN = """
import os
import time
from pathlib import Path

import helper


def train(config, worker, state):
    done = state["done"] if state else 0
    marks = Path(config["marks"])
    while True:
        time.sleep(config["pace"])
        done += 1
        with (marks / "all").open("a") as file:
            print(os.environ["ELASTUNE_MACHINE"], f"{config['x']:.6f}", done, file=file)
        while done >= config["waits"] and not (marks / "go").exists():
            time.sleep(0.02)
        yield {"score": helper.score(done, config["x"])}, lambda: {
            "done": done, "words": Path("words.txt").read_text(), "cwd": os.getcwd()
        }


train.most_slots = 1
"""
HELPER = """
def score(done, x):
    return done + x
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    returncode: int
    stdout: str
    stderr: str

    @property
    def data(self) -> Any:
        """With `--json` there is nothing else on standard output."""
        try:
            return json.loads(self.stdout)
        except ValueError:
            raise AssertionError(f"no JSON: {self}") from None

    @property
    def all(self) -> str:
        return self.stdout + self.stderr


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One iteration: where, of which configuration, and which one."""

    instance: str
    trial: str
    iteration: int


class Land:
    """`user` is the environment of the user who starts runs."""

    def __init__(self, aws: Mapping[str, str], head: Head, gate: Gate, hypervisor: Hypervisor) -> None:
        self.aws = aws
        self.head = head
        self.gate = gate
        self.hypervisor = hypervisor
        self.image = IMAGE
        access = {"AWS_ACCESS_KEY_ID": "AKIAUSER", "AWS_SECRET_ACCESS_KEY": KEY, "AWS_SESSION_TOKEN": SESSION}
        self.user = {**_plain(), **aws, **access, **head.environment}

    def stored(self) -> list[str]:
        """The keys in the bucket."""
        s3 = client("s3", self.aws)
        with contextlib.closing(s3):
            return [each["Key"] for each in s3.list_objects_v2(Bucket=BUCKET).get("Contents", ())]

    def fetch(self, address: str, to: Path) -> Path:
        s3 = client("s3", self.aws)
        with contextlib.closing(s3):
            s3.download_file(BUCKET, address.removeprefix(f"s3://{BUCKET}/"), str(to))
        return to


class Project:
    """A working folder with a training in it, and the commands that are called there."""

    def __init__(self, land: Land, folder: Path) -> None:
        self.land = land
        self.folder = folder
        self._started: list[subprocess.Popen[str]] = []
        self.marks_folder = folder.parent / f"{folder.name}-marks"
        self.marks_folder.mkdir()
        (folder / "code").mkdir(parents=True)
        (folder / "code" / "train.py").write_text(TRAIN)
        (folder / "code" / "helper.py").write_text(HELPER)
        (folder / "words.txt").write_text("from afar")

    def write_job(
        self,
        *,
        pace: float = 0.1,
        waits: int = 10**6,
        nodes: Mapping[str, int] = FIXED,
        options: Any = None,
        **changes: Any,
    ) -> None:
        """`waits`: from this iteration on, trainings stand still until `go`."""
        land = self.land
        space = {
            "x": {"float": [0.0, 1.0]},
            "marks": {"choice": [str(self.marks_folder)]},
            "pace": {"choice": [pace]},
            "waits": {"choice": [waits]},
        }
        known = {
            "instance_type": "c5.large",
            "image": land.image,
            "region": REGION,
            "head": land.head.address,
            "token_secret": SECRET,
            "preinstalled": True,
            "python": land.head.python,
            **(options or {}),
        }
        job = {
            "name": "afar",
            "trainable": "code/train.py:train",
            "space": space,
            "metric": "score",
            "search": {
                "algorithm": "sha", "trials": 4, "min_iterations": 1, "max_iterations": 4, "eta": 2,
            },
            "deadline": "30m",
            "budget": 2.0,
            "profile": {"iteration": pace, "startup": 0.1, "save": 0.2},
            "storage": f"s3://{BUCKET}/runs",
            "cluster": {
                "provider": "ec2", "slots_per_node": 1, "init": SLOW_BOOT_S, **nodes, "options": known,
            },
            **changes,
        }  # fmt: skip
        (self.folder / "job.yaml").write_text(yaml.safe_dump(job))

    def go(self) -> None:
        (self.marks_folder / "go").touch()

    def marks(self) -> list[Mark]:
        path = self.marks_folder / "all"
        lines = path.read_text().splitlines() if path.exists() else []
        words = (line.split() for line in lines)
        return [Mark(instance=where, trial=trial, iteration=int(done)) for where, trial, done in words]

    @property
    def run_folder(self) -> Path:
        (found,) = (self.folder / "elastune-runs").iterdir()
        return found

    def start(self, *arguments: str, **environment: str | None) -> subprocess.Popen[str]:
        """What the user types, in the working folder. None takes a variable away."""
        changed = {**self.land.user, **environment}
        command = subprocess.Popen(
            [sys.executable, "-m", "elastune", *arguments],
            env={name: value for name, value in changed.items() if value is not None},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(command)
        return command

    def say(self, *arguments: str, **environment: str | None) -> Said:
        return hear(self.start(*arguments, **environment))

    def close(self) -> None:
        """No command outlives its test."""
        for command in self._started:
            command.kill()
            command.communicate()


def hear(command: subprocess.Popen[str]) -> Said:
    """To its end."""
    out, err = command.communicate(timeout=PATIENCE_S)
    return Said(returncode=command.returncode, stdout=out, stderr=err)


def until(holds: Callable[[], object], command: subprocess.Popen[str] | None = None) -> None:
    """Wait for it, as long as the command that should bring it about is at work."""

    def holds_or_ended() -> object:
        if command is not None and command.poll() is not None:
            raise AssertionError(f"it has ended: {command.communicate()}")
        return holds()

    wait_until(holds_or_ended, every_s=0.05)


@contextlib.contextmanager
def whole_land() -> Iterator[Land]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with contextlib.ExitStack() as stack:
        aws = stack.enter_context(served_aws(REGION))
        gate = stack.enter_context(Gate(aws["AWS_ENDPOINT_URL"]).open())
        aws |= {"AWS_ENDPOINT_URL_EC2": gate.url, "AWS_ENDPOINT_URL_PRICING": stack.enter_context(_prices())}
        head = stack.enter_context(ray_head())
        for service, verb, arguments in (
            (
                "s3",
                "create_bucket",
                {"Bucket": BUCKET, "CreateBucketConfiguration": {"LocationConstraint": REGION}},
            ),
            ("secretsmanager", "create_secret", {"Name": SECRET, "SecretString": head.token}),
        ):
            with contextlib.closing(client(service, aws)) as made:
                getattr(made, verb)(**arguments)
        role = {**_plain(), **aws, "AWS_ACCESS_KEY_ID": "AKIAROLE", "AWS_SECRET_ACCESS_KEY": "of-the-role"}
        hypervisor = stack.enter_context(Hypervisor(role).watching())
        gate.console = lambda instance: hypervisor.machines[instance].console()
        yield Land(aws, head, gate, hypervisor)


@contextlib.contextmanager
def _prices() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        known = Prices(on_demand={("c5.large", REGION): USD_PER_HOUR})
        with serving(known, patch):
            address = os.environ["AWS_ENDPOINT_URL"]
            patch.undo()
            yield address


def _plain() -> dict[str, str]:
    """This process's environment, without access to anything."""
    strange = ("AWS_", "RAY_", "PYTEST_")
    return {name: value for name, value in os.environ.items() if not name.startswith(strange)}
