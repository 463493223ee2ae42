"""What boto3 sends to EC2 for us, and what becomes of the answers. EC2 is moto, over HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from elastune.errors import JobError
from elastune.providers.ec2 import calls as ec2
from elastune.providers.ec2.api import Ec2Api
from elastune.providers.ec2.calls import CloudError, Ec2Options, InstancePhase, Launch, Market, Offering
from tests.aws import IMAGE
from tests.providers.ec2.moto_edge import Edge, moto_server, user_data_of

WARE = Offering(instance_type="p3.8xlarge", market=Market.ON_DEMAND, subnet=None, usd_per_hour=12.24)
SPOT = replace(WARE, market=Market.SPOT)


@pytest.fixture(scope="module", autouse=True)
def _moto() -> Iterator[None]:
    with moto_server() as address, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", address)
        patch.setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
        yield


@pytest.fixture
def edge() -> Edge:
    return Edge()


def api(edge: Edge, **options: Any) -> Ec2Api:
    given = {"instance_type": "p3.8xlarge", "image": IMAGE, "region": "us-east-1", **options}
    made = Ec2Api("us-east-1", Ec2Options.parse(given))
    edge.install(made._client)
    return made


def launch(run: str, token: str = "t", *, count: int = 2, offering: Offering = WARE) -> Launch:
    tags = {ec2.RUN: run, ec2.REQUEST: "1", ec2.PRICE: "12.24", ec2.EXPIRY: str(int(time.time()) + 600)}
    return Launch(
        client_token=f"{run}-{token}",
        count=count,
        offering=offering,
        tags=tags,
        user_data="#!/bin/bash\ntrue\n",
    )


def test_a_refusal_is_told_without_what_is_meant_for_administrators(edge: Edge) -> None:
    denied = "You are not authorized to perform: ec2:RunInstances."
    edge.fault = lambda action, _: (403, "UnauthorizedOperation") if action == "RunInstances" else None
    edge.message = f"{denied} Encoded authorization failure message: {'4sKnZq3-' * 100}"
    with pytest.raises(CloudError) as refused:
        api(edge).launch(launch("denied"))
    assert str(refused.value) == f"EC2 refuses: UnauthorizedOperation: {denied}"


def test_what_is_launched_is_listed_with_its_tags_and_price(edge: Edge) -> None:
    cloud = api(edge)
    launched = cloud.launch(launch("listed"))
    listed = cloud.instances("listed")
    assert {each.id for each in launched} == {each.id for each in listed}
    assert {each.phase for each in listed} <= {InstancePhase.PENDING, InstancePhase.RUNNING}
    assert {each.usd_per_hour for each in listed} == {12.24}
    assert all(each.expires is not None and each.expires > time.time() for each in listed)
    assert cloud.instances("another") == ()


def test_an_instance_is_safe_from_its_first_moment_on(edge: Edge) -> None:
    """Tagged at launch, with its disk; ends for good when it shuts itself down; metadata need a session."""
    api(edge).launch(launch("safe"))
    ((_, sent),) = [each for each in edge.sent if each[0] == "RunInstances"]
    kinds = {sent[f"TagSpecification.{number}.ResourceType"] for number in (1, 2)}
    assert kinds == {"instance", "volume"}
    assert {key for key, value in sent.items() if value == ec2.EXPIRY}
    assert sent["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert sent["MetadataOptions.HttpTokens"] == "required"
    assert sent["MetadataOptions.InstanceMetadataTags"] == "enabled"
    assert (sent["MinCount"], sent["MaxCount"], sent["ClientToken"]) == ("1", "2", "safe-t")
    assert user_data_of(sent) == "#!/bin/bash\ntrue\n"


def test_options_become_words(edge: Edge) -> None:
    profile = "arn:aws:iam::123456789012:instance-profile/node"
    cloud = api(edge, key="mine", instance_profile=profile, disk_gb=200, security_group="sg-1")
    edge.fault = lambda action, _: (400, "InsufficientInstanceCapacity") if action == "RunInstances" else None
    with pytest.raises(ec2.NoCapacityError):
        cloud.launch(launch("words", offering=replace(SPOT, subnet="subnet-1")))
    _, sent = edge.sent[-1]
    expected = {
        "KeyName": "mine",
        "IamInstanceProfile.Arn": profile,
        "SecurityGroupId.1": "sg-1",
        "SubnetId": "subnet-1",
        "InstanceMarketOptions.MarketType": "spot",
        "InstanceMarketOptions.SpotOptions.SpotInstanceType": "one-time",
        "InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior": "terminate",
        "BlockDeviceMapping.1.Ebs.VolumeSize": "200",
        "BlockDeviceMapping.1.Ebs.DeleteOnTermination": "true",
    }
    assert expected.items() <= sent.items()


def test_the_same_launch_twice_launches_once(edge: Edge) -> None:
    cloud, again = api(edge), launch("once")
    assert {each.id for each in cloud.launch(again)} == {each.id for each in cloud.launch(again)}
    assert len(cloud.instances("once")) == 2
    with pytest.raises(ec2.AlreadyLaunchedError):
        cloud.launch(replace(again, count=1))


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "InsufficientInstanceCapacity", ec2.NoCapacityError),
        (400, "VcpuLimitExceeded", ec2.NoCapacityError),
        (400, "MaxSpotInstanceCountExceeded", ec2.NoCapacityError),
        (400, "Unsupported", ec2.NoCapacityError),
        (503, "RequestLimitExceeded", ec2.BusyError),
        (500, "InternalError", ec2.UnsureError),
        (502, "BadGateway", ec2.UnsureError),
        (403, "UnauthorizedOperation", ec2.RefusedError),
        (400, "InvalidAMIID.NotFound", ec2.RefusedError),
        (401, "AuthFailure", ec2.RefusedError),
    ],
)
def test_every_failure_is_of_a_kind(edge: Edge, status: int, code: str, kind: type[CloudError]) -> None:
    edge.fault = lambda action, arguments: (status, code)
    with pytest.raises(kind, match=code):
        api(edge).launch(launch("fails"))
    assert len(edge.sent) == 1, "boto3 tries nothing again by itself"


def test_no_server_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(ec2.UnsureError, match="did not answer"):
        Ec2Api("us-east-1").instances()


def test_without_credentials_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    with pytest.raises(ec2.RefusedError, match="credentials"):
        Ec2Api("us-east-1").instances()


def test_without_a_region_the_message_says_where_to_put_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    with pytest.raises(JobError, match=r"set cluster\.options\.region"):
        Ec2Api()


def test_the_lease_is_put_off_and_instances_end(edge: Edge) -> None:
    cloud = api(edge)
    ids = [each.id for each in cloud.launch(launch("leased"))]
    cloud.put_off(ids, 2_000_000_000.7)
    assert {each.expires for each in cloud.instances("leased")} == {2_000_000_000.0}
    with pytest.raises(ec2.BusyError, match=r"InvalidInstanceID\.NotFound"):  # it may be too young
        cloud.terminate([ids[0], "i-0123456789abcdef0"])
    phases = {each.id: each.phase for each in cloud.instances("leased")}
    assert phases[ids[0]] in {InstancePhase.ENDING, InstancePhase.ENDED}, (
        "one that EC2 does not know does not keep the others alive"
    )
    assert phases[ids[1]] is InstancePhase.RUNNING
    cloud.terminate(ids)
    cloud.terminate([])
    assert all(
        each.phase in {InstancePhase.ENDING, InstancePhase.ENDED} for each in cloud.instances("leased")
    )


def test_long_listings_are_read_to_the_end(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elastune.providers.ec2.api._MOST_PER_CALL", 5)
    cloud = api(edge)
    for number in range(4):
        cloud.launch(launch("many", f"t{number}", count=3))
    assert len(cloud.instances("many")) == 12


def test_who_only_looks_cannot_launch() -> None:
    with pytest.raises(JobError, match="options of a job"):
        Ec2Api("us-east-1").launch(launch("never"))


def test_a_dry_run_launches_nothing(edge: Edge) -> None:
    cloud = api(edge)
    cloud.check(launch("dry"))
    assert cloud.instances("dry") == ()
    edge.fault = lambda action, arguments: (403, "UnauthorizedOperation")
    with pytest.raises(ec2.RefusedError, match="UnauthorizedOperation"):
        cloud.check(launch("dry"))


@pytest.mark.slow
def test_thousands_of_instances_are_tagged_and_ended_in_calls_of_a_thousand(edge: Edge) -> None:
    """EC2 refuses more at once."""

    def too_many(action: str, arguments: dict[str, str]) -> tuple[int, str] | None:
        ids = sum(name.startswith(("InstanceId.", "ResourceId.")) for name in arguments)
        return (400, "InvalidParameterValue") if ids > 1_000 else None

    edge.fault = too_many
    cloud = api(edge)
    ids = [each.id for each in cloud.launch(launch("large", count=1_001))]
    cloud.put_off(ids, 2_000_000_000.0)
    cloud.terminate(ids)
    found = cloud.instances("large")
    assert len(found) == 1_001
    assert {each.expires for each in found} == {2_000_000_000.0}
    assert {each.phase for each in found} <= {InstancePhase.ENDING, InstancePhase.ENDED}
