"""The same world behind moto: every call goes through boto3 and over HTTP, what it says comes from moto.

The virtual world decides what fails, when an instance dies and how far a listing lags; moto keeps the
instances, their tags and their states. Both must agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ReadTimeoutError

from elastune.providers.ec2 import broker as broking
from elastune.providers.ec2 import calls as ec2
from elastune.providers.ec2.api import Ec2Api
from elastune.providers.ec2.calls import Ec2Calls, Ec2Options, InstancePhase, Launch, Market, Offering
from tests.aws import IMAGE
from tests.clouds.virtual import Box, VirtualEc2
from tests.providers.ec2.moto_edge import Edge, failed, forward, moto_server, user_data_of

OPTIONS = Ec2Options(instance_type=("p3.8xlarge",), image=IMAGE, region="us-east-1")
_STATES = {
    InstancePhase.PENDING: "pending",
    InstancePhase.RUNNING: "running",
    InstancePhase.ENDING: "shutting-down",
}


@contextmanager
def moto_cloud() -> Iterator[None]:
    """All clients made meanwhile talk to a moto on loopback."""
    with moto_server() as address, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", address)
        patch.setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
        # A listing over HTTP takes a hundred times as long as one in the mind.
        patch.setattr(broking, "BUSY_LOOK_S", 12.0)
        patch.setattr(broking, "_QUIET_LOOK_S", 90.0)
        yield


def through_moto(world: VirtualEc2) -> Ec2Calls:
    """A cloud that asks moto, in this world."""
    api = Ec2Api("us-east-1", OPTIONS)
    client = api._client
    WorldEdge(world).install(client)
    client.meta.events.register("after-call.ec2.DescribeInstances", lambda parsed, **_: _lag(parsed, world))
    client.meta.events.register("after-call.ec2.RunInstances", lambda parsed, **_: _date(parsed, world))
    return api


class WorldEdge(Edge):
    def __init__(self, world: VirtualEc2) -> None:
        super().__init__()
        self.world = world
        self.capacity = world.grants
        self._ended: set[str] = set()

    def _send(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
        try:
            heard = self.world.call()
            answer = super()._send(request)
            self._mirror(answer)
            return self.world.answer(heard, answer)
        except ec2.BusyError:
            return failed(request, 503, "RequestLimitExceeded")
        except ec2.UnsureError:
            raise ReadTimeoutError(endpoint_url=request.url) from None

    def _hear(self, request: AWSPreparedRequest, action: str, arguments: dict[str, str]) -> tuple[int, bytes]:
        self._end_the_dead(request)
        status, body = super()._hear(request, action, arguments)
        self._last = (action, arguments, status, body)
        return status, body

    def _end_the_dead(self, request: AWSPreparedRequest) -> None:
        """Whoever ended by itself in the world has ended for moto, too."""
        now = self.world.wall()
        gone = [id_ for id_, box in self.world.boxes.items() if box.ended <= now and id_ not in self._ended]
        if gone:
            numbered = {f"InstanceId.{number}": id_ for number, id_ in enumerate(gone, 1)}
            status, _ = forward(
                request, {"Action": "TerminateInstances", "Version": "2016-11-15", **numbered}
            )
            assert status == 200
            self._ended.update(gone)

    def _mirror(self, answer: AWSResponse) -> None:
        """What moto did has happened in the world."""
        action, arguments, status, body = self._last
        if status != 200:
            return
        ids = [value for key, value in arguments.items() if key.startswith(("InstanceId.", "ResourceId."))]
        if action == "RunInstances":
            for id_ in _ids(body):
                if id_ not in self.world.boxes:
                    self.world.start(_launch(arguments), id_)
        elif action == "TerminateInstances":
            self.world.end(ids)
            self._ended.update(ids)
        elif action == "CreateTags":
            self.world.retag(ids, float(arguments["Tag.1.Value"]))


def _ids(body: bytes) -> list[str]:
    import re  # noqa: PLC0415

    return re.findall(r"<instanceId>(.*?)</instanceId>", body.decode())


def _launch(arguments: dict[str, str]) -> Launch:
    tags, number = {}, 1
    while f"TagSpecification.1.Tag.{number}.Key" in arguments:
        key = arguments[f"TagSpecification.1.Tag.{number}.Key"]
        tags[key] = arguments[f"TagSpecification.1.Tag.{number}.Value"]
        number += 1
    spot = arguments.get("InstanceMarketOptions.MarketType") == "spot"
    return Launch(
        client_token=arguments["ClientToken"],
        count=int(arguments["MaxCount"]),
        offering=Offering(
            instance_type=arguments["InstanceType"],
            market=Market.SPOT if spot else Market.ON_DEMAND,
            subnet=None,
            usd_per_hour=float(tags[ec2.PRICE]),
        ),
        tags=tags,
        user_data=user_data_of(arguments),
    )


def _date(parsed: dict[str, Any], world: VirtualEc2) -> None:
    for instance in parsed.get("Instances", ()):
        box = world.boxes.get(instance["InstanceId"])
        if box is not None:
            instance["LaunchTime"] = datetime.fromtimestamp(int(box.launched), UTC)


def _lag(parsed: dict[str, Any], world: VirtualEc2) -> None:
    """Moto's answer as it would have been a while ago."""
    as_of = world.listing_as_of()
    for group in parsed.get("Reservations", ()):
        shown = []
        for instance in group["Instances"]:
            box = world.boxes[instance["InstanceId"]]
            _agree(instance, box, world)
            if box.launched <= as_of:
                then = box.listed(as_of)
                instance["LaunchTime"] = datetime.fromtimestamp(int(box.launched), UTC)
                instance["State"] = {"Code": 0, "Name": _STATES.get(then.phase, "terminated")}
                instance["Tags"] = [{"Key": key, "Value": value} for key, value in then.tags.items()]
                shown.append(instance)
        group["Instances"] = shown


def _agree(instance: dict[str, Any], box: Box, world: VirtualEc2) -> None:
    """The two worlds are one."""
    tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    assert tags[ec2.EXPIRY] == box.tags[-1][1][ec2.EXPIRY], (tags, box)
    over = instance["State"]["Name"] in {"terminated", "shutting-down"}
    assert over == (box.ended <= world.wall()), (instance["State"], box)
