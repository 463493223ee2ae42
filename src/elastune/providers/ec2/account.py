"""What an AWS account needs for runs: the template that makes it, and a check of what a job names.

Nothing is created here: the user gives the template to CloudFormation.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Any

from elastune.errors import JobError
from elastune.providers.ec2.calls import Ec2Options
from elastune.providers.ec2.prices import region_of

STACK = "elastune"
_MISSING = ("NotFound", "NoSuch", "404", "ResourceNotFound", "Malformed", "Invalid")
_FORBIDDEN = ("AccessDenied", "Unauthorized", "403", "Forbidden", "ExpiredToken", "SignatureDoesNotMatch")


def stack_template() -> str:
    """For CloudFormation, as YAML."""
    return (files(__package__) / "scripts" / "stack.yaml").read_text(encoding="utf-8")


def describe_next(path: str) -> str:
    """What to do with the template."""
    return "\n".join(
        (
            f"{path} is a CloudFormation template. Nothing is created before you give it to AWS:",
            "",
            f"  aws cloudformation create-stack --stack-name {STACK} --capabilities CAPABILITY_IAM \\",
            f"    --template-body file://{path} --parameters ParameterKey=Vpc,ParameterValue=vpc-... \\",
            "    'ParameterKey=Subnets,ParameterValue=\"subnet-...,subnet-...\"'",
            "",
            f"  aws cloudformation describe-stacks --stack-name {STACK} --query 'Stacks[0].Outputs'",
            "",
            "Its outputs are for cluster.options and storage of a job. The head costs money while it is on.",
        )
    )


class FindingState(enum.StrEnum):
    OK = "ok"
    MISSING = "missing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountFinding:
    what: str
    verdict: FindingState
    detail: str = ""

    def to_dict(self) -> dict[str, str]:
        return {"what": self.what, "verdict": self.verdict.value, "detail": self.detail}


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountReport:
    findings: tuple[AccountFinding, ...]

    @property
    def is_complete(self) -> bool:
        return all(each.verdict is FindingState.OK for each in self.findings)

    def to_dict(self) -> dict[str, object]:
        return {"complete": self.is_complete, "findings": [each.to_dict() for each in self.findings]}


def check_account(options: Mapping[str, Any], storage: str | None) -> AccountReport:
    """Whether what a job names exists in the account, as far as the present credentials may see it."""
    try:
        import boto3  # noqa: PLC0415
    except ImportError:
        raise JobError("aws check needs boto3; pip install 'elastune[aws]'") from None
    parsed = Ec2Options.parse(options)
    region = region_of(parsed.region)
    if region is None:
        raise JobError("no region is known; expected cluster.options.region, or AWS_DEFAULT_REGION")
    session = boto3.Session(region_name=region)
    return AccountReport(findings=tuple(_check(session, parsed, storage)))


def _check(session: Any, options: Ec2Options, storage: str | None) -> Iterator[AccountFinding]:
    identity = _find("credentials", lambda: session.client("sts").get_caller_identity()["Arn"])
    yield identity
    if identity.verdict is not FindingState.OK:
        return
    ec2 = session.client("ec2")
    yield _find(
        f"image {options.image}",
        lambda: _first(ec2.describe_images(ImageIds=[options.image])["Images"], "Name"),
    )
    for subnet in options.subnet:
        yield _find(f"subnet {subnet}", partial(_zone_of, ec2, subnet))
    for group in options.security_group:
        yield _find(f"security group {group}", partial(_group_of, ec2, group))
    if options.token_secret is not None:
        secret = options.token_secret
        yield _find(
            f"secret {secret}",
            lambda: session.client("secretsmanager").describe_secret(SecretId=secret)["Name"],
        )
    else:
        yield AccountFinding(
            what="token",
            verdict=FindingState.MISSING,
            detail="cluster.options.token_secret: Ray would ask for none",
        )
    yield from _check_profile(session, options)
    yield _check_storage(session, storage)


def _zone_of(ec2: Any, subnet: str) -> str:
    return _first(ec2.describe_subnets(SubnetIds=[subnet])["Subnets"], "AvailabilityZone")


def _group_of(ec2: Any, group: str) -> str:
    return _first(ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"], "GroupName")


def _check_profile(session: Any, options: Ec2Options) -> Iterator[AccountFinding]:
    if options.instance_profile is None:
        detail = "cluster.options.instance_profile: nodes could not read the token, nor write checkpoints"
        yield AccountFinding(what="instance profile", verdict=FindingState.MISSING, detail=detail)
        return
    name = options.instance_profile.rpartition("/")[2]
    client = session.client("iam")
    yield _find(
        f"instance profile {name}",
        lambda: _first(
            client.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]["Roles"], "RoleName"
        ),
    )


def _check_storage(session: Any, storage: str | None) -> AccountFinding:
    if storage is None or not storage.startswith("s3://"):
        return AccountFinding(
            what="storage",
            verdict=FindingState.MISSING,
            detail="storage of the job; expected s3://bucket/prefix",
        )
    bucket = storage.removeprefix("s3://").partition("/")[0]
    return _find(f"bucket {bucket}", lambda: str(session.client("s3").head_bucket(Bucket=bucket) and bucket))


def _first(found: Any, key: str) -> str:
    if not found:
        raise LookupError("nothing has this name")
    return str(found[0].get(key, ""))


def _find(what: str, look: Callable[[], str]) -> AccountFinding:
    """Messages of AWS may quote what was sent: only their codes are shown."""
    from botocore import exceptions as boto  # noqa: PLC0415

    try:
        return AccountFinding(what=what, verdict=FindingState.OK, detail=look())
    except LookupError as error:
        return AccountFinding(what=what, verdict=FindingState.MISSING, detail=str(error))
    except boto.ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", "an error"))
        is_missing = any(word in code for word in _MISSING) and not any(word in code for word in _FORBIDDEN)
        verdict = FindingState.MISSING if is_missing else FindingState.UNKNOWN
        return AccountFinding(what=what, verdict=verdict, detail=f"AWS answered {code}")
    except (boto.NoCredentialsError, boto.PartialCredentialsError):
        return AccountFinding(what=what, verdict=FindingState.MISSING, detail="there are no AWS credentials")
    except boto.BotoCoreError as error:
        return AccountFinding(
            what=what, verdict=FindingState.UNKNOWN, detail=f"boto3 raised {type(error).__name__}"
        )
