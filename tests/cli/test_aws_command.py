"""`elastune aws`: a template for CloudFormation, and a check of what a job names, on a model of AWS."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.aws import IMAGE, served_aws
from tests.cli.commands import elastune
from tests.docs.commands import ROOT

boto3 = pytest.importorskip("boto3")
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
REGION = "eu-north-1"
JOB: dict[str, Any] = {
    "search": {"algorithm": "sha", "trials": 8, "max_iterations": 9},
    "profile": {"iteration": "20s"},
    "storage": "s3://no-such-bucket-of-elastune/x",
    "cluster": {
        "provider": "ec2",
        "slots_per_node": 4,
        "price_per_hour": 1,
        "options": {"instance_type": "c6i.2xlarge", "image": IMAGE, "region": REGION},
    },
}


@pytest.fixture(scope="module")
def aws() -> Iterator[dict[str, str]]:
    with served_aws(REGION) as environment:
        yield environment


def check(folder: Path, aws: dict[str, str], storage: str | None = None, **options: Any) -> dict[str, Any]:
    job = json.loads(json.dumps(JOB))
    job["cluster"]["options"] |= options
    job["storage"] = storage or job["storage"]
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(job), encoding="utf-8")
    done = elastune("aws", "check", path, "--json", cwd=folder, columns=100, **aws)
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if found["complete"] else 4)
    return found


def test_init_writes_a_template_and_says_what_to_do(tmp_path: Path) -> None:
    done = elastune("aws", "init", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Nothing is created before you give it to AWS" in done.stdout
    written = (tmp_path / "elastune-stack.yaml").read_text(encoding="utf-8")
    assert elastune("aws", "init", "-", cwd=tmp_path).stdout == written
    again = elastune("aws", "init", cwd=tmp_path)
    assert again.returncode == 2
    assert "exists already; expected another name, or --force" in again.stderr
    assert elastune("aws", "init", "--force", cwd=tmp_path).returncode == 0
    assert elastune("aws", "init", "no/such/folder.yaml", cwd=tmp_path).returncode == 2


@pytest.mark.slow  # cfn-lint reads the specification of all services
def test_the_template_has_no_fault_that_cfn_lint_finds(tmp_path: Path) -> None:
    api = pytest.importorskip("cfnlint.api")
    text = elastune("aws", "init", "-", cwd=tmp_path).stdout
    assert api.lint(text, regions=["us-east-1"]) == []


def test_the_template_gives_the_rights_of_the_page_and_no_others(tmp_path: Path) -> None:
    """What docs/aws.md grants by hand."""
    text = elastune("aws", "init", "-", cwd=tmp_path).stdout
    page = (ROOT / "docs" / "aws.md").read_text(encoding="utf-8")
    actions = r"\b(?:ec2|iam|s3|secretsmanager|pricing|sts):[A-Z]\w+"
    assert set(re.findall(actions, text)) <= set(re.findall(actions, page))
    needed = set(re.findall(r'"((?:ec2|iam|s3|secretsmanager|pricing):[A-Z]\w+)"', page)) - {
        "ec2:InstanceType"
    }
    needed -= {name for name in needed if name.split(":")[1] in {"Owner", "CreateAction", "PassedToService"}}
    assert needed <= set(re.findall(actions, text))


def test_check_tells_what_is_missing(tmp_path: Path, aws: dict[str, str]) -> None:
    found = check(tmp_path, aws, subnet="subnet-0123456789abcdef0", image="ami-00000000000000000")
    verdicts = {each["what"]: each["verdict"] for each in found["findings"]}
    assert verdicts["credentials"] == "ok"
    assert verdicts["image ami-00000000000000000"] == "missing"
    assert verdicts["subnet subnet-0123456789abcdef0"] == "missing"
    assert verdicts["token"] == "missing"
    assert verdicts["instance profile"] == "missing"
    assert not found["complete"]


def test_check_finds_what_is_there(tmp_path: Path, aws: dict[str, str]) -> None:
    session = boto3.Session(
        aws_access_key_id=aws["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=aws["AWS_SECRET_ACCESS_KEY"],
        region_name=REGION,
    )
    ec2 = session.client("ec2", endpoint_url=aws["AWS_ENDPOINT_URL"])
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    group = ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]
    image = ec2.describe_images()["Images"][0]["ImageId"]
    secrets = session.client("secretsmanager", endpoint_url=aws["AWS_ENDPOINT_URL"])
    secrets.create_secret(Name="elastune/ray-token", SecretString="hush")
    given = {"subnet": subnet, "security_group": group, "image": image, "token_secret": "elastune/ray-token"}
    found = check(tmp_path, aws, **given)
    verdicts = {each["what"].split()[0]: each["verdict"] for each in found["findings"]}
    assert {name: verdicts[name] for name in ("image", "subnet", "security", "secret")} == {
        "image": "ok", "subnet": "ok", "security": "ok", "secret": "ok"
    }  # fmt: skip
    assert "hush" not in json.dumps(found)


def test_check_is_for_jobs_on_ec2(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    text = "search: {algorithm: sha, trials: 8, max_iterations: 9}\nprofile: {iteration: 1s}\n"
    path.write_text(text, encoding="utf-8")
    done = elastune("aws", "check", path, cwd=tmp_path)
    assert done.returncode == 2
    assert "cluster.provider is local; expected ec2" in done.stderr
