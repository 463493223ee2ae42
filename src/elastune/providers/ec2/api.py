"""Calls EC2 through boto3. Every answer becomes a value or one of the errors of `calls.py`."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from elastune.errors import JobError
from elastune.providers.ec2 import calls as ec2
from elastune.providers.ec2.calls import CloudError, Ec2Options, Instance, InstancePhase, Launch, Market

_NO_CAPACITY = {
    "InsufficientCapacity", "InsufficientFreeAddressesInSubnet", "InsufficientCapacityOnHost",
    "InsufficientHostCapacity", "InsufficientInstanceCapacity", "InsufficientReservedInstanceCapacity",
    "InstanceLimitExceeded", "MaxSpotInstanceCountExceeded", "NetworkInterfaceLimitExceeded",
    "SpotMaxPriceTooLow", "Unsupported", "UnsupportedOperation", "VcpuLimitExceeded", "VolumeLimitExceeded",
}  # fmt: skip
"""In this zone, at this time, or of this type."""
_BUSY = {
    "EC2ThrottledException", "RequestLimitExceeded", "RequestThrottled", "RequestThrottledException",
    "SlowDown", "Throttling", "ThrottlingException", "TooManyRequestsException",
}  # fmt: skip
_ALREADY = {"IdempotentParameterMismatch", "IdempotentInstanceTerminated"}
_UNSURE = {
    "ExpiredToken", "ExpiredTokenException", "InternalError", "InternalFailure", "PendingVerification",
    "RequestExpired", "RequestTimeout", "ServiceUnavailable", "Unavailable",
}  # fmt: skip
"""The call may or may not have been executed. Expired credentials are usually renewed."""
_UNKNOWN = {"InvalidID", "InvalidInstanceID.Malformed", "InvalidInstanceID.NotFound"}
_PERMITTED = "DryRunOperation"
_ENCODED = re.compile(r"Encoded authorization failure message: \S+")
"""A thousand characters for the account's administrator, also found in CloudTrail."""
_PHASES = {
    "pending": InstancePhase.PENDING,
    "running": InstancePhase.RUNNING,
    "shutting-down": InstancePhase.ENDING,
    "stopping": InstancePhase.STOPPED,
    "stopped": InstancePhase.STOPPED,
    "terminated": InstancePhase.ENDED,
}
_CONNECT_S = 5
_READ_S = 30
_MOST_PER_CALL = 500
_MOST_CHANGED_PER_CALL = 1_000
"""EC2 refuses to tag or to end more at once."""


class Ec2Api:
    """`options` are for launching; listing and ending instances needs none."""

    def __init__(self, region: str | None = None, options: Ec2Options | None = None) -> None:
        self.skew_s = 0.0
        """How far this machine's clock is ahead of EC2's, as of the last answer."""
        self._client = make_client("ec2", region)
        self._options = options

    @property
    def region(self) -> str:
        return str(self._client.meta.region_name)

    def check(self, launch: Launch) -> None:
        """A dry run. Raises `RefusedError` if a right, or what an option names, is missing."""
        try:
            self._call("run_instances", **self._arguments(launch), DryRun=True)
        except CloudError as error:
            if _PERMITTED not in str(error):
                raise

    def console(self, instance: str) -> str:
        """The console output of an instance; EC2 shows it some minutes late."""
        answer = self._call("get_console_output", InstanceId=instance)
        return str(answer.get("Output") or "")

    def launch(self, launch: Launch) -> tuple[Instance, ...]:
        answer = self._call("run_instances", **self._arguments(launch))
        return tuple(_read(each) for each in answer["Instances"])

    def instances(self, run: str | None = None) -> tuple[Instance, ...]:
        wanted = {"Name": "tag-key", "Values": [ec2.RUN]}
        if run is not None:
            wanted = {"Name": f"tag:{ec2.RUN}", "Values": [run]}
        found: list[Instance] = []
        more: dict[str, Any] = {}
        while True:
            answer = self._call("describe_instances", Filters=[wanted], MaxResults=_MOST_PER_CALL, **more)
            found += [_read(each) for group in answer["Reservations"] for each in group["Instances"]]
            if not answer.get("NextToken"):
                return tuple(found)
            more = {"NextToken": answer["NextToken"]}

    def terminate(self, instances: Collection[str]) -> None:
        self._for_all(instances, lambda ids: self._call("terminate_instances", InstanceIds=ids))

    def put_off(self, instances: Collection[str], expires: float) -> None:
        tags = [{"Key": ec2.EXPIRY, "Value": str(int(expires))}]
        self._for_all(instances, lambda ids: self._call("create_tags", Resources=ids, Tags=tags))

    def _for_all(self, instances: Collection[str], call: Callable[[list[str]], object]) -> None:
        """A call for each thousand. EC2 refuses it if one of them is unknown; then one call for each.

        Raises `BusyError` if some are unknown, or not known yet. The call was made for all others.
        """
        ids = list(instances)
        unknown: str | None = None
        for first in range(0, len(ids), _MOST_CHANGED_PER_CALL):
            unknown = _one_by_one(ids[first : first + _MOST_CHANGED_PER_CALL], call) or unknown
        if unknown is not None:
            raise ec2.BusyError(unknown)

    def _arguments(self, launch: Launch) -> dict[str, Any]:
        """Always the same for the same launch, as its client token requires."""
        options, offering = self._options, launch.offering
        if options is None:
            raise JobError("instances are launched with the options of a job, which were not given here")
        tags = [{"Key": key, "Value": value} for key, value in sorted(launch.tags.items())]
        arguments: dict[str, Any] = {
            "ClientToken": launch.client_token,
            "MinCount": 1,
            "MaxCount": launch.count,
            "ImageId": options.image,
            "InstanceType": offering.instance_type,
            "UserData": launch.user_data,
            "InstanceInitiatedShutdownBehavior": "terminate",
            "MetadataOptions": {"HttpTokens": "required", "InstanceMetadataTags": "enabled"},
            "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in ("instance", "volume")],
        }
        if offering.market is Market.SPOT:
            spot = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
            if offering.most_usd_per_hour is not None:
                spot["MaxPrice"] = f"{offering.most_usd_per_hour:.6f}"
            arguments["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": spot}
        if offering.subnet is not None:
            arguments["SubnetId"] = offering.subnet
        if options.security_group:
            arguments["SecurityGroupIds"] = list(options.security_group)
        if options.key is not None:
            arguments["KeyName"] = options.key
        if options.instance_profile is not None:
            kind = "Arn" if options.instance_profile.startswith("arn:") else "Name"
            arguments["IamInstanceProfile"] = {kind: options.instance_profile}
        if options.disk_gb is not None:
            disk = {"VolumeSize": options.disk_gb, "VolumeType": "gp3", "DeleteOnTermination": True}
            arguments["BlockDeviceMappings"] = [{"DeviceName": self._root_device(), "Ebs": disk}]
        return arguments

    def _root_device(self) -> str:
        assert self._options is not None
        images = self._call("describe_images", ImageIds=[self._options.image])["Images"]
        if not images:
            raise ec2.RefusedError(f"EC2 shows no image {self._options.image}")
        return str(images[0]["RootDeviceName"])

    def _compare_clocks(self, answer: Mapping[str, Any]) -> None:
        date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        with contextlib.suppress(TypeError, ValueError):
            self.skew_s = time.time() - parsedate_to_datetime(date).timestamp()

    def _call(self, verb: str, **arguments: Any) -> Any:
        from botocore import exceptions as boto  # noqa: PLC0415  heavy
        from botocore.parsers import ResponseParserError  # noqa: PLC0415

        try:
            answer = getattr(self._client, verb)(**arguments)
        except boto.ClientError as error:
            raise _translated(error.response) from None
        except (boto.NoCredentialsError, boto.PartialCredentialsError) as error:
            raise ec2.RefusedError(
                f"EC2 cannot be asked: {error}; give this machine a role, or run `aws configure`"
            ) from None
        except boto.ParamValidationError as error:
            raise ec2.RefusedError(f"EC2 cannot be asked: {error}") from None
        except boto.BotoCoreError as error:
            raise ec2.UnsureError(f"EC2 did not answer: {error}") from None
        except ResponseParserError:  # not a BotoCoreError
            raise ec2.UnsureError("EC2 did not answer: the answer is not EC2's, a proxy's perhaps") from None
        except Exception as error:  # noqa: BLE001  botocore also raises RuntimeError, for credentials say
            raise ec2.UnsureError(f"EC2 could not be asked: {error!r}") from None
        self._compare_clocks(answer)
        return answer


def make_client(service: str, region: str | None) -> Any:
    """Without retries: the broker repeats a call where that is safe."""
    try:
        import boto3  # noqa: PLC0415
        from botocore.config import Config  # noqa: PLC0415
        from botocore.exceptions import BotoCoreError, NoRegionError  # noqa: PLC0415
    except ImportError:
        raise JobError("EC2 needs boto3; pip install 'elastune[aws]'") from None
    config = Config(
        retries={"total_max_attempts": 1},
        connect_timeout=_CONNECT_S,
        read_timeout=_READ_S,
        tcp_keepalive=True,
    )
    try:
        return boto3.session.Session().client(service, region_name=region, config=config)
    except NoRegionError:
        raise JobError(
            "no AWS region is known; set cluster.options.region (or --region), or AWS_DEFAULT_REGION, or run "
            "`aws configure`"
        ) from None
    except BotoCoreError as error:
        raise JobError(f"AWS cannot be used: {error}") from None


class _UnknownError(ec2.RefusedError):
    """EC2 does not know this instance (any more, or yet)."""


_ERRORS = (
    (_NO_CAPACITY, ec2.NoCapacityError),
    (_BUSY, ec2.BusyError),
    (_ALREADY, ec2.AlreadyLaunchedError),
    (_UNKNOWN, _UnknownError),
    (_UNSURE, ec2.UnsureError),
)


def _translated(response: Mapping[str, Any]) -> CloudError:
    error = response.get("Error", {})
    code, message = str(error.get("Code", "")), _ENCODED.sub("", str(error.get("Message", ""))).strip()
    text = f"{code}: {message}" if message else code
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    default = ec2.UnsureError if status >= 500 else ec2.RefusedError
    kind: type[CloudError] = next((kind for codes, kind in _ERRORS if code in codes), default)
    return kind(f"EC2 refuses: {text}" if kind is ec2.RefusedError else text)


def _read(listed: Mapping[str, Any]) -> Instance:
    launched: datetime = listed["LaunchTime"]
    reason = listed.get("StateReason", {}).get("Message") or listed.get("StateTransitionReason") or ""
    return Instance(
        id=listed["InstanceId"],
        phase=_PHASES.get(listed["State"]["Name"], InstancePhase.RUNNING),
        launched=launched.timestamp(),
        instance_type=listed.get("InstanceType", ""),
        market=Market.SPOT if listed.get("InstanceLifecycle") == "spot" else Market.ON_DEMAND,
        tags={tag["Key"]: tag["Value"] for tag in listed.get("Tags", ())},
        zone=listed.get("Placement", {}).get("AvailabilityZone", ""),
        private_ip=listed.get("PrivateIpAddress"),
        client_token=listed.get("ClientToken", ""),
        reason=str(reason),
    )


def _one_by_one(ids: list[str], call: Callable[[list[str]], object]) -> str | None:
    """Returns what EC2 says if some are unknown."""
    message: str | None = None
    try:
        call(ids)
    except _UnknownError as unknown:
        message = str(unknown)
        for id_ in ids if len(ids) > 1 else ():
            try:
                call([id_])
            except _UnknownError as other:
                message = str(other)
    return message
