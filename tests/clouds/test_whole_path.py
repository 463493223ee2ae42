"""A user's run on EC2, by the user's own commands: instances come, join Ray, train, save to S3 and go."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import Any

import pytest

from elastune.checkpoints.store import load_checkpoint
from elastune.core.events import NodeNoticed
from elastune.providers.ec2.calls import ASKED, EXPIRY, PRICE, REQUEST, RUN
from tests.cli.commands import elastune
from tests.clouds.gate import Fault
from tests.clouds.hypervisor import REGION, tags_of
from tests.clouds.land import USD_PER_HOUR, Project, Said, hear, until
from tests.clouds.test_secrets import assert_no_secret
from tests.runtime.real.drivers import has_happened

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:botocore", "ignore::ResourceWarning")


def list_nodes(project: Project, *options: str) -> Said:
    """`elastune nodes`, in this process: another one takes seconds to start."""
    aws = {name: value for name, value in project.land.user.items() if name.startswith("AWS_")}
    command = ("nodes", "--provider", "ec2", "--region", REGION, "--json", *options)
    done = elastune(*command, cwd=project.folder, columns=100, **aws)
    return Said(returncode=done.returncode, stdout=done.stdout, stderr=done.stderr)


def of_run(project: Project, run: str) -> list[Mapping[str, Any]]:
    return [each for each in project.land.hypervisor.instances() if tags_of(each)[RUN] == run]


def assert_all_gone(project: Project, result: Mapping[str, Any]) -> None:
    """By what the run says, by what EC2 says, and by what the hypervisor knows."""
    assert result["farewell"]["left"] == []
    assert "listing of EC2" in result["farewell"]["how"]
    instances = of_run(project, result["run"])
    assert {each["State"]["Name"] for each in instances} == {"terminated"}
    assert project.land.hypervisor.alive() == []
    project.land.hypervisor.wait_for_logs(each["InstanceId"] for each in instances)


def test_a_run_from_quote_to_final_check(project: Project) -> None:
    land = project.land
    project.write_job(waits=2)
    driver = project.start("run", "job.yaml", "--no-check", "--yes", "--json")
    until(lambda: len({mark.instance for mark in project.marks() if mark.iteration == 2}) == 2, driver)
    during = list_nodes(project).data["nodes"]
    project.go()
    said = hear(driver)
    result = said.data
    assert (said.returncode, result["ending"]) == (0, "complete"), said.all
    assert_all_gone(project, result)

    # A price, and whose it is.
    quote = (project.run_folder / "job.yaml").read_text()
    assert f"price_per_hour: {USD_PER_HOUR}" in quote
    assert f"EC2 on demand, {REGION}, price list of 13 Nov 2026" in quote

    # As many as were asked for, known by their tags, and nothing else.
    instances = of_run(project, result["run"])
    assert len(instances) == 2
    for each in instances:
        tags = tags_of(each)
        assert (tags[REQUEST], tags[ASKED], tags[PRICE]) == ("1", "2", str(USD_PER_HOUR))
        assert land.hypervisor.machines[each["InstanceId"]].logs["console"] == "elastune: ready\n"
    ids = {each["InstanceId"] for each in instances}

    # Listed while they lived.
    assert {each["node"] for each in during} == ids
    for each in during:
        assert each["usd_per_hour"] == USD_PER_HOUR
        assert each["age_seconds"] > 0
        assert 300 < each["lease_seconds"] <= 600
        assert (each["run"], each["orphan"]) == (result["run"], None)
    assert list_nodes(project).data["nodes"] == []

    # What was trained there came back: with the folder that was sent, and from elsewhere.
    assert {mark.instance for mark in project.marks()} == ids
    model = load_checkpoint(land.fetch(result["best"]["checkpoint"], project.folder.parent / "best.ckpt"))
    assert (model["done"], model["words"]) == (4, "from afar")
    assert not model["cwd"].startswith(str(project.folder))
    assert not list(project.run_folder.rglob("*.ckpt"))

    # What opens doors is nowhere.
    done = {name: elastune(name, "last", cwd=project.folder) for name in ("report", "status")}
    assert all(each.returncode == 0 for each in done.values()), done
    shown = {name: each.stdout + each.stderr for name, each in done.items()}
    assert_no_secret(project, run=said.all, nodes=list_nodes(project).all, **shown)


@pytest.mark.slow  # a driver that takes over looks for half a minute before it launches anything
def test_a_driver_is_killed_its_instances_end_at_their_lease_and_the_run_goes_on(project: Project) -> None:
    project.write_job(
        waits=8,
        search={"algorithm": "sha", "trials": 2, "min_iterations": 4, "max_iterations": 24, "eta": 2},
        nodes={"max_nodes": 2},
    )
    hypervisor = project.land.hypervisor
    driver = project.start("run", "job.yaml", "--no-check", "--yes", "--json")
    until(lambda: any(mark.iteration == 8 for mark in project.marks()), driver)
    driver.send_signal(signal.SIGKILL)
    hear(driver)
    project.go()
    orphaned = hypervisor.alive()
    assert {each["node"] for each in list_nodes(project).data["nodes"] if each["orphan"]} == set(orphaned)
    assert orphaned
    assert all(hypervisor.machines[id_].logs == {} for id_ in orphaned)
    hypervisor.shorten_leases(3.0)
    until(lambda: hypervisor.alive() == [])
    hypervisor.wait_for_logs(orphaned)
    for id_ in orphaned:
        assert "the lease has passed: this machine ends" in hypervisor.machines[id_].logs["watch"]
    seen = len(project.marks())

    said = project.say("resume", "last", "--yes", "--json")
    result = said.data
    assert (said.returncode, result["ending"]) == (0, "complete"), said.all
    assert_all_gone(project, result)
    again = project.marks()[seen:]
    assert not {mark.instance for mark in again} & set(orphaned)
    assert min(mark.iteration for mark in again) > 4  # from the checkpoint of the stage before
    assert result["best"]["iterations"] == 24


@pytest.mark.slow  # two nodes boot, one after the other
def test_a_node_with_a_spot_notice_is_left_in_time_and_another_one_comes(project: Project) -> None:
    search = {"algorithm": "sha", "trials": 1, "min_iterations": 30, "max_iterations": 30, "eta": 2}
    project.write_job(pace=0.3, waits=20, search=search, nodes={"max_nodes": 2}, options={"market": "spot"})
    hypervisor = project.land.hypervisor
    driver = project.start("run", "job.yaml", "--no-check", "--yes", "--json")
    until(lambda: len(project.marks()) >= 5, driver)
    noticed = project.marks()[0].instance
    hypervisor.machines[noticed].notice(in_s=600.0)
    until(lambda: has_happened(NodeNoticed, project.folder / "elastune-runs"), driver)
    project.go()
    until(lambda: noticed not in hypervisor.alive(), driver)
    said = hear(driver)
    result = said.data
    assert (said.returncode, result["ending"]) == (0, "complete"), said.all
    assert_all_gone(project, result)
    assert {each["InstanceLifecycle"] for each in of_run(project, result["run"])} == {"spot"}
    instances = list(dict.fromkeys(mark.instance for mark in project.marks()))
    assert instances[0] == noticed
    assert len(instances) == len(of_run(project, result["run"])) == 2
    # Nothing was lost: the model was saved before the node was given up, and is trained no step twice.
    assert [mark.iteration for mark in project.marks()] == list(range(1, 31))


NOBODY: dict[str, str | None] = {
    "AWS_ACCESS_KEY_ID": None,
    "AWS_SECRET_ACCESS_KEY": None,
    "AWS_SESSION_TOKEN": None,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
}
NO_TOKEN = {"RAY_AUTH_MODE": None, "RAY_AUTH_TOKEN_PATH": None}
NO_IMAGE = ("InvalidAMIID.NotFound", "The image id 'ami-0' does not exist")


def refusing(action: str, code: str, message: str) -> Fault:
    return lambda call: (code, message) if call["Action"] == action else None


@pytest.mark.slow  # a few seconds each
@pytest.mark.parametrize(
    ("changes", "environment", "fault", "message"),
    [
        ({}, NOBODY, None, "EC2 cannot be used.*Unable to locate credentials; give this machine"),
        ({}, NO_TOKEN, None, "token_secret is given.*RAY_AUTH_MODE is empty here; expected RAY_AUTH"),
        ({"token_secret": None}, {}, None, "RAY_AUTH_MODE is token.*nodes would have none; expected cluster"),
        ({"head": "127.0.0.2:9"}, {}, None, "nothing answers at '127.0.0.2:9'"),
        ({}, {}, refusing("RunInstances", *NO_IMAGE), "no instance could be launched.*'ami-0' does not"),
        ({}, {}, refusing("DescribeInstances", "AuthFailure", "who?"), "EC2 cannot be used.*AuthFailure"),
    ],
    ids=["no credentials", "no token", "no secret", "no head", "no image", "no right"],
)  # fmt: skip
def test_what_cannot_work_is_told_and_leaves_nothing(
    project: Project,
    changes: Mapping[str, Any],
    environment: Mapping[str, str | None],
    fault: Fault | None,
    message: str,
) -> None:
    project.write_job(options=changes)
    project.land.gate.fault = fault or project.land.gate.fault
    launches = len(project.land.gate.launches)
    said = project.say("run", "job.yaml", "--no-check", "--yes", "--json", **environment)
    assert said.returncode in {2, 4}
    assert re.match(f".*{message}", said.data["message"]), said.all
    assert "Traceback" not in said.stderr
    assert len(project.land.gate.launches) == launches
    assert list((project.folder / "elastune-runs").iterdir()) == []


@pytest.mark.slow  # four boots
def test_nodes_that_end_as_they_boot_end_the_run_before_its_money_is_gone(project: Project) -> None:
    project.write_job(options={"token_secret": "no-such-secret"})
    said = project.say("run", "job.yaml", "--no-check", "--yes", "--json")
    assert said.returncode == 4
    message = said.data["message"]
    assert message.startswith("4 nodes in a row ended while they booted, and more would; the last: i-")
    assert "failed: token: the secret no-such-secret cannot be read: An error occurred (Res" in message
    assert len(project.marks()) == 0


def test_an_orphan_is_listed_and_swept(project: Project) -> None:
    """Its machine never came up, so nothing on it can end it."""
    hypervisor = project.land.hypervisor
    tags = {RUN: "f0f0f0", EXPIRY: "1700000000", PRICE: "0.085"}
    hypervisor.ignores = lambda tags: tags[RUN] == "f0f0f0"
    answer = hypervisor.ec2.run_instances(
        ImageId=project.land.image,
        InstanceType="c5.large",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}
        ],
    )
    orphan = answer["Instances"][0]["InstanceId"]
    (listed,) = list_nodes(project).data["nodes"]
    assert (listed["node"], listed["usd_per_hour"]) == (orphan, 0.085)
    assert listed["lease_seconds"] < 0
    assert listed["orphan"]
    refused = list_nodes(project, "--sweep")
    assert refused.returncode != 0
    assert "--yes" in refused.data["message"]
    assert hypervisor.alive() == [orphan]
    swept = list_nodes(project, "--sweep", "--yes")
    assert (swept.returncode, swept.data["ended"]) == (0, [orphan])
    assert hypervisor.alive() == []
