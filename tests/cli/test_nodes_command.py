"""`elastune nodes`, against an EC2 that runs on this machine."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elastune.model.quantities import duration
from elastune.providers.ec2.calls import EXPIRY, JOB, OWNER, PRICE, RUN
from tests.aws import IMAGE, served_aws
from tests.cli.commands import Done, elastune

boto3 = pytest.importorskip("boto3")
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def aws() -> Iterator[dict[str, str]]:
    with served_aws("eu-north-1") as environment:
        yield environment


@pytest.fixture
def ec2(aws: dict[str, str]) -> Iterator[Any]:
    """With nothing in it."""
    client = boto3.client(
        "ec2",
        endpoint_url=aws["AWS_ENDPOINT_URL"],
        region_name=aws["AWS_DEFAULT_REGION"],
        aws_access_key_id=aws["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=aws["AWS_SECRET_ACCESS_KEY"],
    )
    yield client
    found = [
        each["InstanceId"]
        for group in client.describe_instances()["Reservations"]
        for each in group["Instances"]
    ]
    if found:
        client.terminate_instances(InstanceIds=found)


def start(client: Any, *, lease_s: float | None = 600.0, run: str = "f0f0f0") -> str:
    tags = {RUN: run, JOB: "digits", OWNER: "me", PRICE: "0.526"}
    if lease_s is not None:
        tags[EXPIRY] = str(int(time.time() + lease_s))
    answer = client.run_instances(
        ImageId=IMAGE,
        InstanceType="g4dn.xlarge",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[
            {
                "ResourceType": "instance",
                "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
            }
        ],
    )
    name: str = answer["Instances"][0]["InstanceId"]
    return name


def states(client: Any) -> dict[str, str]:
    return {
        each["InstanceId"]: each["State"]["Name"]
        for group in client.describe_instances()["Reservations"]
        for each in group["Instances"]
    }


def nodes(*arguments: str, cwd: Path, aws: dict[str, str], columns: int = 160) -> Done:
    return elastune("nodes", "--provider", "ec2", *arguments, cwd=cwd, columns=columns, **aws)


def test_what_is_alive_is_listed_and_orphans_are_named(ec2: Any, aws: dict[str, str], tmp_path: Path) -> None:
    foreign, over = start(ec2), start(ec2, lease_s=-60.0)
    done = nodes(cwd=tmp_path, aws=aws)
    assert done.returncode == 0
    since = re.search(rf"orphan {over}: its lease ended (\S+) ago", done.stdout)
    assert since is not None
    assert duration(since[1]) >= 60.0
    assert f"orphan {foreign}" not in done.stdout
    assert "2 nodes running, $1.05 per hour; 1 orphan, $0.53 per hour" in done.stdout
    for word in ("f0f0f0", "digits", "me", "g4dn.xlarge on-demand", "running", "$0.53", "over"):
        assert word in done.stdout
    assert aws["AWS_SECRET_ACCESS_KEY"] not in done.stdout + done.stderr
    assert states(ec2)[over] == "running"


def test_a_sweep_ends_the_orphans_alone(ec2: Any, aws: dict[str, str], tmp_path: Path) -> None:
    foreign, over, without = start(ec2), start(ec2, lease_s=-60.0), start(ec2, lease_s=None)
    done = nodes("--sweep", "--yes", cwd=tmp_path, aws=aws)
    assert done.returncode == 0, done.stdout
    assert "2 orphans ended; a new listing shows none of them" in " ".join(done.stdout.split())
    found = states(ec2)
    assert (found[foreign], found[over], found[without]) == ("running", "terminated", "terminated")
    again = json.loads(nodes("--sweep", "--yes", "--json", cwd=tmp_path, aws=aws).stdout)
    assert (again["ended"], again["left"]) == ([], [])
    assert [node["node"] for node in again["nodes"]] == [foreign]
    assert again["nodes"][0]["orphan"] is None


def test_nobody_to_be_asked_means_no(ec2: Any, aws: dict[str, str], tmp_path: Path) -> None:
    over = start(ec2, lease_s=-60.0)
    done = nodes("--sweep", cwd=tmp_path, aws=aws)
    assert done.returncode == 2
    assert "there is no terminal to confirm on; pass --yes" in " ".join(done.stderr.split())
    assert states(ec2)[over] == "running"


def test_another_region_is_another_list(ec2: Any, aws: dict[str, str], tmp_path: Path) -> None:
    start(ec2)
    done = nodes("--region", "ap-south-1", cwd=tmp_path, aws=aws)
    assert (done.returncode, done.stdout.strip()) == (0, "no nodes running")


def test_an_ec2_that_is_not_set_up_is_told_in_one_line(tmp_path: Path) -> None:
    bare = {
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    done = nodes(cwd=tmp_path, aws=bare, columns=40)
    assert done.returncode == 4
    told = [line for line in done.stdout.splitlines() if line.startswith("ec2 could not be listed: no AWS")]
    assert len(told) == 1
    assert nodes("--sweep", "--yes", cwd=tmp_path, aws=bare).returncode == 4  # it was asked for by name


def test_an_ec2_that_does_not_answer_is_no_empty_one(aws: dict[str, str], tmp_path: Path) -> None:
    silent = {**aws, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    done = nodes(cwd=tmp_path, aws=silent)
    assert done.returncode == 4
    assert "ec2 could not be listed: EC2 did not answer" in done.stdout
    assert nodes("--sweep", "--yes", cwd=tmp_path, aws=silent).returncode == 4
