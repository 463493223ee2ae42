"""The page about AWS: rights that suffice and are no more, commands that exist, a listing that is real."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from elastune.providers.ec2 import calls as ec2
from elastune.providers.ec2.calls import Ec2Options
from elastune.providers.ec2.fleet import LEASE_S
from elastune.providers.ec2.prices import USD_PER_HOUR
from tests.aws import IMAGE, served_aws
from tests.cli.commands import elastune
from tests.docs.commands import ROOT

botocore = pytest.importorskip("botocore")
boto3 = pytest.importorskip("boto3")

PAGE = (ROOT / "docs" / "aws.md").read_text(encoding="utf-8")
CODE = ROOT / "src" / "elastune" / "providers" / "ec2"
SERVICES = ("ec2", "pricing", "secretsmanager")
REGION = "eu-west-3"
ACCOUNT = "123456789012"
NODES = "$ elastune nodes --provider ec2"
_SHELL_ONLY = {"query", "output", "region"}
_SHORTHANDS = {
    "authorize-security-group-ingress": {"protocol", "source-group"},
    "run-instances": {"image-id", "subnet-id", "security-group-ids"},
}
"""Options that the command line makes of what the API calls differently."""


def statements(name: str) -> list[dict[str, Any]]:
    (text,) = re.findall(rf"```json {re.escape(name)}\n(.*?)```", PAGE, re.DOTALL)
    found: list[dict[str, Any]] = json.loads(text)["Statement"]
    return found


def listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def allowed(name: str) -> set[str]:
    return {action for each in statements(name) for action in listed(each["Action"])}


def model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)


def calls_in(paths: list[Path]) -> set[str]:
    """Every operation of a service whose Python or shell name stands somewhere in the code."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    words = set(re.findall(r"[a-z]+(?:[_-][a-z]+)+", code))
    return {
        f"{service}:{operation}"
        for service in SERVICES
        for operation in model(service).operation_names
        for snake in [botocore.xform_name(operation)]
        if snake in words or snake.replace("_", "-") in words
    }


def test_the_head_may_do_what_the_code_does() -> None:
    calls = calls_in(sorted(CODE.glob("*.py")))
    assert {"ec2:RunInstances", "ec2:CreateTags", "ec2:TerminateInstances", "pricing:GetProducts"} <= calls
    assert calls <= allowed("head.json"), calls - allowed("head.json")


def test_a_node_may_do_what_its_scripts_do_and_nothing_to_instances() -> None:
    calls = calls_in(sorted((CODE / "scripts").iterdir()))
    assert calls == {"ec2:DescribeTags", "secretsmanager:GetSecretValue"}
    assert {action for action in allowed("node.json") if not action.startswith("s3:")} == calls


@pytest.mark.parametrize("name", ["head.json", "node.json", "trust.json"])
def test_no_right_is_a_wildcard(name: str) -> None:
    assert not [action for action in allowed(name) if "*" in action]


def test_whatever_changes_something_is_bound_to_names_or_to_the_tag() -> None:
    for each in statements("head.json") + statements("node.json"):
        changes = [action for action in listed(each["Action"]) if not re.search(r":(Describe|GetP)", action)]
        assert not changes or "*" not in listed(each["Resource"]), each["Sid"]
    by_name = {each["Sid"]: json.dumps(each.get("Condition", {})) for each in statements("head.json")}
    for sid in ("LaunchTagged", "LaunchWithTaggedDisks", "RenewLeases", "EndOwnInstances", "ReadOwnConsoles"):
        assert ec2.RUN in by_name[sid], sid
    for sid in ("LaunchTagged", "RenewLeases"):
        assert ec2.EXPIRY in by_name[sid], sid
    for action, sids in {
        "ec2:CreateTags": {"TagAtLaunch", "RenewLeases"},
        "ec2:TerminateInstances": {"EndOwnInstances"},
        "iam:PassRole": {"HandOnTheNodesRole"},
    }.items():
        assert sids == {each["Sid"] for each in statements("head.json") if action in listed(each["Action"])}


def test_the_job_of_the_page_is_within_the_rights_of_its_head() -> None:
    job = (ROOT / "examples" / "aws.yaml").read_text(encoding="utf-8")
    whole = json.dumps([statements("head.json"), statements("node.json")])
    for name in ("instance_type", "region", "security_group", "instance_profile", "token_secret"):
        (value,) = re.findall(rf"^    {name}: (\S+)$", job, re.MULTILINE)
        assert value in whole, name
    for subnet in re.findall(r"subnet-\w+", job):
        assert f"subnet/{subnet}" in whole
    (bucket,) = re.findall(r"^storage: s3://(\S+)", job, re.MULTILINE)
    assert f"arn:aws:s3:::{bucket}/*" in whole


def shell_lines() -> list[list[str]]:
    """Every call of the AWS command line on the page."""
    text = "\n".join(re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)).replace("\\\n", " ")
    lines = re.findall(r"(?<!elastune )\baws ([a-z0-9]+ [a-z-]+[^|>)\n]*)", text)
    return [shlex.split(re.sub(r'"\$\(.*', "x", line), comments=True) for line in lines]


def test_every_command_for_aws_exists_with_its_options() -> None:
    checked = 0
    for service, operation, *words in shell_lines():
        if service == "s3" or operation == "start-session":  # of the command line alone
            continue
        if operation == "wait":
            operation = {"image-available": "describe-images"}[words[0]]  # noqa: PLW2901
        found = {botocore.xform_name(name, "-"): name for name in model(service).operation_names}
        assert operation in found, f"aws {service} {operation}"
        shape = model(service).operation_model(found[operation]).input_shape
        members = [] if shape is None else list(shape.members)
        known = {botocore.xform_name(name, "-") for name in members} | _SHELL_ONLY
        known |= _SHORTHANDS.get(operation, set())
        options = {word.removeprefix("--").partition("=")[0] for word in words if word.startswith("--")}
        assert options <= known, f"aws {service} {operation}: {options - known}"
        checked += 1
    assert checked > 15


def test_figures_of_the_page_are_those_of_the_code() -> None:
    assert f"`m6i.large` | ${USD_PER_HOUR['m6i.large']:g} per hour" in PAGE
    assert f"{LEASE_S / 60:g} minutes ahead" in PAGE
    lost = Ec2Options.model_fields["lost_head_after"].default
    assert f"cannot reach it for {lost / 60:g} minutes" in PAGE
    chance = Ec2Options.model_fields["interruptions_per_hour"].default
    assert f"`interruptions_per_hour` ({chance:g} per node" in PAGE


@pytest.fixture
def account() -> Iterator[tuple[dict[str, str], Any]]:
    with served_aws(REGION) as environment:
        client = boto3.client(
            "ec2",
            endpoint_url=environment["AWS_ENDPOINT_URL"],
            region_name=REGION,
            aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        )
        yield environment, client
        found = [each for group in client.describe_instances()["Reservations"] for each in group["Instances"]]
        client.terminate_instances(InstanceIds=[each["InstanceId"] for each in found])


def launch(client: Any, *, run: str, usd: float, age_s: float, lease_s: float, spot: bool) -> None:
    tags = {ec2.RUN: run, ec2.PRICE: str(usd), ec2.EXPIRY: str(int(time.time() + lease_s))}
    answer = client.run_instances(
        ImageId=IMAGE,
        InstanceType="c6i.2xlarge",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}
        ],
        **({"InstanceMarketOptions": {"MarketType": "spot"}} if spot else {}),
    )
    models = pytest.importorskip("moto.ec2.models")  # seconds to import
    backend = models.ec2_backends[ACCOUNT][REGION]
    since = datetime.now(UTC) - timedelta(seconds=age_s)
    backend.get_instance(answer["Instances"][0]["InstanceId"]).launch_time = f"{since:%Y-%m-%dT%H:%M:%S.000Z}"


def without_chance(text: str) -> list[str]:
    """Ids are drawn, and time goes by."""
    text = re.sub(r"i-[0-9a-f]{17}", "ID", text)
    text = re.sub(r"\b\d+(?:h\d\dm|m\d\ds| m?s|\.\d s)", "TIME", text)
    text = re.sub(r"\$0\.0\d*\b", "$SMALL", text)
    return [" ".join(line.split()) for line in text.strip().splitlines()]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_the_listing_is_what_two_instances_look_like(
    account: tuple[dict[str, str], Any], tmp_path: Path
) -> None:
    environment, client = account
    launch(client, run="3fa2c1", usd=0.13, age_s=840.0, lease_s=560.0, spot=True)
    launch(client, run="77b0aa", usd=0.34, age_s=18_110.0, lease_s=-16_950.0, spot=False)
    done = elastune("nodes", "--provider", "ec2", cwd=tmp_path, columns=100, **environment)
    (shown,) = re.findall(rf"```console\n{re.escape(NODES)}\n(.*?)```", PAGE, re.DOTALL)
    assert without_chance(done.stdout) == without_chance(shown), done.stdout
