"""Where checkpoints are kept: whole or not at all, and what is told when the storage fails."""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

import elastune
from elastune.checkpoints.encoding import encode
from elastune.checkpoints.folders import storage_errors
from elastune.checkpoints.store import Store, load_checkpoint
from elastune.errors import ExecutionError, JobError
from tests.waiting import PATIENCE_S


@pytest.fixture(params=["folder", "file url", "memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """One contract for every kind of storage."""
    url = {
        "folder": lambda: str(tmp_path / "run" / "checkpoints"),
        "file url": lambda: f"file://{tmp_path}/checkpoints",
        "memory": lambda: f"memory://{uuid.uuid4().hex}/checkpoints/",
        "s3": lambda: f"s3://{request.getfixturevalue('bucket')}/{uuid.uuid4().hex}/checkpoints",
    }[request.param]()
    yield Store.open(url)
    if request.param == "memory":
        fsspec.filesystem("memory").store.clear()


def test_what_was_written_is_read_listed_and_deleted(store: Store) -> None:
    assert store.list() == ()
    store.check()
    assert store.list() == ()
    for trial, iteration in ((7, 12), (100000, 1), (7, 2), (0, 1234567)):
        store.write(trial, iteration, f"{trial} {iteration}".encode())
    store.write(7, 12, b"again")
    assert store.list() == ((0, 1234567), (7, 2), (7, 12), (100000, 1))
    assert store.read(7, 12) == b"again"
    assert store.read(0, 1234567) == b"0 1234567"
    for _ in range(2):
        store.delete(7, 12)
    assert (7, 12) not in store.list()
    with pytest.raises(
        ExecutionError, match=r"cannot read .*trial-00007/iteration-000012.ckpt: there is no such"
    ):
        store.read(7, 12)


def test_paths_are_the_same_everywhere(store: Store) -> None:
    path = store.path(7, 12)
    assert path.endswith("/checkpoints/trial-00007/iteration-000012.ckpt")
    assert store.is_local == ("://" not in path)
    store.write(7, 12, encode({"x": 1}))
    assert load_checkpoint(path) == {"x": 1}


def test_a_store_can_be_sent_to_a_worker(store: Store) -> None:
    store.write(1, 1, b"data")
    assert pickle.loads(pickle.dumps(store)).read(1, 1) == b"data"


def test_a_relative_folder_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store.open("checkpoints")
    monkeypatch.chdir("/")
    store.write(1, 1, b"data")
    assert (tmp_path / "checkpoints" / "trial-00001" / "iteration-000001.ckpt").read_bytes() == b"data"


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.write(1, 1, b"data")
    for name in ("notes.txt", "trial-00001/.iteration-000002.ckpt.x.tmp", "trial-00001/iteration-2.ckpt"):
        (tmp_path / name).write_bytes(b"")
    assert store.list() == ((1, 1),)


# Failures.


def test_a_machine_that_does_not_have_the_folder_is_told(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "checkpoints")
    with pytest.raises(
        ExecutionError, match=r"there is no folder .*checkpoints on this machine .* all machines share"
    ):
        store.check_reach()
    store.check()
    store.check_reach()
    Store.open("memory://somewhere").check_reach()


def test_a_file_in_place_of_a_folder_is_told_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("not a folder")
    for where in (tmp_path / "checkpoints", tmp_path / "checkpoints" / "deeper"):
        with pytest.raises(
            ExecutionError, match="a file stands where a folder is expected; move it away, or keep"
        ):
            Store.open(where).check()


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root")
def test_a_read_only_folder_is_told_before_the_run(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ExecutionError, match="permission denied; make the folder writable"):
            Store.open(tmp_path).check()
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.skipif(not Path("/proc/sys").is_dir(), reason="needs a file system that nobody may write to")
def test_a_place_that_takes_no_files_is_told_before_the_run() -> None:
    with pytest.raises(ExecutionError, match=r"cannot write /proc/checkpoints/\.probe-"):
        Store.open("/proc/checkpoints").check()


LIMITED = """
import resource, sys
from elastune.checkpoints.store import Store
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    Store.open(sys.argv[1]).write(1, 1, b"new" * 1000)
except Exception as error:
    print(type(error).__name__, error)
"""


def test_a_write_that_fails_half_way_leaves_the_old_checkpoint_and_no_rubbish(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.write(1, 1, b"old")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert done.stdout.startswith(f"ExecutionError cannot write {store.path(1, 1)}: the file would be larger")
    assert store.read(1, 1) == b"old"
    assert [path.name for path in (tmp_path / "trial-00001").iterdir()] == ["iteration-000001.ckpt"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            OSError(errno.ENOSPC, "No space left"),
            "cannot write /here: the disk is full; free some space, or keep",
        ),
        (
            OSError(errno.EROFS, "Read-only"),
            "cannot write /here: the file system is read-only; keep the checkpoints",
        ),
        (
            PermissionError(errno.EACCES, "denied"),
            "cannot write /here: permission denied; make the folder writable",
        ),
        (OSError("strange"), "cannot write /here: strange"),
        (RuntimeError("no credentials"), "cannot write /here: RuntimeError: no credentials"),
    ],
)
def test_every_failure_says_what_where_and_what_to_do(error: Exception, message: str) -> None:
    with pytest.raises(ExecutionError) as caught, storage_errors("write", "/here"):
        raise error
    assert message in str(caught.value)


def test_storage_that_nobody_knows_or_whose_package_is_missing_is_told_at_once() -> None:
    with pytest.raises(
        JobError, match="nowhere:// is no storage that fsspec knows; expected a local folder, s3://"
    ):
        Store.open("nowhere://bucket/folder")
    with pytest.raises(JobError, match=r"adl:// needs another package on every machine: .*"):
        Store.open("adl://bucket/folder")


def test_a_bucket_that_was_misspelled_is_told_and_not_made(bucket: str) -> None:
    import boto3  # noqa: PLC0415

    with pytest.raises(ExecutionError, match=r"cannot write s3://elastune-testz/run/\.probe-"):
        Store.open("s3://elastune-testz/run").check()
    names = {each["Name"] for each in boto3.client("s3").list_buckets()["Buckets"]}
    assert bucket in names
    assert "elastune-testz" not in names


IN_ANOTHER_PROCESS = """
import sys
from elastune.checkpoints.store import Store
store = Store.open(sys.argv[1])
store.write(2, 1, store.read(1, 1) + b" and back")
"""


def test_what_one_machine_wrote_to_s3_another_reads(bucket: str) -> None:
    """A listing is not remembered: the driver sees what a node wrote after it looked."""
    url = f"s3://{bucket}/{uuid.uuid4().hex}"
    store = Store.open(url)
    store.write(1, 1, b"there")
    assert store.list() == ((1, 1),)
    subprocess.run([sys.executable, "-c", IN_ANOTHER_PROCESS, url], timeout=PATIENCE_S, check=True)
    assert store.list() == ((1, 1), (2, 1))
    assert store.read(2, 1) == b"there and back"
    store.write_underway(1, 2, 3, b"half")
    assert store.read_underway(1, 2, 3) == b"half"
    store.tidy_underway()
    assert store.list() == ((1, 1), (2, 1))


def test_a_large_checkpoint_goes_to_s3_whole(bucket: str) -> None:
    """In several parts, of which none is seen before all are there."""
    store = Store.open(f"s3://{bucket}/{uuid.uuid4().hex}")
    large = bytes(range(256)) * (60 * 10**6 // 256)
    store.write(1, 1, large)
    assert store.read(1, 1) == large


def test_a_password_in_a_url_is_not_repeated() -> None:
    store = Store.open("memory://user:secret@host/folder")
    with pytest.raises(ExecutionError) as caught:
        store.read(1, 1)
    assert "secret" not in str(caught.value)
    assert "memory://host/folder/trial-00001/iteration-000001.ckpt" in str(caught.value)


# For users.


def test_a_user_loads_a_checkpoint_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "best.ckpt").write_bytes(encode({"w": 1}))
    (tmp_path / "broken.ckpt").write_bytes(encode({"w": 1})[:-1])
    (tmp_path / "pickled.ckpt").write_bytes(encode({1, 2}, pickles=True))
    monkeypatch.chdir(tmp_path)
    assert elastune.load_checkpoint("best.ckpt") == {"w": 1}
    assert load_checkpoint(tmp_path / "best.ckpt") == {"w": 1}
    assert load_checkpoint("pickled.ckpt", pickles=True) == {1, 2}
    with pytest.raises(ExecutionError, match=r"broken.ckpt: the checkpoint is cut off"):
        load_checkpoint("broken.ckpt")
    with pytest.raises(ExecutionError, match=r"cannot read .*missing.ckpt: there is no such checkpoint"):
        load_checkpoint("missing.ckpt")
