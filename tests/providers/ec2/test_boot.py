"""A node's script: what is in it, what is not, and what it does when bash runs it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastune.errors import JobError
from elastune.providers.ec2.boot import USER_DATA_BYTES, render
from elastune.providers.local.processes import KEEP_READABLE
from tests.aws import IMAGE
from tests.clouds.hypervisor import REGION
from tests.clouds.land import Land
from tests.providers.ec2.instances import END, INSTANCE, NOTES, FakeInstance, a_boot, instance
from tests.waiting import PATIENCE_S, wait_until

__all__ = ["instance"]

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:botocore"),
]

NASTY = (
    """echo 'single' "double" `true` $HOME $(true) \\n""",
    "first\nsecond\n\n'third'",
    "#!/bin/bash\n# no comment",
    "cat <<'END'\n$x\nEND",
    ") ; false ; (",
    "é–☃",
    "",
    "-e",
)


def test_the_script_is_bash_with_room_to_spare() -> None:
    script = render(a_boot(setup=NASTY, packages=("torch==2.13.0", "xgboost>=2; sys_platform == 'linux'")))
    assert script.startswith("#!/bin/bash\n")
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    assert len(render(a_boot()).encode()) < USER_DATA_BYTES * 2 / 3


@settings(max_examples=25)
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=4))
def test_all_commands_arrive_as_they_were_written(commands: list[str]) -> None:
    assert arrived((*commands, *NASTY)) == (*commands, *NASTY)


def arrived(setup: tuple[str, ...]) -> tuple[str, ...]:
    header, _, _ = render(a_boot(setup=setup)).partition("\n# ---- Both roles")
    script = header + '\nprintf "%s\\0" "${SETUP[@]}"'
    done = subprocess.run(["bash"], input=script.encode(), capture_output=True, check=True)
    return tuple(done.stdout.decode().split("\0")[:-1])


def test_a_setup_that_is_too_long_is_refused_and_told_by_how_much() -> None:
    room = USER_DATA_BYTES - len(render(a_boot(setup=("x",))).encode())
    render(a_boot(setup=("x" * (room + 1),)))
    with pytest.raises(JobError, match=r"setup and packages are 7 bytes too long.*16,391 bytes.*16,384"):
        render(a_boot(setup=("x" * (room + 8),)))


@pytest.mark.parametrize("option", ["setup", "packages"])
def test_credentials_in_an_address_are_refused(option: str) -> None:
    with pytest.raises(JobError, match=rf"cluster.options.{option} holds an address") as refused:
        render(a_boot(**{option: ("git+https://oauth2:hunter2@example.com/x.git",)}))
    assert "hunter2" not in str(refused.value)
    render(a_boot(**{option: ("git+ssh://git@example.com/x.git", "--find-links=https://example.com/@x")}))


def test_a_zero_byte_is_refused() -> None:
    with pytest.raises(JobError, match="zero byte"):
        render(a_boot(setup=("a\0b",)))


def test_the_switch_is_armed_before_anything_else(instance: FakeInstance) -> None:
    """The machine ends at its first lease even where the setup never comes back."""
    seen = instance.folder / "seen"
    boot = a_boot(
        expires=instance.began + 1770, setup=(f"cp {instance.folder}/shutdown.txt {seen}", "exit 7")
    )
    instance.boot(boot)
    assert seen.read_text() == "--no-wall -P +29\n"
    assert instance.switched == ["--no-wall -P +29", END]


def test_a_setup_command_that_fails_is_told_and_ends_the_machine(instance: FakeInstance) -> None:
    setup = (f"touch {instance.folder}/first", "echo 'no such' disk >&2\nfalse\ntrue", "touch /never")
    done = instance.boot(a_boot(setup=setup))
    assert done.returncode == 1
    assert done.stdout.startswith("elastune: failed: setup: no such disk exit code 1 of: echo 'no such'")
    assert "ready" not in done.stdout
    assert instance.ended
    assert (instance.folder / "first").exists()


def test_all_packages_are_installed_in_one_call_which_is_repeated(instance: FakeInstance) -> None:
    notes = instance.folder / "pip.txt"
    fake = instance.command(
        "python", NOTES.format(notes=notes) + "echo no route to https://me:pw@host/; exit 1\n"
    )
    done = instance.boot(a_boot(python=str(fake), preinstalled=False, packages=("a b",)))
    call = "-m pip install --retries 5 elastune[aws]==0.1.0 ray==2.60.0 a b"
    assert notes.read_text().splitlines() == [call] * 3
    assert "failed: packages: no route to https://host/" in done.stdout
    assert "pw" not in done.stdout
    assert instance.ended


def test_a_reboot_ends_the_machine(instance: FakeInstance) -> None:
    """It forgets the switch, and cloud-init does not run a node's script again."""
    instance.boot(a_boot(setup=("false",)))
    before = len(instance.switched)
    subprocess.run([instance.folder / "per-boot" / "elastune"], env=instance.environment, check=True)
    assert instance.switched[before:] == ["-P now"]


def test_without_the_metadata_service_the_node_is_of_no_use(instance: FakeInstance) -> None:
    instance.imds.silent = True
    done = instance.boot(a_boot())
    assert "failed: join: the metadata service has no answer for instance-id" in done.stdout
    assert instance.ended


def test_elsewhere_than_on_ec2_it_refuses_to_run(instance: FakeInstance) -> None:
    """`shutdown` is still the fake one here: it comes first in PATH."""
    assert shutil.which("shutdown", path=instance.environment["PATH"]) == str(
        instance.folder / "bin/shutdown"
    )
    del instance.environment["ELASTUNE_SHUTDOWN"]
    instance.environment["ELASTUNE_FIRMWARE"] = str(instance.folder)
    instance.imds.silent = True
    done = instance.boot(a_boot())
    assert (done.returncode, done.stdout) == (3, "")
    assert "this is no EC2 instance" in done.stderr
    assert instance.switched == []
    assert not instance.state.exists()


@dataclass(frozen=True)
class Cluster:
    """A head with token authentication, and the secret that holds its token."""

    address: str
    token: str
    secret: str
    driver: Mapping[str, str]
    """The environment in which a process gets in."""
    aws: Mapping[str, str]


@pytest.fixture(scope="module")
def aws() -> Iterator[Mapping[str, str]]:
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - heavy

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }
    finally:
        server.stop()


@pytest.fixture
def head(land: Land) -> Cluster:
    return Cluster(
        address=land.head.address,
        token=land.head.token,
        secret=put_secret(land.aws, f"{land.head.token}\n"),
        driver={**os.environ, **KEEP_READABLE, **land.head.environment},
        aws={**land.aws, "AWS_DEFAULT_REGION": REGION},
    )


def client_of(aws: Mapping[str, str], service: str, region: str = "us-east-1") -> Any:
    import boto3  # noqa: PLC0415 - heavy

    return boto3.client(
        service,
        region_name=region,
        endpoint_url=aws["AWS_ENDPOINT_URL"],
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )


def put_secret(aws: Mapping[str, str], text: str) -> str:
    name = f"ray-{secrets.token_hex(4)}"
    client = client_of(aws, "secretsmanager", REGION)
    client.create_secret(Name=name, SecretString=text)
    client.close()
    return name


DRIVER = """
import json, sys, time
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from elastune.providers.ray_cluster import draining_nodes, ray_nodes_by_instance

ray.init(address=sys.argv[1], _node_ip_address="127.0.0.2", log_to_driver=False, logging_level="ERROR")
nodes = ray_nodes_by_instance()

@ray.remote(num_cpus=2)
class Busy:
    def ping(self):
        return ray.get_runtime_context().get_node_id()

(node,) = nodes.values()
busy = Busy.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote()
at = ray.get(busy.ping.remote())
print(json.dumps([nodes, at, draining_nodes()]), flush=True)
while not draining_nodes():
    time.sleep(0.05)
print(json.dumps([time.time(), draining_nodes(), ray.get(busy.ping.remote())]), flush=True)
"""


@pytest.mark.slow  # nodes join by a token in clouds/test_whole_path.py; test_watchdog.py hands on a notice
def test_a_node_joins_by_its_token_works_and_hands_on_a_notice(instance: FakeInstance, head: Cluster) -> None:
    instance.environment |= head.aws
    done = instance.boot(a_boot(head=head.address, token_secret=head.secret, region=REGION))
    assert done.stdout == "elastune: ready\n", instance.log("join")
    assert not instance.ended
    node = (instance.state / "ray-node").read_text()
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, head.address],
        env=head.driver, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert driver.stdout is not None
    first = driver.stdout.readline()
    if first:
        instance.pass_time(time.time() - instance.began)
        taken = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
        instance.imds.data["spot/instance-action"] = json.dumps({"action": "terminate", "time": taken})
    printed, complaint = driver.communicate(timeout=PATIENCE_S)
    assert printed, complaint
    assert json.loads(first) == [{INSTANCE: node}, node, {}]
    seen, draining, at = json.loads(printed)
    assert at == node
    assert list(draining) == [node]
    assert 0 < draining[node] - seen <= 3601
    wait_until(lambda: f"noticed: taken away at {taken}" in instance.log("watch"))
    assert_kept_secret(instance, head.token, done.stdout + done.stderr)


@pytest.mark.slow  # Ray asks for 20 s
def test_a_node_with_another_token_is_refused_by_the_head_and_ends(
    instance: FakeInstance, head: Cluster
) -> None:
    instance.environment |= head.aws
    other = put_secret(head.aws, secrets.token_hex(32))
    done = instance.boot(a_boot(head=head.address, token_secret=other, region=REGION))
    assert done.stdout.startswith("elastune: failed: join:")
    assert "token" in done.stdout
    assert instance.ended


def assert_kept_secret(instance: FakeInstance, token: str, said: str) -> None:
    """It is in one file, which no other user can read."""
    holders = [path for path in instance.folder.rglob("*") if path.is_file() and holds(path, token)]
    assert holders == [instance.state / "token"]
    assert stat.S_IMODE(holders[0].stat().st_mode) == 0o600
    assert stat.S_IMODE(instance.state.stat().st_mode) == 0o700
    assert token not in said


def holds(path: Path, text: str) -> bool:
    return text.encode() in path.read_bytes()


def test_a_secret_that_is_not_there_ends_the_machine(instance: FakeInstance, aws: Mapping[str, str]) -> None:
    instance.environment |= aws
    done = instance.boot(a_boot(token_secret="no-such-secret"))
    assert "failed: token:" in done.stdout
    assert "ResourceNotFoundException" in done.stdout
    assert instance.ended


def test_the_lease_is_read_from_ec2_itself(instance: FakeInstance, aws: Mapping[str, str]) -> None:
    """Where the metadata service knows no tags at all."""
    client = client_of(aws, "ec2")
    launched = client.run_instances(ImageId=IMAGE, MinCount=1, MaxCount=1)["Instances"][0]["InstanceId"]
    lease = {"Key": "elastune:expiry", "Value": str(instance.began + 1770)}
    client.create_tags(Resources=[launched], Tags=[lease])
    client.close()
    instance.environment |= {**aws, "ELASTUNE_MARGIN": "120"}
    instance.imds.data["instance-id"] = launched
    instance.watch(a_boot(expires=instance.began + 100))
    wait_until(lambda: bool(instance.switched))
    assert instance.switched == ["--no-wall -P +29"]
