"""What opens doors is found nowhere: not in what a run keeps, prints, launches or complains about."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml

from tests.cli.commands import elastune
from tests.clouds.hypervisor import REGION, client, tags_of
from tests.clouds.land import BUCKET, KEY, SESSION, Project

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:botocore", "ignore::ResourceWarning")
ENCODED = "4sKnZq3-" * 100
DENIED = (
    "You are not authorized to perform this operation. User: arn:aws:iam::123456789012:user/me is not "
    "authorized to perform: ec2:RunInstances on resource: arn:aws:ec2:us-west-2:123456789012:instance/*. "
    f"Encoded authorization failure message: {ENCODED}"
)


def secrets_of(project: Project) -> list[str]:
    secrets = [KEY, SESSION, project.land.head.token]
    return [*secrets, *(quote(each, safe="") for each in secrets)]


def kept_by(project: Project) -> Iterator[tuple[str, bytes]]:
    """Everything that a run leaves behind, here and there."""
    land = project.land
    for path in project.folder.rglob("*"):
        if path.is_file():
            yield str(path), path.read_bytes()
    land.hypervisor.wait_for_logs(land.hypervisor.machines)
    for each in land.hypervisor.instances():
        id_ = each["InstanceId"]
        yield f"user data of {id_}", land.hypervisor.user_data(id_).encode()
        yield f"tags of {id_}", repr(tags_of(each)).encode()
    for id_, machine in land.hypervisor.machines.items():
        for name, text in machine.logs.items():
            yield f"log {name} of {id_}", text.encode()
    with contextlib.closing(client("s3", land.aws)) as s3:
        for key in land.stored():
            yield f"s3 {key}", s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()


def assert_no_secret(project: Project, **said: str) -> None:
    """In what a run with a report has kept, and in what commands said."""
    kept = list(kept_by(project))
    names = {Path(name).name for name, _ in kept}
    assert {"job.yaml", "plan.json", "journal.sqlite", "index.html"} <= names
    assert any(name.startswith("user data") for name in names)
    for name, data in (*kept, *((name, text.encode()) for name, text in said.items())):
        assert not [each for each in secrets_of(project) if each.encode() in data], f"a secret is in {name}"


@pytest.mark.slow  # by default `test_a_run_from_quote_to_final_check` looks for them, in a run with --json
def test_a_run_keeps_and_tells_no_secret(project: Project) -> None:
    project.write_job()
    run = project.say("run", "job.yaml", "--no-check", "--yes", "--plain")
    assert run.returncode == 0, run.all
    report = project.say("report", "last")
    assert report.returncode == 0, report.all
    nodes = project.say("nodes", "--region", REGION, "--json")
    assert_no_secret(project, run=run.all, report=report.all, nodes=nodes.all)


@pytest.mark.slow  # a whole run; by default the test of this name in `providers/ec2/test_api.py` finds it
def test_a_refusal_is_told_without_what_is_meant_for_administrators(project: Project) -> None:
    land = project.land
    land.gate.fault = lambda call: (
        ("UnauthorizedOperation", DENIED) if call["Action"] == "RunInstances" else None
    )
    project.write_job()
    said = project.say("run", "job.yaml", "--no-check", "--yes", "--json")
    assert said.returncode == 4
    assert "is not authorized to perform: ec2:RunInstances on resource" in said.data["message"]
    assert "ncoded" not in said.all
    assert not [each for each in (*secrets_of(project), ENCODED[:20]) if each in said.all]


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_key_in_the_job_is_refused_and_not_repeated(tmp_path: Path, command: str) -> None:
    job = {
        "trainable": "train.py:train",
        "metric": "score",
        "search": {"algorithm": "sha", "trials": 2, "max_iterations": 2},
        "deadline": "5m",
        "profile": {"iteration": "1s"},
        "cluster": {
            "provider": "ec2",
            "slots_per_node": 1,
            "options": {"instance_type": "c5.large", "image": "ami-0", "aws_secret_access_key": KEY},
        },
    }
    (tmp_path / "train.py").write_text("def train(config, worker, state):\n    yield {'score': 1.0}, dict\n")
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    for options in ([], ["--json"]):
        said = elastune(command, "job.yaml", *options, cwd=tmp_path)
        shown = said.stdout + said.stderr
        assert said.returncode == 2
        assert "cluster.options.aws_secret_access_key is no option of ec2" in " ".join(shown.split())
        assert KEY not in shown
