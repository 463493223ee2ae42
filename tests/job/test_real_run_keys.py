"""Keys that only a real run makes use of: where checkpoints go, which are kept, and what counts as hung."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elastune.errors import JobError
from elastune.job.job import Job, load_job
from tests.job.example_jobs import job_data

KEYS = {"storage": "s3://bucket/prefix", "hang_after": "10m", "pickles": True, "keep_checkpoints": "all"}


def test_what_is_left_out_has_a_default_and_is_not_mentioned() -> None:
    job = Job(**job_data())
    assert (job.storage, job.hang_after, job.pickles, job.keep_checkpoints) == (None, None, False, "best")
    assert not KEYS.keys() & job.to_dict().keys()


def test_what_is_written_survives_the_way_to_plain_data_and_back() -> None:
    job = Job.from_dict(job_data(**KEYS))
    assert (job.storage, job.hang_after) == ("s3://bucket/prefix", 600.0)
    assert (job.pickles, job.keep_checkpoints) == (True, "all")
    assert job.to_dict().items() >= {**KEYS, "hang_after": 600.0}.items()
    assert Job.from_dict(json.loads(json.dumps(job.to_dict()))) == job


def test_a_folder_is_relative_to_the_job_file_and_an_address_is_not(tmp_path: Path) -> None:
    path = tmp_path / "jobs" / "job.json"
    path.parent.mkdir()
    for written, expected in [
        ("checkpoints", f"{path.parent}/checkpoints"),
        ("/mnt/checkpoints", "/mnt/checkpoints"),
        ("~/checkpoints", f"{Path.home()}/checkpoints"),
        ("s3://bucket", "s3://bucket"),
        ("gs://bucket/a b", "gs://bucket/a b"),
    ]:
        path.write_text(json.dumps(job_data(storage=written)), encoding="utf-8")
        assert load_job(path).storage == expected
    assert Job(**job_data(storage=Path("here"))).storage == "here"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"storage": ""}, "storage is ''; expected a folder, or an address such as s3://bucket/prefix"),
        ({"storage": " "}, "storage is ' '; expected a folder"),
        ({"storage": "s3://"}, "storage is 's3://'; expected a folder"),
        ({"storage": 5}, "storage is 5; expected a folder"),
        ({"storage": "s3://me:secret@bucket/x"}, "storage has a user and a password in it"),
        ({"storage": "a\nb"}, "storage is 'a\\nb'; expected a folder"),
        ({"hang_after": 0}, "hang_after is 0; expected a positive duration"),
        ({"hang_after": "never"}, "hang_after is 'never'; expected a positive duration"),
        ({"pickles": "yes"}, "pickles is 'yes'; expected true or false"),
        ({"pickles": 1}, "pickles is 1; expected true or false"),
        ({"keep_checkpoints": "last"}, "keep_checkpoints is 'last'; expected best, least or all"),
    ],
)
def test_mistakes_are_errors(changes: dict[str, object], message: str) -> None:
    with pytest.raises(JobError) as caught:
        Job.from_dict(job_data(**changes))
    assert message in str(caught.value)


def test_a_secret_is_not_repeated() -> None:
    with pytest.raises(JobError) as raised:
        Job(**job_data(storage="s3://me:hush@bucket/x"))
    assert "hush" not in str(raised.value)
