"""EC2 itself, through boto3. Every answer is turned into a value or into one of the errors of `cloud.py`."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from elastune.errors import JobError
from elastune.providers.ec2 import calls as ec2
from elastune.providers.ec2.calls import CloudError, Ec2Options, Instance, InstancePhase, Launch, Market

T = TypeVar("T")

_ELSEWHERE = {
    "InsufficientCapacity",
    "InsufficientFreeAddressesInSubnet",
    "InsufficientCapacityOnHost",
    "InsufficientHostCapacity",
    "InsufficientInstanceCapacity",
    "InsufficientReservedInstanceCapacity",
    "InstanceLimitExceeded",
    "MaxSpotInstanceCountExceeded",
    "NetworkInterfaceLimitExceeded",
    "SpotMaxPriceTooLow",
    "Unsupported",
    "UnsupportedOperation",
    "VcpuLimitExceeded",
    "VolumeLimitExceeded",
}
"""Not here, not now, or not of this kind."""
_BUSY = {
    "EC2ThrottledException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
}
_ALREADY = {"IdempotentParameterMismatch", "IdempotentInstanceTerminated"}
_UNSURE = {
    "ExpiredToken",
    "ExpiredTokenException",
    "InternalError",
    "InternalFailure",
    "PendingVerification",
    "RequestExpired",
    "RequestTimeout",
    "ServiceUnavailable",
    "Unavailable",
}
"""Nothing may have been done, or everything. Expired credentials are renewed by somebody, mostly."""
_UNKNOWN = {"InvalidID", "InvalidInstanceID.Malformed", "InvalidInstanceID.NotFound"}
_PERMITTED = "DryRunOperation"
_ENCODED = re.compile(r"Encoded authorization failure message: \S+")
"""A thousand characters for the account's administrator, who finds them in CloudTrail."""
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


class Ec2Api:
    """`options` are for launching; who only lists and ends instances needs none."""

    def __init__(self, region: str | None = None, options: Ec2Options | None = None) -> None:
        self.skew_s = 0.0
        """By how much this machine's clock is ahead of EC2's, as of the last answer."""
        self._client = make_client("ec2", region)
        self._options = options

    @property
    def region(self) -> str:
        return str(self._client.meta.region_name)

    def check(self, launch: Launch) -> None:
        """Would EC2 launch this? Nothing is. Raises `RefusedError` if a right or a thing is missing."""
        try:
            self._call("run_instances", **self._wording(launch), DryRun=True)
        except CloudError as error:
            if _PERMITTED not in str(error):
                raise

    def console(self, instance: str) -> str:
        """What an instance wrote to its console, as far as EC2 has it; that may take minutes."""
        answer = self._call("get_console_output", InstanceId=instance)
        return str(answer.get("Output") or "")

    def launch(self, launch: Launch) -> tuple[Instance, ...]:
        answer = self._call("run_instances", **self._wording(launch))
        return tuple(_read(each) for each in answer["Instances"])

    def instances(self, run: str | None = None) -> tuple[Instance, ...]:
        of = {"Name": "tag-key", "Values": [ec2.RUN]}
        if run is not None:
            of = {"Name": f"tag:{ec2.RUN}", "Values": [run]}
        found: list[Instance] = []
        more: dict[str, Any] = {}
        while True:
            answer = self._call("describe_instances", Filters=[of], MaxResults=_MOST_PER_CALL, **more)
            found += [_read(each) for group in answer["Reservations"] for each in group["Instances"]]
            if not answer.get("NextToken"):
                return tuple(found)
            more = {"NextToken": answer["NextToken"]}

    def terminate(self, instances: Collection[str]) -> None:
        self._one_by_one(instances, lambda ids: self._call("terminate_instances", InstanceIds=ids))

    def put_off(self, instances: Collection[str], expires: float) -> None:
        tags = [{"Key": ec2.EXPIRY, "Value": str(int(expires))}]
        self._one_by_one(instances, lambda ids: self._call("create_tags", Resources=ids, Tags=tags))

    def _one_by_one(self, instances: Collection[str], call: Callable[[list[str]], object]) -> None:
        """All at once; if EC2 does not know one of them, it does nothing for all, so then each by itself.

        `BusyError`: some are not known, or not yet. All others were served.
        """
        ids = list(instances)
        if not ids:
            return
        try:
            call(ids)
        except _UnknownError as unknown:
            error: _UnknownError | None = unknown
        else:
            return
        for id_ in ids if len(ids) > 1 else ():
            try:
                call([id_])
            except _UnknownError as unknown:
                error = unknown
        raise ec2.BusyError(str(error))

    def _wording(self, launch: Launch) -> dict[str, Any]:
        """The same launch is always worded in the same way, as its client token demands."""
        options, offering = self._options, launch.offering
        if options is None:
            raise JobError("instances are launched with the options of a job; this is for looking only")
        tags = [{"Key": key, "Value": value} for key, value in sorted(launch.tags.items())]
        wording: dict[str, Any] = {
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
            wording["InstanceMarketOptions"] = {
                "MarketType": "spot",
                "SpotOptions": {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"},
            }
            if offering.most_usd_per_hour is not None:
                most = f"{offering.most_usd_per_hour:.6f}"
                wording["InstanceMarketOptions"]["SpotOptions"]["MaxPrice"] = most
        if offering.subnet is not None:
            wording["SubnetId"] = offering.subnet
        if options.security_group:
            wording["SecurityGroupIds"] = list(options.security_group)
        if options.key is not None:
            wording["KeyName"] = options.key
        if options.instance_profile is not None:
            kind = "Arn" if options.instance_profile.startswith("arn:") else "Name"
            wording["IamInstanceProfile"] = {kind: options.instance_profile}
        if options.disk_gb is not None:
            disk = {"VolumeSize": options.disk_gb, "VolumeType": "gp3", "DeleteOnTermination": True}
            wording["BlockDeviceMappings"] = [{"DeviceName": self._root_device(), "Ebs": disk}]
        return wording

    def _root_device(self) -> str:
        assert self._options is not None
        images = self._call("describe_images", ImageIds=[self._options.image])["Images"]
        if not images:
            raise ec2.RefusedError(f"EC2 shows no image {self._options.image}")
        return str(images[0]["RootDeviceName"])

    def _compare_clocks(self, answer: Mapping[str, Any]) -> None:
        told = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        with contextlib.suppress(TypeError, ValueError):
            self.skew_s = time.time() - parsedate_to_datetime(told).timestamp()

    def _call(self, verb: str, **arguments: Any) -> Any:
        from botocore.exceptions import (  # noqa: PLC0415  heavy
            BotoCoreError,
            ClientError,
            NoCredentialsError,
            ParamValidationError,
            PartialCredentialsError,
        )
        from botocore.parsers import ResponseParserError  # noqa: PLC0415

        try:
            answer = getattr(self._client, verb)(**arguments)
        except ClientError as error:
            raise _translated(error.response) from None
        except (NoCredentialsError, PartialCredentialsError) as error:
            raise ec2.RefusedError(
                f"EC2 cannot be asked: {error}; give this machine a role, or run `aws configure`"
            ) from None
        except ParamValidationError as error:
            raise ec2.RefusedError(f"EC2 cannot be asked: {error}") from None
        except BotoCoreError as error:
            raise ec2.UnsureError(f"EC2 did not answer: {error}") from None
        except ResponseParserError:  # which is no error of botocore's family
            raise ec2.UnsureError(
                "EC2 did not answer: somebody else did, in words that are not its"
            ) from None
        except Exception as error:  # noqa: BLE001  botocore raises RuntimeErrors, too, for credentials say
            raise ec2.UnsureError(f"EC2 could not be asked: {error!r}") from None
        self._compare_clocks(answer)
        return answer


def make_client(service: str, region: str | None) -> Any:
    """Calls are repeated by whoever makes them, who knows what is safe to repeat."""
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
    """EC2 knows no such instance (any more, or yet)."""


def _translated(response: Mapping[str, Any]) -> CloudError:
    told = response.get("Error", {})
    code, message = str(told.get("Code", "")), _ENCODED.sub("", str(told.get("Message", ""))).strip()
    text = f"{code}: {message}" if message else code
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _ELSEWHERE:
        return ec2.NoCapacityError(text)
    if code in _BUSY:
        return ec2.BusyError(text)
    if code in _ALREADY:
        return ec2.AlreadyLaunchedError(text)
    if code in _UNKNOWN:
        return _UnknownError(text)
    if code in _UNSURE or status >= 500:
        return ec2.UnsureError(text)
    return ec2.RefusedError(f"EC2 refuses: {text}")


def _read(told: Mapping[str, Any]) -> Instance:
    launched: datetime = told["LaunchTime"]
    reason = told.get("StateReason", {}).get("Message") or told.get("StateTransitionReason") or ""
    return Instance(
        id=told["InstanceId"],
        phase=_PHASES.get(told["State"]["Name"], InstancePhase.RUNNING),
        launched=launched.timestamp(),
        instance_type=told.get("InstanceType", ""),
        market=Market.SPOT if told.get("InstanceLifecycle") == "spot" else Market.ON_DEMAND,
        tags={tag["Key"]: tag["Value"] for tag in told.get("Tags", ())},
        zone=told.get("Placement", {}).get("AvailabilityZone", ""),
        private_ip=told.get("PrivateIpAddress"),
        client_token=told.get("ClientToken", ""),
        reason=str(reason),
    )
